"""How two states differ: a line a file or part, told by ids, or tensor by tensor, a chunk at a time."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvcs.checkpoint import roles_of
from mvcs.objects import (
    DType,
    FileEntry,
    FileFormat,
    Leaf,
    QuantizedTensor,
    Tree,
    blob_reference,
    children_of,
    dumps,
    path_text,
    tensor_reference,
)
from mvcs.progress import SILENT, Progress
from mvcs.quantize import Resolution, to_float32
from mvcs.reports import FILE, PART, CommitInfo, Diff, FileChange, TensorDiff
from mvcs.restore.open_commit import EXACT_LAYER, VALUE_LAYER, Reading, open_reading, primitives
from mvcs.restore.plan import PlannedReads, planned
from mvcs.store import UnreadStore

_ABSENT = object()
Numbers = NDArray[np.float64]


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


@dataclass
class DifferenceSums:
    """Sums over pairs of values, in float64."""

    count: int = 0
    changed: int = 0
    moved: int = 0
    left: float = 0.0
    right: float = 0.0
    cross: float = 0.0
    change: float = 0.0
    largest: float = 0.0

    def add(
        self,
        left: Numbers,
        right: Numbers,
        same: NDArray[np.bool_],
        steps: Numbers | None,
    ) -> None:
        """Add a chunk.

        Args:
            left: its elements on one side.
            right: on the other.
            same: which of them are equal, byte for byte.
            steps: by how much each may differ for no other reason than rounding; None for not at all.
        """
        self.moved += _moved(left, right, same, steps)
        finite = np.isfinite(left) & np.isfinite(right)
        one, two = left[finite], right[finite]
        error = two - one
        self.count += left.size
        self.changed += int(np.count_nonzero(~same))
        self.left += float(one @ one)
        self.right += float(two @ two)
        self.cross += float(one @ two)
        self.change += float(error @ error)
        self.largest = max(self.largest, float(np.abs(error).max(initial=0.0)))

    def report(self, path: str) -> TensorDiff:
        """Return what the sums say of the tensor at a path."""
        rms_left, rms_change = (math.sqrt(total / max(self.count, 1)) for total in (self.left, self.change))
        norm = math.sqrt(self.left) * math.sqrt(self.right)
        return TensorDiff(
            path,
            "changed",
            changed_fraction=self.changed / max(self.count, 1),
            rms_left=rms_left,
            rms_change=rms_change,
            relative=rms_change / rms_left if rms_left else None,
            max_change=self.largest,
            cosine=self.cross / norm if norm else None,
            moved_fraction=self.moved / max(self.count, 1),
        )


def _moved(
    left: Numbers,
    right: Numbers,
    same: NDArray[np.bool_],
    steps: Numbers | None,
) -> int:
    """Count elements that differ by more than a step."""
    if steps is None:
        return int(np.count_nonzero(~same))
    with np.errstate(invalid="ignore"):
        return int(np.count_nonzero(~same & ~(np.abs(right - left) <= steps)))


def rounding_steps(
    resolutions: Sequence[Resolution | None], index: int, values: Sequence[Numbers]
) -> Numbers | None:
    """Return by how much each element may differ for no other reason than rounding; None for not at all."""
    known = [one for one in resolutions if one is not None]
    # Means of rows and columns can be compared with their like: then they moved, and by so much.
    if not known or (len(known) > 1 and all(one.unlimited for one in known)):
        return None
    beside = zip(resolutions, values, values[::-1], strict=True)
    steps = [one.steps(index, mine, theirs) for one, mine, theirs in beside if one is not None]
    return np.maximum(steps[0], steps[-1])


def same_elements(one: bytes | memoryview, two: bytes | memoryview, dtype: DType) -> NDArray[np.bool_]:
    """Compare elements byte for byte, so that NaN equals itself; complex elements count once."""
    left, right = (np.frombuffer(chunk, np.uint8).reshape(-1, dtype.itemsize) for chunk in (one, two))
    equal = left == right
    same: NDArray[np.bool_] = equal.all(axis=1)
    return same


def as_numbers(chunk: bytes | memoryview, dtype: DType) -> Numbers:
    """Return the elements of a chunk as float64: of complex ones the magnitudes."""
    if dtype.quantizable:
        return to_float32(chunk, dtype.name).astype(np.float64)
    if dtype.numpy is None:
        return np.frombuffer(chunk, np.uint8).astype(np.float64)[:: dtype.itemsize]
    values = np.frombuffer(chunk, dtype.numpy)
    return np.abs(values).astype(np.float64) if dtype.kind == "complex" else values.astype(np.float64)
