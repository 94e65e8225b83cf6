"""The values of a quantized tensor, chunk by chunk, from whatever its form names."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mvcs.errors import CorruptionError
from mvcs.objects import (
    Absent,
    Constant,
    Derived,
    Lattice,
    LogLattice,
    ObjectId,
    QuantizedTensor,
    RootLattice,
    chunk_length,
    column_count,
    digest,
    row_count,
    short_id,
)
from mvcs.quantize.float_values import Floats, from_float32, to_float32
from mvcs.quantize.lattices.lattice import lattice_values
from mvcs.quantize.lattices.log_lattice import LogGrid
from mvcs.quantize.lattices.root_lattice import root_values
from mvcs.quantize.outliers import Codes, split, with_exceptions
from mvcs.quantize.published.table_codes import dequantize

Content = bytes | memoryview


def _never(_: int) -> bool:
    return False


class OtherValuesError(CorruptionError):
    """Whole codes restore to other values than the digest says that they do."""


@dataclass(frozen=True)
class Restorer:
    """Restores quantized tensors of every form.

    Attributes:
        chunk: returns the content of a chunk.
        has_room: tells whether so many bytes may be kept: a second moment that a first one needed is mostly
            restored next.
    """

    chunk: Callable[[ObjectId], Content]
    has_room: Callable[[int], bool] = _never
    _root: dict[tuple[QuantizedTensor, int], Content] = field(default_factory=dict)

    def restore(self, tensor: QuantizedTensor, index: int) -> Content:
        """Return the little-endian elements of one chunk of the tensor's grid.

        Raises:
            CorruptionError: codes, exceptions and parameters do not fit together.
            OtherValuesError: they restore to other values than the writer's.
        """
        kept = self._root.pop((tensor, index), None) if self._root else None
        if kept is not None:
            return kept
        content, wanted = self._restored(tensor, index), tensor.digest(index)
        if wanted is not None and digest(content) != wanted:
            raise OtherValuesError(
                f"chunk {index} of quantized tensor {short_id(tensor.id)} restores to other values than its "
                "digest says",
                hint="its codes are whole: this machine computes otherwise than the one that wrote them, or "
                "the digest was forged; try on another machine",
            )
        return content

    def _restored(self, tensor: QuantizedTensor, index: int) -> Content:
        form, count = tensor.parameters, tensor.chunk_elements(index)
        if isinstance(form, Absent):
            return bytes(count * tensor.dtype.itemsize)
        if isinstance(form, Constant):
            return form.element * count
        if isinstance(form, Derived):
            return from_float32(self._floats_of(form.source, index), tensor.dtype.name)
        return self._coded(tensor, index, count)

    def _coded(self, tensor: QuantizedTensor, index: int, count: int) -> Content:
        width = tensor.dtype.itemsize
        codes = self.chunk(tensor.codes[index]) if tensor.codes else b""
        if len(codes) != count * tensor.width and tensor.codes:
            raise CorruptionError(
                f"chunk {index} of a quantized tensor has {len(codes)} bytes of codes for {count} values"
            )
        positions, exact = split(self._exceptions(tensor, index), width)
        if isinstance(tensor.parameters, bytes):
            return dequantize(codes, tensor.parameters, width, positions, exact)
        found = np.frombuffer(codes, "<i2")
        values = self._floats(tensor, index, found, count)
        return with_exceptions(values, found, tensor.dtype.name, positions, exact).data

    def _exceptions(self, tensor: QuantizedTensor, index: int) -> Content:
        mark = tensor.exceptions[index] if tensor.exceptions else None
        if mark is None:
            return b""
        content = self.chunk(mark)
        if not len(content):
            raise CorruptionError("a quantized tensor names a chunk of exceptions that has none")
        return content

    def _floats(self, tensor: QuantizedTensor, index: int, codes: Codes, count: int) -> Floats:
        form = tensor.parameters
        if isinstance(form, Lattice):
            return lattice_values(codes, form.step)
        if isinstance(form, RootLattice):
            return root_values(codes, self.root(form, index), form.step)
        start = index * chunk_length(tensor.dtype, tensor.shape, 0)
        return self.log_grid(tensor).values(codes if tensor.codes else None, count, start)

    def log_grid(self, tensor: QuantizedTensor) -> LogGrid:
        """Return the offsets of a log lattice.

        Raises:
            CorruptionError: the tensor is none, or its offsets are not those of its shape.
        """
        form, columns = tensor.parameters, column_count(tensor.shape)
        if not isinstance(form, LogLattice):
            raise CorruptionError("a quantized tensor is not a log lattice where one has to be")
        rows = self._offsets(form.rows, row_count(tensor.shape))
        return LogGrid(form.scale, columns, rows, self._offsets(form.cols, columns))

    def _offsets(self, identifier: ObjectId | None, count: int) -> Codes:
        offsets = np.frombuffer(b"" if identifier is None else self.chunk(identifier), np.uint8)
        if identifier is not None and offsets.size != 2 * count:
            raise CorruptionError(f"a log lattice has {offsets.size} bytes of offsets for {count} of them")
        return offsets.view("<i2")

    def root(self, form: RootLattice, index: int) -> Floats:
        """Return the restored values of the tensor whose roots scale a chunk."""
        root = form.root
        content = self.restore(root, index)
        self._root.clear()
        if self.has_room(len(content)):
            self._root[root, index] = content
        return to_float32(content, root.dtype.name)

    def _floats_of(self, tensor: QuantizedTensor, index: int) -> Floats:
        return to_float32(self.restore(tensor, index), tensor.dtype.name)
