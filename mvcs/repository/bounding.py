"""The lossy part of a bounded commit: thresholds by layer type, a code table per tensor, errors measured."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mvcs.checkpoint.captured import Captured, CapturedLeaf
from mvcs.checkpoint.roles import Role, layer_type
from mvcs.delta.element import ElementFormat
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects.grid import cut
from mvcs.objects.ids import Kind, ObjectId
from mvcs.objects.tensors import ExactTensor, QuantizedTensor
from mvcs.objects.tree import Leaf
from mvcs.quantize.codebook import Codebook, fit
from mvcs.quantize.config import QuantizerConfig
from mvcs.quantize.kmeans import dequantize, quantize
from mvcs.quantize.measure import ErrorSums, measure
from mvcs.quantize.sketch import Sketch
from mvcs.quantize.values import to_float32
from mvcs.store.entry import Base
from mvcs.store.objects import ObjectStore
from mvcs.store.writer import Codes, Near, ObjectWriter

_MARK = ElementFormat(1, floating=False)


@dataclass(frozen=True)
class Thresholds:
    """Magnitudes below which weights of one layer type are pruned, and above which they are kept exactly."""

    prune_below: float = 0.0
    protect_above: float = math.inf


@dataclass(frozen=True)
class _Chunk:
    """One quantized chunk: its codes, and the exceptions as stored (positions, then exact elements)."""

    codes: bytes
    positions: np.ndarray[tuple[int, ...], np.dtype[np.uint32]]
    exact: bytes


@dataclass
class Bounding:
    """Quantizes the weights of one commit.

    Attributes:
        config: how.
        thresholds: by layer type, as in Inshrinkerator, section 4.2.
        objects: where the parent's codes come from.
        errors: what was measured so far.
        base_used: whether some tensor found codes to be stored near.
    """

    config: QuantizerConfig
    thresholds: dict[str, Thresholds]
    objects: ObjectStore
    errors: ErrorSums = field(default_factory=ErrorSums)
    base_used: bool = False

    @classmethod
    def prepare(
        cls, config: QuantizerConfig, captured: Captured, kinds: Sequence[Role], objects: ObjectStore
    ) -> "Bounding":
        """Find the thresholds of every layer type, when the configuration needs any."""
        thresholds: dict[str, Thresholds] = {}
        if config.prune or config.protect:
            sketches: dict[str, Sketch] = defaultdict(Sketch)
            for leaf, role in zip(captured.leaves, kinds, strict=True):
                if role is Role.WEIGHT:
                    _add(sketches[layer_type(leaf.path)], leaf)
            thresholds = {name: _thresholds(sketch, config) for name, sketch in sketches.items()}
        return cls(config, thresholds, objects)

    def store(self, leaf: CapturedLeaf, base: Leaf | None, value: ObjectWriter, exact: ObjectWriter) -> Leaf:
        """Store one weight tensor twice: quantized in the value layer, bit for bit in the exact layer."""
        limits = self.thresholds.get(layer_type(leaf.path), Thresholds())
        data = leaf.source.read()
        codebook = self._fitted(leaf, data, limits)
        chunks = [_quantized(leaf, part, codebook, limits) for part in _parts(leaf, data)]
        tensor = self._store_codes(leaf, codebook, chunks, base, value)
        chunk_ids = self._store_exact(leaf, data, tensor, chunks, exact)
        original = ExactTensor(leaf.dtype, leaf.shape, tuple(chunk_ids))
        exact_id = exact.put(Kind.TENSOR, original.encode())
        return Leaf(leaf.dtype, leaf.shape, value.put(Kind.QUANTIZED, tensor.encode()), exact_id)

    def _fitted(self, leaf: CapturedLeaf, data: memoryview, limits: Thresholds) -> Codebook:
        sketch = Sketch()
        for part in _parts(leaf, data):
            sketch.add(to_float32(part, leaf.dtype.name))
        below, above = limits.prune_below, limits.protect_above
        return fit(sketch, self.config, dtype=leaf.dtype.name, prune_below=below, protect_above=above)

    def _store_codes(
        self,
        leaf: CapturedLeaf,
        codebook: Codebook,
        chunks: list[_Chunk],
        base: Leaf | None,
        value: ObjectWriter,
    ) -> QuantizedTensor:
        old = self._old_codes(base)
        codes, marks = [], []
        for index, chunk in enumerate(chunks):
            near = old.codes[index] if old else None
            codes.append(value.put_codes(Codes(chunk.codes, codebook.levels), near))
            raw = chunk.positions.astype("<u4").tobytes() + chunk.exact
            marks.append(value.put_chunk(raw, _MARK, None) if raw else None)
        table = codebook.table_bytes(leaf.dtype.name)
        return QuantizedTensor(leaf.dtype, leaf.shape, 1, table, tuple(codes), tuple(marks))

    def _old_codes(self, base: Leaf | None) -> QuantizedTensor | None:
        if base is None or base.exact is None:
            return None
        try:
            tensor = self.objects.value_tensor(base)
        except (CorruptionError, NotFoundError):
            return None  # the parent's codes are damaged; these are stored alone
        if not isinstance(tensor, QuantizedTensor) or tensor.width != 1:
            return None
        self.base_used = True
        return tensor

    def _store_exact(
        self,
        leaf: CapturedLeaf,
        data: memoryview,
        tensor: QuantizedTensor,
        chunks: list[_Chunk],
        exact: ObjectWriter,
    ) -> list[ObjectId]:
        identifier, element = tensor.id, ElementFormat.of(leaf.dtype.itemsize, leaf.dtype.kind)
        ids = []
        for index, (chunk, part) in enumerate(zip(chunks, _parts(leaf, data), strict=True)):
            restored = dequantize(
                chunk.codes, tensor.table, leaf.dtype.itemsize, chunk.positions, chunk.exact
            )
            values = to_float32(part, leaf.dtype.name), to_float32(restored, leaf.dtype.name)
            self.errors += measure(*values)
            ids.append(exact.put_chunk(part, element, _restored_base(identifier, index, restored)))
        return ids


def _restored_base(tensor: ObjectId, index: int, restored: bytes) -> Near:
    return Near(Base(tensor, index), lambda: restored)


def _parts(leaf: CapturedLeaf, data: memoryview) -> list[memoryview]:
    return list(cut(leaf.dtype, data))


def _quantized(leaf: CapturedLeaf, part: memoryview, codebook: Codebook, limits: Thresholds) -> _Chunk:
    values = to_float32(part, leaf.dtype.name)
    found = quantize(values, codebook, limits.prune_below, limits.protect_above)
    elements = np.frombuffer(part, f"<u{leaf.dtype.itemsize}")
    return _Chunk(found.codes.tobytes(), found.exceptions, elements[found.exceptions].tobytes())


def _add(sketch: Sketch, leaf: CapturedLeaf) -> None:
    for part in _parts(leaf, leaf.source.read()):
        sketch.add(to_float32(part, leaf.dtype.name))


def _thresholds(sketch: Sketch, config: QuantizerConfig) -> Thresholds:
    below = sketch.magnitude_quantile(config.prune, "low") if config.prune else 0.0
    above = sketch.magnitude_quantile(config.protect, "high") if config.protect else math.inf
    return Thresholds(below, above)
