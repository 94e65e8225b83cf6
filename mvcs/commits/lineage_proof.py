"""Whether what a commit stores had all been handed over to its parent: then it came from no value layer."""

import json
from collections.abc import Iterator

from mvcs.checkpoint import METADATA_KEY
from mvcs.objects import (
    FileEntry,
    FileFormat,
    ObjectId,
    Tree,
    blob_reference,
    cbor,
    children_of,
    contents_of,
    tensor_reference,
    walk_nodes,
)


def proves_exact(parent: Tree | None, tree: Tree, *, nothing_left: bool) -> bool:
    """Tell whether content alone proves that a state of unknown origin is no lossily restored one.

    Where nothing lossy left the store, what stands beside tensors is not asked: settings, a counter of steps.

    Args:
        parent: what the parent holds, or nothing.
        tree: what was stored.
        nothing_left: whether no lossy values left the store.
    """
    if nothing_left and (tree.leaves or tree.files is not None):
        return brings_no_tensor(parent, tree)
    return brings_nothing(parent, tree)


def brings_nothing(parent: Tree | None, tree: Tree) -> bool:
    """Tell whether all of a tree had been handed over to the parent, bit for bit.

    Tensors and blobs may stand elsewhere under other names; numbers and text stand where the parent has them.

    Args:
        parent: what the parent holds, or nothing.
        tree: what was stored.
    """
    return brings_no_tensor(parent, tree) and _contents(tree) <= (_contents(parent) if parent else set())


def brings_no_tensor(parent: Tree | None, tree: Tree) -> bool:
    """Tell whether every tensor had been handed over to the parent, whatever stands beside them."""
    known = {leaf.handed_over for leaf in parent.leaves} if parent else set()
    return all(leaf.handed_over in known for leaf in tree.leaves)


def _contents(tree: Tree) -> set[object]:
    """Return all that a tree holds beside tensors: blobs by their ids, all else with its place in a file."""
    return {*_nodes(tree), *(part for entry in tree.files or () for part in _header(entry))}


def _nodes(tree: Tree) -> Iterator[object]:
    for _, content in contents_of(tree.files, tree.root):
        for path, node in walk_nodes(content):
            if tensor_reference(node) is None and next(children_of(node), None) is None:
                yield _blob(node) or (path, cbor.dumps(node))


def _blob(node: cbor.Value) -> ObjectId | None:
    found = blob_reference(node)
    return found[0] if found else None


def _header(entry: FileEntry) -> Iterator[object]:
    """Yield what a header says beside names and places; one that is long, or a layout, counts as a whole.

    A layout of a torch or npz file says nothing that its structure does not.
    """
    header = entry.header
    if entry.format in (FileFormat.TORCH, FileFormat.NPZ):
        return
    if isinstance(header, bytes):
        yield from _metadata(header)
    elif header is not None:
        yield _blob(header)


def _metadata(header: bytes) -> Iterator[object]:
    try:
        metadata = json.loads(header).get(METADATA_KEY) or {}
        yield from ((METADATA_KEY, name, str(value)) for name, value in metadata.items())
    except (ValueError, AttributeError, RecursionError):
        yield header  # a stranger's, which no file was taken apart for
