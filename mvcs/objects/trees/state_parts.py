"""Parts of a state, which are what stands under the keys at its top: some of them, and one alone."""

from collections.abc import Collection

from mvcs.objects.cbor import Value
from mvcs.objects.trees.file_trees import files_in, part_of
from mvcs.objects.trees.structure import NodeTag, children_of, renumber, tensor_reference
from mvcs.objects.trees.tree import Tree


def narrowed_tree(tree: Tree, names: Collection[str]) -> Tree:
    """Return the tree of the files that are named or lie in named folders, or of such parts of a state."""
    if tree.files is not None:
        return part_of(tree, files_in(tree, names))
    if "." in names:
        return tree
    kept: list[Value] = [[key, node] for key, node in children_of(tree.root) if str(key) in names]
    return _with_root(tree, [int(NodeTag.DICT), kept])


def part_alone(tree: Tree, name: str) -> Tree | None:
    """Return what stands under a key of a state, or under several joined by dots, as a state of its own.

    None where there is no such key; and where several lead to a single tensor, which no state is.
    """
    node, rest = tree.root, name
    while rest:
        below = [(str(key), child) for key, child in children_of(node)]
        # A key may hold dots, so the longest that fits is taken.
        fits = [found for found in below if f"{rest}.".startswith(f"{found[0]}.")]
        if not fits:
            return None
        key, node = max(fits, key=lambda found: len(found[0]))
        if rest != name and tensor_reference(node) is not None:
            return None
        rest = rest[len(key) + 1 :]
    return _with_root(tree, node)


def _with_root(tree: Tree, root: Value) -> Tree:
    """Number the leaves anew that a part of a state's structure holds."""
    met: dict[int, int] = {}
    new = renumber(root, lambda index: met.setdefault(index, len(met)))
    return Tree(tuple(tree.leaves[index] for index in met), root=new)
