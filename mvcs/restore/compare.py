"""How two states differ, tensor by tensor, a chunk at a time."""

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from mvcs.checkpoint import roles_of
from mvcs.objects import FileEntry, FileFormat, QuantizedTensor, Tree, path_text
from mvcs.progress import SILENT, Progress
from mvcs.quantize import Resolution
from mvcs.reports import CommitInfo, Diff, TensorDiff
from mvcs.restore.difference_sums import DifferenceSums, as_numbers, rounding_steps, same_elements
from mvcs.restore.open_commit import EXACT_LAYER, VALUE_LAYER, Reading, open_reading, primitives
from mvcs.restore.plan import PlannedReads, planned
from mvcs.store import UnreadStore

_ABSENT = object()


@dataclass(frozen=True)
class ComparedSide:
    """One of two things that are compared.

    Attributes:
        tree: its structure, with exact ids.
        chunks: gives the bytes of a leaf, by index, chunk by chunk.
        layer: what it is, as a report says it.
        resolution: gives the steps of a leaf, by index, where it is quantized; None for an exact one.
        stored: gives how many bytes of a store leaves are read from, by index.
    """

    tree: Tree
    chunks: Callable[[int], Iterator[bytes | memoryview]]
    layer: str | None = None
    resolution: Callable[[int], Resolution | None] = lambda _: None
    stored: Callable[[Collection[int]], int] = lambda _: 0


def side_of(reading: Reading, by_value: Collection[int] = ()) -> ComparedSide:
    """Return a commit opened for reading as one side; leaves in `by_value` come from the value layer."""
    leaves, store = reading.tree.leaves, reading.store

    def is_exact(index: int) -> bool:
        return leaves[index].original is None or (reading.exact and index not in by_value)

    def resolution(index: int) -> Resolution | None:
        tensor = None if is_exact(index) else leaves[index].tensor
        return Resolution(tensor, store.restorer) if isinstance(tensor, QuantizedTensor) else None

    lossy = [not is_exact(index) for index, leaf in enumerate(leaves) if leaf.original is not None]
    layer = "mixed" if any(lossy) and not all(lossy) else VALUE_LAYER if any(lossy) else EXACT_LAYER
    return ComparedSide(
        reading.tree,
        lambda index: store.chunks(leaves[index], exact=reading.exact and is_exact(index)),
        layer,
        resolution,
        lambda indices: _stored_bytes(reading, indices),
    )


def _stored_bytes(reading: Reading, indices: Collection[int]) -> int:
    view = UnreadStore(reading.store.backend)
    opened = open_reading(view, reading.revision, SILENT, exact=reading.exact)
    reads = PlannedReads.of(reading.tree, indices)
    return planned(view, replace(opened, tree=reading.tree), reads).stored_bytes


def compare_sides(
    left: ComparedSide,
    right: ComparedSide,
    infos: tuple[CommitInfo | None, CommitInfo | None],
    progress: Progress,
    allow: Callable[[int, Callable[[], int]], None],
) -> Diff:
    """Compare two sides; tensors with equal exact ids are not read.

    Args:
        left: one side.
        right: the other.
        infos: what they are.
        progress: is told the bytes done.
        allow: gets how many bytes differ before they are read, and what counts the stored bytes they come
            from; raises where they are too many.
    """
    before, after = _by_path(left.tree), _by_path(right.tree)
    tensors = [TensorDiff(path, "removed") for path in before if path not in after]
    tensors += [TensorDiff(path, "added") for path in after if path not in before]
    shared = [path for path in before if path in after]
    leaves = {path: (left.tree.leaves[before[path]], right.tree.leaves[after[path]]) for path in shared}
    differing = [path for path, (one, two) in leaves.items() if one.handed_over != two.handed_over]
    size = sum(leaves[path][0].raw_bytes for path in differing)
    indices = [(before[path], after[path]) for path in differing]
    allow(size, lambda: left.stored([one for one, _ in indices]) + right.stored([two for _, two in indices]))
    progress.start("comparing", size, "bytes")
    found = [_tensor(path, (left, before[path]), (right, after[path]), progress) for path in differing]
    progress.finish()
    parts = _roles(left.tree, before) | _roles(right.tree, after)
    changed = [item for item in found if item.changed_fraction != 0.0]
    unchanged = len(shared) - len(changed)
    files, values = _files(left.tree, right.tree), _values(left.tree, right.tree)
    named = [replace(item, role=parts[item.path]) for item in tensors + changed]
    return Diff(*infos, named, unchanged, values, files, left.layer, right.layer)


def _roles(tree: Tree, indices: dict[str, int]) -> dict[str, str]:
    found = roles_of(tree)
    return {path: found[index].value for path, index in indices.items()}


def _by_path(tree: Tree) -> dict[str, int]:
    return {path_text(path): index for index, path in enumerate(tree.leaf_paths())}


def _tensor(
    path: str, one: tuple[ComparedSide, int], two: tuple[ComparedSide, int], progress: Progress
) -> TensorDiff:
    (left, before), (right, after) = one, two
    old, new = left.tree.leaves[before], right.tree.leaves[after]
    if (old.dtype, old.shape) != (new.dtype, new.shape):
        progress.advance(old.raw_bytes)
        return TensorDiff(path, "retyped")
    resolutions = left.resolution(before), right.resolution(after)
    sums = DifferenceSums()
    pairs = zip(left.chunks(before), right.chunks(after), strict=True)
    for index, chunks in enumerate(pairs):
        numbers = [as_numbers(chunk, old.dtype) for chunk in chunks]
        same, steps = same_elements(*chunks, old.dtype), rounding_steps(resolutions, index, numbers)
        sums.add(numbers[0], numbers[1], same, steps)
        progress.advance(len(chunks[0]))
    found = sums.report(path)
    if any(resolution is not None and resolution.left_out for resolution in resolutions):
        return replace(found, cause="left out")
    return found if found.moved_fraction or not found.changed_fraction else replace(found, cause="rounding")


def _files(left: Tree, right: Tree) -> list[tuple[str, str]]:
    before = {entry.path: entry for entry in left.files or ()}
    after = {entry.path: entry for entry in right.files or ()}
    found = [(path, "removed") for path in before if path not in after]
    found += [(path, "added") for path in after if path not in before]
    shared = [(before[path], after[path]) for path in before if path in after]
    found += [(one.path, told) for one, two in shared if (told := _file(one, two))]
    return sorted(found)


def _file(before: FileEntry, after: FileEntry) -> str | None:
    """Tell how a file differs beyond its tensors and values."""
    if before.format is not after.format:
        return f"{before.format} became {after.format}"
    if before.format is FileFormat.OPAQUE:
        return "changed" if before.node != after.node else None
    if before.header == after.header:
        return None
    if before.format is FileFormat.SAFETENSORS:
        return "header changed"
    # A layout has checksums of values, and values that the structure has as well.
    same = before.node == after.node or before.format is FileFormat.BINARY
    return "bytes beside its tensors changed" if same else None


def _values(left: Tree, right: Tree) -> list[tuple[str, Any, Any]]:
    before, after = dict(primitives(left)), dict(primitives(right))
    pairs = [(path, before.get(path, _ABSENT), after.get(path, _ABSENT)) for path in {**before, **after}]
    differing = [item for item in pairs if not _equal(item[1], item[2])]
    return [
        (path, None if one is _ABSENT else one, None if two is _ABSENT else two)
        for path, one, two in differing
    ]


def _equal(one: Any, two: Any) -> bool:  # noqa: ANN401 - any primitive
    if isinstance(one, float) and isinstance(two, float) and math.isnan(one) and math.isnan(two):
        return True
    return type(one) is type(two) and one == two
