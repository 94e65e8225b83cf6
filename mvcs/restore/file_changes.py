"""What differs between two trees, a line a file or part: told by ids, so that no content is read."""

from dataclasses import dataclass, field, replace

from mvcs.objects import Leaf, Tree, blob_reference, children_of, dumps, path_text, tensor_reference
from mvcs.reports import FILE, PART, FileChange


@dataclass
class _Part:
    """A file, or what stands under one key of a state.

    Attributes:
        tensors: by path.
        rest: everything else, encoded, by path.
        blobs: bytes of blobs.
    """

    tensors: dict[str, Leaf] = field(default_factory=dict)
    rest: list[tuple[str, bytes]] = field(default_factory=list)
    blobs: int = 0

    @property
    def raw_bytes(self) -> int:
        return self.blobs + sum(leaf.raw_bytes for leaf in self.tensors.values())


def summarize(left: Tree, right: Tree) -> list[FileChange]:
    """Return the files that differ, or the parts of states, sorted by name; of each there may be some."""
    before, after = _parts(left), _parts(right)
    found = {
        (name, kind): _change(name, before.get((name, kind)), after.get((name, kind)))
        for name, kind in sorted({**before, **after})
    }
    return [replace(change, kind=kind) for (_, kind), change in found.items() if change is not None]


def _parts(tree: Tree) -> dict[tuple[str, str], _Part]:
    """Return files, or the parts of a state, by name and kind."""
    kind = PART if tree.files is None else FILE
    parts = {(entry.path, kind): _Part(rest=[("", dumps(entry.format.value))]) for entry in tree.files or ()}
    for path, node in tree.nodes():
        reference = tensor_reference(node)
        if reference is None and any(True for _ in children_of(node)):
            continue
        part = parts.setdefault((str(path[0]) if path else "", kind), _Part())
        if reference is not None:
            part.tensors[path_text(path)] = tree.leaves[reference[0]]
        else:
            part.rest.append((path_text(path), dumps(node)))
            blob = blob_reference(node)
            part.blobs += blob[1] if blob else 0
    return parts


def _change(name: str, before: _Part | None, after: _Part | None) -> FileChange | None:
    if before is None or after is None:
        part = before or after or _Part()
        state, size = "removed" if after is None else "added", part.raw_bytes
        return FileChange(name, state, len(part.tensors), len(part.tensors), size, size)
    differing = [
        path
        for path in {**before.tensors, **after.tensors}
        if _content(before.tensors.get(path)) != _content(after.tensors.get(path))
    ]
    if not differing and before.rest == after.rest:
        return None
    sizes = [(after.tensors.get(path) or before.tensors[path]).raw_bytes for path in differing]
    blobs = after.blobs if before.rest != after.rest else 0
    return FileChange(
        name, "changed", len(after.tensors), len(differing), after.raw_bytes, sum(sizes) + blobs
    )


def _content(leaf: Leaf | None) -> object:
    return None if leaf is None else leaf.handed_over
