"""The forms of a quantized tensor beside the table: by which rule its codes, if it has any, become values.

Each class has the `number` of its form, the `width` of a code in bytes, and tells whether its values
are computed (`is_computed`): then a tensor has digests of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import cbor
from mvcs.objects.checked_fields import as_bytes, as_integer, as_list
from mvcs.objects.chunk_grid import CHUNK_ELEMENTS, DType, element_count
from mvcs.objects.ids import ObjectId, as_id

if TYPE_CHECKING:
    from mvcs.objects.tensors import QuantizedTensor

RESERVED_FORMS = {6: "sign"}
STEP_BYTES, STEPS_PER_OCTAVE = 256, 4
FINEST, COARSEST = 16, 24
MAX_OFFSETS = CHUNK_ELEMENTS
NEAREST_EVEN = "nearest-even"
HALVES = ("float16", "bfloat16")

Refer = Callable[["QuantizedTensor"], cbor.Value]
"""What stands for another tensor in parameters."""
Resolve = Callable[[cbor.Value], "QuantizedTensor"]
"""The tensor that something in parameters stands for."""


@dataclass(frozen=True)
class Lattice:
    """A value is its code times a step.

    Attributes:
        step: the step byte s, 0 to 255, of a step of (4 + s % 4) * 2^(s // 4 - 60).
    """

    number: ClassVar[int] = 1
    width: ClassVar[int] = 2
    is_computed: ClassVar[bool] = True

    step: int

    def fields(self, _refer: Refer) -> list[cbor.Value]:
        """Return the parameters as they are written."""
        return [self.step]

    @classmethod
    def read(cls, fields: object, _dtype: DType, _shape: Sequence[int], _resolve: Resolve) -> "Lattice":
        """Check parameters."""
        (step,) = as_list(fields, "a lattice", 1)
        return cls(as_integer(step, "a step", 0, STEP_BYTES))


@dataclass(frozen=True)
class LogLattice:
    """The float32 pattern of a value is its row's and its column's offset and its code, on a lattice.

    Attributes:
        scale: the step is 2^scale units of the pattern, 2^23 of which are an octave; 16 to 24.
        rows: id of the chunk of the rows' offsets, of the tensor seen as [shape[0], all the rest]: int16 in
            quarters of the step; None stands for zeros.
        cols: the same for the columns.
    """

    number: ClassVar[int] = 2
    width: ClassVar[int] = 2
    is_computed: ClassVar[bool] = True

    scale: int
    rows: ObjectId | None = None
    cols: ObjectId | None = None

    def fields(self, _refer: Refer) -> list[cbor.Value]:
        """Return the parameters as they are written."""
        return [self.scale, self.rows, self.cols]

    @classmethod
    def read(cls, fields: object, _dtype: DType, shape: Sequence[int], _resolve: Resolve) -> "LogLattice":
        """Check parameters."""
        scale, rows, cols = as_list(fields, "a log lattice", 3)
        sizes = row_count(shape), column_count(shape)
        found = [None if item is None else as_id(item) for item in (rows, cols)]
        if any(item is not None and size > MAX_OFFSETS for item, size in zip(found, sizes, strict=True)):
            raise CorruptionError("a log lattice has more offsets than a chunk holds")
        return cls(as_integer(scale, "a log step", FINEST, COARSEST + 1), *found)


@dataclass(frozen=True)
class RootLattice:
    """A value is its code times a step times the root of the same element of another tensor.

    Attributes:
        step: the step byte, as of `Lattice`.
        root: the other quantized tensor, a `LogLattice` of the same shape.
    """

    number: ClassVar[int] = 3
    width: ClassVar[int] = 2
    is_computed: ClassVar[bool] = True

    step: int
    root: "QuantizedTensor"

    def fields(self, refer: Refer) -> list[cbor.Value]:
        """Return the parameters as they are written."""
        return [self.step, refer(self.root)]

    @classmethod
    def read(cls, fields: object, _dtype: DType, shape: Sequence[int], resolve: Resolve) -> "RootLattice":
        """Check parameters."""
        step, other = as_list(fields, "a lattice times a root", 2)
        root = resolve(other)
        if not isinstance(root.parameters, LogLattice) or root.shape != tuple(shape):
            raise CorruptionError("a quantized tensor is scaled by one of another form or shape")
        return cls(as_integer(step, "a step", 0, STEP_BYTES), root)


@dataclass(frozen=True)
class Derived:
    """The restored values of another quantized tensor, rounded to 16 bits.

    Attributes:
        source: the other tensor, which has the same shape and is not derived itself.
        rounding: "nearest-even".
    """

    number: ClassVar[int] = 4
    width: ClassVar[int] = 0
    is_computed: ClassVar[bool] = True

    source: "QuantizedTensor"
    rounding: str = NEAREST_EVEN

    def fields(self, refer: Refer) -> list[cbor.Value]:
        """Return the parameters as they are written."""
        return [refer(self.source), self.rounding]

    @classmethod
    def read(cls, fields: object, dtype: DType, shape: Sequence[int], resolve: Resolve) -> "Derived":
        """Check parameters."""
        other, rounding = as_list(fields, "a derived tensor", 2)
        if rounding != NEAREST_EVEN or dtype.name not in HALVES:
            raise UnsupportedFormatError(
                f"this version does not read tensors of '{dtype.name}' derived by {rounding!r}",
                hint="a newer mvcs wrote it; upgrade and try again",
            )
        source = resolve(other)
        if isinstance(source.parameters, Derived) or source.shape != tuple(shape):
            raise CorruptionError("a quantized tensor is derived from a derived one or one of another shape")
        return cls(source)


@dataclass(frozen=True)
class Constant:
    """Every value is the same.

    Attributes:
        element: its little-endian bytes.
    """

    number: ClassVar[int] = 5
    width: ClassVar[int] = 0
    is_computed: ClassVar[bool] = False

    element: bytes

    def fields(self, _refer: Refer) -> list[cbor.Value]:
        """Return the parameters as they are written."""
        return [self.element]

    @classmethod
    def read(cls, fields: object, dtype: DType, _shape: Sequence[int], _resolve: Resolve) -> "Constant":
        """Check parameters."""
        (item,) = as_list(fields, "a constant", 1)
        element = as_bytes(item, "a constant")
        if len(element) != dtype.itemsize:
            raise CorruptionError("a constant is not one element")
        return cls(element)


@dataclass(frozen=True)
class Absent:
    """The values were left out on purpose; they restore as zeros."""

    number: ClassVar[int] = 7
    width: ClassVar[int] = 0
    is_computed: ClassVar[bool] = False

    def fields(self, _refer: Refer) -> list[cbor.Value]:
        """Return the parameters as they are written."""
        return []

    @classmethod
    def read(cls, fields: object, _dtype: DType, _shape: Sequence[int], _resolve: Resolve) -> "Absent":
        """Check parameters."""
        as_list(fields, "an absent tensor", 0)
        return cls()


Form = Lattice | LogLattice | RootLattice | Derived | Constant | Absent

FORMS: dict[int, type[Form]] = {
    form.number: form for form in (Lattice, LogLattice, RootLattice, Derived, Constant, Absent)
}


def row_count(shape: Sequence[int]) -> int:
    """Return the rows of a tensor seen as a matrix: its first size; 1 for a 0-d tensor."""
    return shape[0] if shape else 1


def column_count(shape: Sequence[int]) -> int:
    """Return the columns of a tensor seen as a matrix: the product of all sizes but the first."""
    return element_count(shape[1:])
