"""The values of a quantized tensor, chunk by chunk, from whatever its form names."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import get_ident
from typing import cast

import numpy as np
from numpy.typing import NDArray

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
from mvcs.quantize.lattice import LogGrid, lattice_values, root_values
from mvcs.quantize.outliers import Buffer, Codes, split, with_exceptions

Content = bytes | memoryview
Numbers = NDArray[np.float64]
_OCTAVE = 23  # an octave is 2^23 units of a float's pattern
_HALF_BITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
_SLACK = 1 + 2.0**-10


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
    has_room: Callable[[int], bool] = lambda _: False
    _roots: dict[int, tuple[QuantizedTensor, int, Content]] = field(default_factory=dict)  # by thread

    def restore(self, tensor: QuantizedTensor, index: int, into: memoryview | None = None) -> Content:
        """Return the little-endian elements of one chunk of the tensor's grid.

        Args:
            tensor: the tensor.
            index: of the chunk.
            into: as many bytes, where they may be put: then what is returned is that memory. On an error
                it holds bytes of no meaning.

        Raises:
            CorruptionError: codes, exceptions and parameters do not fit together.
            OtherValuesError: they restore to other values than the writer's.
        """
        kept = self._kept(tensor, index)
        if kept is not None:
            return kept
        content, wanted = self._restored(tensor, index, into), tensor.digest(index)
        if wanted is not None and digest(content) != wanted:
            raise OtherValuesError(
                f"chunk {index} of quantized tensor {short_id(tensor.id)} restores to other values than its "
                "digest says",
                hint="its codes are whole: this machine computes otherwise than the one that wrote them, or "
                "the digest was forged; try on another machine",
            )
        return content

    def _restored(self, tensor: QuantizedTensor, index: int, into: memoryview | None) -> Content:
        form, count = tensor.parameters, tensor.chunk_elements(index)
        if isinstance(form, Absent):
            return bytes(count * tensor.dtype.itemsize)
        if isinstance(form, Constant):
            return form.element * count
        if isinstance(form, Derived):
            source = self.restore(form.source, index)
            return from_float32(to_float32(source, form.source.dtype.name), tensor.dtype.name)
        return self._coded(tensor, index, count, into)

    def _coded(self, tensor: QuantizedTensor, index: int, count: int, into: memoryview | None) -> Content:
        width = tensor.dtype.itemsize
        codes = self.chunk(tensor.codes[index]) if tensor.codes else b""
        if len(codes) != count * tensor.width and tensor.codes:
            raise CorruptionError(
                f"chunk {index} of a quantized tensor has {len(codes)} bytes of codes for {count} values"
            )
        exceptions = self._exceptions(tensor, index)
        if isinstance(tensor.parameters, bytes):
            return dequantize(codes, tensor.parameters, width, exceptions)
        positions, exact = split(exceptions, width)
        found = np.frombuffer(codes, "<i2")
        out = None
        if into is not None and tensor.dtype.name == "float32":
            out = np.frombuffer(into, np.float32, count)
        values = self._floats(tensor, index, found, count, out)
        return with_exceptions(values, found, tensor.dtype.name, positions, exact).data

    def _exceptions(self, tensor: QuantizedTensor, index: int) -> Content:
        mark = tensor.exceptions[index] if tensor.exceptions else None
        if mark is None:
            return b""
        content = self.chunk(mark)
        if not len(content):
            raise CorruptionError("a quantized tensor names a chunk of exceptions that has none")
        return content

    def _floats(
        self, tensor: QuantizedTensor, index: int, codes: Codes, count: int, out: Floats | None
    ) -> Floats:
        form = tensor.parameters
        if isinstance(form, Lattice):
            return lattice_values(codes, form.step, out)
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
        return to_float32(self._kept_root(form.root, index), form.root.dtype.name)

    def _kept(self, tensor: QuantizedTensor, index: int) -> Content | None:
        """Return a chunk that this thread needed before, and keep it no longer."""
        kept = self._roots.get(get_ident()) if self._roots else None
        if kept is None or kept[1] != index or kept[0] != tensor:
            return None
        del self._roots[get_ident()]
        return kept[2]

    def _kept_root(self, root: QuantizedTensor, index: int) -> Content:
        content = self.restore(root, index)
        self._roots.pop(get_ident(), None)
        if self.has_room(len(content) * (len(self._roots) + 1)):
            self._roots[get_ident()] = root, index, content
        return content


@dataclass(frozen=True)
class Rehearsal(Restorer):
    """Asks for chunks, and gives back what has the length of the values."""

    def restore(self, tensor: QuantizedTensor, index: int, _into: memoryview | None = None) -> Content:
        """Ask for all that one chunk of the tensor's grid is made of."""
        if self._kept(tensor, index) is None:
            self._ask(tensor, index)
        return cast("Content", range(tensor.chunk_elements(index) * tensor.dtype.itemsize))

    def _ask(self, tensor: QuantizedTensor, index: int) -> None:
        form = tensor.parameters
        if isinstance(form, Derived):
            self.restore(form.source, index)
        if isinstance(form, Absent | Constant | Derived):
            return
        named = [chunks[index] for chunks in (tensor.codes, tensor.exceptions) if chunks]
        if isinstance(form, LogLattice):
            named += [form.rows, form.cols]
        for identifier in named:
            if identifier is not None:
                self.chunk(identifier)
        if isinstance(form, RootLattice):
            self._kept_root(form.root, index)


@dataclass(frozen=True)
class Resolution:
    """The steps of one quantized tensor.

    Attributes:
        tensor: the tensor.
        restorer: reads what its form names.
    """

    tensor: QuantizedTensor
    restorer: Restorer

    @property
    def left_out(self) -> bool:
        """Whether its values were left out on purpose."""
        return isinstance(self.tensor.parameters, Absent)

    @property
    def unlimited(self) -> bool:
        """Whether its values say nothing of single elements: left out, or means of rows and columns."""
        form = self.tensor.parameters
        return self.left_out or (isinstance(form, LogLattice) and not self.tensor.codes)

    def steps(self, index: int, values: Numbers, others: Numbers) -> Numbers:
        """Return how far off each restored value of a chunk may be: a step; inf where nothing limits it.

        Args:
            index: the chunk.
            values: its elements as they are restored.
            others: what they are compared with; what lies beyond a table is not told apart by it.
        """
        if self.unlimited:
            return np.full(values.shape, np.inf)
        steps = self._steps(self.tensor, index, values) * _SLACK
        form = self.tensor.parameters
        return _beyond(self._table(form), values, others, steps) if isinstance(form, bytes) else steps

    def _table(self, form: bytes) -> Numbers:
        return np.unique(to_float32(form, self.tensor.dtype.name).astype(np.float64))

    def _steps(self, tensor: QuantizedTensor, index: int, values: Numbers) -> Numbers:
        form = tensor.parameters
        if isinstance(form, bytes):
            return _gaps(self._table(form), values)
        if isinstance(form, Lattice):
            return np.full(values.shape, float(lattice_values(np.ones(1, np.int16), form.step)[0]))
        if isinstance(form, LogLattice):
            step: float = 2.0 ** (form.scale - _OCTAVE)  # in octaves
            return np.abs(values) * float(np.exp2(step) - 1)
        if isinstance(form, RootLattice):
            return self._root_steps(form, index, values)
        if isinstance(form, Derived):
            source = self._steps(form.source, index, values)
            return source + np.abs(values) * _HALF_BITS[tensor.dtype.name]
        return np.zeros(values.shape) if isinstance(form, Constant) else np.full(values.shape, np.inf)

    def _root_steps(self, form: RootLattice, index: int, values: Numbers) -> Numbers:
        roots = self.restorer.root(form, index)
        steps = root_values(np.ones(values.size, np.int16), roots, form.step).astype(np.float64)
        # Where only signs are kept nothing limits what was larger than a step.
        return np.where(np.all(np.abs(values) <= steps), np.inf, steps)


def _gaps(levels: Numbers, values: Numbers) -> Numbers:
    """Return the wider gap beside each value that is one of the levels."""
    inner = np.diff(levels)
    gaps = np.concatenate([inner[:1], inner, inner[-1:]]) if inner.size else np.full(2, np.inf)
    found = np.minimum(np.searchsorted(levels, values), levels.size - 1)
    listed = levels[found] == values
    return np.where(listed, np.maximum(gaps[found], gaps[found + 1]), 0.0)


def _beyond(levels: Numbers, values: Numbers, others: Numbers, steps: Numbers) -> Numbers:
    """Lift the limit where an outermost level stands for whatever lies farther out."""
    above = (values == levels[-1]) & (others > values)
    below = (values == levels[0]) & (others < values)
    return np.where(above | below, np.inf, steps)


def dequantize(codes: Buffer, table: Buffer, width: int, exceptions: Buffer) -> bytes:
    """Restore the bytes of a run of values from codes of a table.

    Args:
        codes: one byte a value.
        table: the value of each code as little-endian elements of the restored type.
        width: bytes of an element: 1, 2, 4 or 8.
        exceptions: a chunk of them: their positions, ascending, and the elements there.

    Raises:
        CorruptionError: a code has no value, or exceptions and their codes disagree.
    """
    entries = np.frombuffer(table, np.uint8)
    if entries.size % width:
        raise CorruptionError("a code table is not whole elements")
    values = entries.view(f"<u{width}")
    levels = values.size
    code = np.frombuffer(codes, np.uint8)
    marked = np.flatnonzero(code == levels)
    positions, exact = split(exceptions, width)
    kept = np.frombuffer(exact, np.uint8)
    if code.size and int(code.max()) > levels:
        raise CorruptionError(f"a code of {int(code.max())} has no value in a table of {levels}")
    if not np.array_equal(marked, positions) or kept.size != marked.size * width:
        raise CorruptionError("the exceptions of a chunk do not agree with its codes")
    restored = np.append(values, values.dtype.type(0)).take(code)
    restored[marked] = kept.view(f"<u{width}")
    return restored.tobytes()
