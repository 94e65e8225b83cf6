"""Trees of files, taken apart and joined: some files of one, and the files of two as one."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from mvcs.objects.trees.leaves import FileEntry, Leaf
from mvcs.objects.trees.structure import renumber
from mvcs.objects.trees.tree import Tree


def part_of(tree: Tree, paths: Collection[str]) -> Tree:
    """Return the tree of some of a tree's files."""
    return _numbered((entry, tree) for entry in tree.files or () if entry.path in paths)


def renamed_files(tree: Tree, names: Mapping[str, str]) -> Tree:
    """Return the tree of some of a tree's files, by their paths, under other ones."""
    files = [replace(entry, path=names[entry.path]) for entry in tree.files or () if entry.path in names]
    return _numbered((entry, tree) for entry in sorted(files, key=lambda entry: entry.path))


def joined_trees(one: Tree, other: Tree) -> Tree:
    """Return the tree of the files of two trees, which have no path in common."""
    found = [(entry, tree) for tree in (one, other) for entry in tree.files or ()]
    return _numbered(sorted(found, key=lambda pair: pair[0].path))


def _numbered(files: Iterable[tuple[FileEntry, Tree]]) -> Tree:
    """Number leaves anew through all files, in the order in which they are met."""
    met: dict[tuple[int, int], int] = {}
    leaves: list[Leaf] = []
    entries = []
    for entry, tree in files:

        def number(index: int, tree: Tree = tree) -> int:
            new = met.setdefault((id(tree), index), len(leaves))
            if new == len(leaves):
                leaves.append(tree.leaves[index])
            return new

        entries.append(replace(entry, node=renumber(entry.node, number)))
    return Tree(tuple(leaves), files=tuple(entries))


def is_in_the_way(path: str, others: Collection[str]) -> bool:
    """Tell whether a path names a folder that one of the others needs as a file, or the other way round."""
    above = {str(parent) for parent in PurePosixPath(path).parents}
    return any(other in above or other.startswith(f"{path}/") for other in others)


def is_inside(path: str, folder: str) -> bool:
    """Tell whether a path is a folder's, or the folder itself."""
    return folder in (".", path) or path.startswith(f"{folder}/")


def files_in(tree: Tree, names: Collection[str]) -> list[str]:
    """Return the paths of a tree's files that were named, or lie in a folder that was."""
    paths = [entry.path for entry in tree.files or ()]
    return [path for path in paths if any(is_inside(path, name) for name in names)]
