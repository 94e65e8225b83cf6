"""What restoring a commit, or a part of it, will read: gone through before any chunk is read."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from mvcs.checkpoint import can_hold, format_as_it_is
from mvcs.objects import (
    FileEntry,
    FileFormat,
    ObjectId,
    Path,
    Tree,
    Value,
    blob_reference,
    contents_of,
    tensor_reference,
    walk_nodes,
)
from mvcs.restore.open_commit import Reading, flat_names, select
from mvcs.store import RestoreCost, UnreadStore

Item = int | tuple[ObjectId, int]
"""A leaf by its number, or a blob by id and length."""


@dataclass(frozen=True)
class PlannedReads:
    """What a restore reads of a commit, in order.

    Attributes:
        items: leaves and blobs.
        raw_bytes: of these.
    """

    items: tuple[Item, ...]
    raw_bytes: int

    @classmethod
    def of(cls, tree: Tree, items: Iterable[Item]) -> "PlannedReads":
        """Return reads, and what they are worth."""
        found = tuple(items)
        sizes = (tree.leaves[item].raw_bytes if isinstance(item, int) else item[1] for item in found)
        return cls(found, sum(sizes))


def reads_of_files(tree: Tree, entries: Iterable[FileEntry]) -> PlannedReads:
    """Return what writing files as they were reads: each file by itself."""
    return PlannedReads.of(tree, (item for entry in entries for item in _file(entry)))


def reads_of_state(tree: Tree, pattern: str | None, prefix: str | None) -> PlannedReads:
    """Return what making a state in memory reads.

    Raises:
        NotFoundError: no tensor matches.
        UsageError: without the prefix two tensors would have one name.
    """
    if pattern is not None or prefix is not None:
        return PlannedReads.of(tree, dict.fromkeys(flat_names(tree, pattern, prefix or "").values()))
    return PlannedReads.of(tree, _once(contents_of(tree.files, tree.root)))


def reads_of_export(
    tree: Tree, target: FileFormat | None, pattern: str | None, prefix: str | None
) -> PlannedReads:
    """Return what an export reads that writes one file of a format, or all files as they were (None).

    Raises:
        NotFoundError: no tensor matches.
        UsageError: without the prefix two tensors would have one name.
    """
    names = None if prefix is None else flat_names(tree, pattern, prefix)
    chosen = select(tree, pattern) if names is None else set(names.values())
    entries = tree.files
    is_single = entries is not None and len(entries) == 1 and target in (None, format_as_it_is(entries[0]))
    if entries is not None and chosen is None and (target is None or is_single):
        return reads_of_files(tree, entries)
    whole = chosen is None and (entries is None or len(entries) == 1)
    if target is FileFormat.TORCH and whole and not _is_opaque(entries):
        return PlannedReads.of(tree, _once(list(contents_of(entries, tree.root))[:1]))
    return PlannedReads.of(tree, _tensors(tree, target, chosen))


def _is_opaque(entries: tuple[FileEntry, ...] | None) -> bool:
    return entries is not None and entries[0].format is FileFormat.OPAQUE


def _tensors(tree: Tree, target: FileFormat | None, chosen: Collection[int] | None) -> Iterator[int]:
    met = {index for _, index in tree.tensor_paths()}
    for index in sorted(met if chosen is None else set(chosen)):
        if target is not FileFormat.SAFETENSORS or can_hold(tree.leaves[index].dtype):
            yield index


def _file(entry: FileEntry) -> Iterator[Item]:
    header = None if entry.header is None else blob_reference(entry.header)
    if header is not None:
        yield header
    yield from _once([((), entry.node)])


def _once(contents: Iterable[tuple[Path, Value]]) -> Iterator[Item]:
    """Yield blobs as they come, and each leaf where it is met first."""
    met: set[int] = set()
    for _, root in contents:
        for _, node in walk_nodes(root):
            leaf, blob = tensor_reference(node), blob_reference(node)
            if leaf is not None and leaf[0] not in met:
                met.add(leaf[0])
                yield leaf[0]
            elif blob is not None:
                yield blob


def planned(store: UnreadStore, reading: Reading, reads: PlannedReads) -> RestoreCost:
    """Go through reads of a commit that was opened in a store; return what they take beyond opening it.

    Raises:
        NotFoundError: something is nowhere in the store.
        CorruptionError: a description is damaged.
    """
    before, depth = store.cost, 0
    for item in reads.items:
        if isinstance(item, int):
            leaf = reading.tree.leaves[item]
            deque(store.chunks(leaf, exact=reading.exact), maxlen=0)
            depth = max(depth, store.depth(leaf, exact=reading.exact))
        else:
            deque(store.blob(*item), maxlen=0)
    return store.cost.since(before, depth)
