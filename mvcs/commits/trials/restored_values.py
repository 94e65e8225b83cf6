"""What a bounded commit would restore, with nothing stored: values by path, made when asked for."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from mvcs.checkpoint import CapturedLeaf
from mvcs.commits.bounded.groups import BoundedGroups
from mvcs.commits.plan.treatments import Planned, Treatment
from mvcs.commits.quantizers.bare import constant
from mvcs.delta import Buffer
from mvcs.objects import Path
from mvcs.quantize import Coded, Coding, Floats, from_float32, to_float32

_TRIED = frozenset({Treatment.WEIGHT, Treatment.FINE, Treatment.VARIANCE, Treatment.COPY})


@dataclass(frozen=True)
class RestoredValues(Mapping[Path, Floats]):
    """Restored values of leaves by path, float32 and flat, each made when it is asked for.

    A leaf that would be kept exactly has its own values.
    """

    _bounded: BoundedGroups
    _items: Mapping[Path, tuple[Planned, Planned]]  # what is done with a leaf, and with the one it copies

    def __len__(self) -> int:
        """Return how many leaves there are."""
        return len(self._items)

    def __iter__(self) -> Iterator[Path]:
        """Yield the paths."""
        return iter(self._items)

    def leaf(self, path: Path) -> CapturedLeaf:
        """Return what was captured there."""
        return self._bounded.keeper.anatomy.captured.leaves[self._items[path][0].index]

    def __getitem__(self, path: Path) -> Floats:
        """Return the values of a leaf; those of a low-precision copy are its master's, not rounded yet."""
        _, item = self._items[path]
        leaf = self._bounded.keeper.anatomy.captured.leaves[item.index]
        parts = list(leaf.views())
        floats = [to_float32(part, leaf.dtype.name) for part in self._restored(item, leaf, parts)]
        return np.concatenate(floats) if floats else np.zeros(0, np.float32)

    def content(self, path: Path) -> bytes:
        """Return the bytes of a leaf as a checkout gives them: in its own dtype, copies rounded."""
        planned, item = self._items[path]
        leaf = self._bounded.keeper.anatomy.captured.leaves[item.index]
        parts = list(leaf.views())
        restored = self._restored(item, leaf, parts)
        if planned is item:
            return b"".join(map(bytes, restored))
        copy = self.leaf(path)
        if restored is parts or constant(copy):
            return bytes(copy.source.read())
        return b"".join(from_float32(to_float32(part, leaf.dtype.name), copy.dtype.name) for part in restored)

    def _restored(self, item: Planned, leaf: CapturedLeaf, parts: list[memoryview]) -> Iterable[Buffer]:
        coded = self._bounded.coded(self._bounded.given(item))
        return parts if coded is None else _restored(coded.coding, coded.chunks, parts, leaf)


def restored_values(bounded: BoundedGroups) -> RestoredValues:
    """Return what a commit would restore of all quantized leaves but moments."""
    items = {
        bounded.keeper.anatomy.captured.leaves[item.index].path: (
            item,
            group[0] if item.source is not None else item,
        )
        for group in bounded.groups()
        for item in group
        if item.treatment in _TRIED
    }
    return RestoredValues(bounded, items)


def _restored(
    coding: Coding, chunks: list[Coded], parts: list[memoryview], leaf: CapturedLeaf
) -> Iterator[Buffer]:
    for index, (chunk, part) in enumerate(zip(chunks, parts, strict=True)):
        yield coding.restore(chunk, index, part.nbytes // leaf.dtype.itemsize)
