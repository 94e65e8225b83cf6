"""How two states differ, tensor by tensor, a chunk at a time."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvcs.objects.dtypes import DType
from mvcs.objects.structure import path_text
from mvcs.objects.tree import FileEntry, FileFormat, Leaf, Tree
from mvcs.progress import Progress
from mvcs.quantize.values import to_float32
from mvcs.repository.reports import CommitInfo, Diff, TensorDiff
from mvcs.repository.restoring import Reading, primitives

_ABSENT = object()


@dataclass
class _Sums:
    """Sums over pairs of values, in float64."""

    count: int = 0
    changed: int = 0
    left: float = 0.0
    right: float = 0.0
    cross: float = 0.0
    change: float = 0.0
    largest: float = 0.0

    def add(self, left: NDArray[np.float64], right: NDArray[np.float64], same: NDArray[np.bool_]) -> None:
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
        )


@dataclass(frozen=True)
class Side:
    """One of two things that are compared.

    Attributes:
        tree: its structure, with exact ids.
        chunks: gives the bytes of a leaf, by index, chunk by chunk.
    """

    tree: Tree
    chunks: Callable[[int], Iterator[bytes]]


def side_of(reading: Reading) -> Side:
    """Return a commit opened for reading as one side."""
    leaves = reading.tree.leaves
    return Side(reading.tree, lambda index: reading.store.chunks(leaves[index], exact=reading.exact))


def compare(
    left: Side,
    right: Side,
    infos: tuple[CommitInfo | None, CommitInfo | None],
    progress: Progress,
    allow: Callable[[int], None],
) -> Diff:
    """Compare two sides; tensors with equal exact ids are not read.

    Args:
        left: one side.
        right: the other.
        infos: what they are.
        progress: is told the bytes done.
        allow: is told how many bytes differ before they are read, and raises where they are too many.
    """
    before, after = _by_path(left.tree), _by_path(right.tree)
    tensors = [TensorDiff(path, "removed") for path in before if path not in after]
    tensors += [TensorDiff(path, "added") for path in after if path not in before]
    shared = [path for path in before if path in after]
    leaves = {path: (left.tree.leaves[before[path]], right.tree.leaves[after[path]]) for path in shared}
    differing = [path for path, (one, two) in leaves.items() if one.exact_id != two.exact_id]
    size = sum(leaves[path][0].raw_bytes for path in differing)
    allow(size)
    progress.start("comparing", size, "bytes")
    found = [
        _tensor(path, *leaves[path], left.chunks(before[path]), right.chunks(after[path]), progress)
        for path in differing
    ]
    progress.finish()
    changed = [item for item in found if item.changed_fraction != 0.0]
    unchanged = len(shared) - len(changed)
    files, values = _files(left.tree, right.tree), _values(left.tree, right.tree)
    return Diff(*infos, tensors + changed, unchanged, values, files)


def _by_path(tree: Tree) -> dict[str, int]:
    return {path_text(path): index for index, path in enumerate(tree.leaf_paths())}


def _tensor(
    path: str, before: Leaf, after: Leaf, old: Iterator[bytes], new: Iterator[bytes], progress: Progress
) -> TensorDiff:
    if (before.dtype, before.shape) != (after.dtype, after.shape):
        progress.advance(before.raw_bytes)
        return TensorDiff(path, "retyped")
    sums = _Sums()
    for one, two in zip(old, new, strict=True):
        same = _same(one, two, before.dtype)
        sums.add(_numbers(one, before.dtype), _numbers(two, after.dtype), same)
        progress.advance(len(one))
    return sums.report(path)


def _same(one: bytes, two: bytes, dtype: DType) -> NDArray[np.bool_]:
    """Compare elements byte for byte, so that NaN equals itself; complex elements count once."""
    left, right = (np.frombuffer(chunk, np.uint8).reshape(-1, dtype.itemsize) for chunk in (one, two))
    equal = left == right
    same: NDArray[np.bool_] = equal.all(axis=1)
    return same


def _numbers(chunk: bytes, dtype: DType) -> NDArray[np.float64]:
    if dtype.quantizable:
        return to_float32(chunk, dtype.name).astype(np.float64)
    if dtype.numpy is None:
        return np.frombuffer(chunk, np.uint8).astype(np.float64)[:: dtype.itemsize]
    values = np.frombuffer(chunk, dtype.numpy)
    return np.abs(values).astype(np.float64) if dtype.kind == "complex" else values.astype(np.float64)


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
    return "header changed" if before.header != after.header else None


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
