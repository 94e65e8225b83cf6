"""Element types by name: how many bytes an element has, and how those bytes read as a number.

The names are content (they stand in tensor objects), so a name is never changed or reused.
"""

from dataclasses import dataclass

from mvcs.errors import UnsupportedFormatError


@dataclass(frozen=True)
class DType:
    """One element type.

    Attributes:
        name: the name in tensor objects, PyTorch's own.
        itemsize: bytes of an element, little-endian.
        kind: "float", "complex", "signed", "unsigned" or "bool".
        numpy: the numpy dtype string of the same layout, or None where numpy has none.
    """

    name: str
    itemsize: int
    kind: str
    numpy: str | None

    @property
    def quantizable(self) -> bool:
        """Whether a quantizer takes it: real floating point of 16 bits and more."""
        return self.kind == "float" and self.itemsize >= 2


_TABLE = (
    DType("bool", 1, "bool", "?"),
    DType("uint8", 1, "unsigned", "u1"),
    DType("uint16", 2, "unsigned", "<u2"),
    DType("uint32", 4, "unsigned", "<u4"),
    DType("uint64", 8, "unsigned", "<u8"),
    DType("int8", 1, "signed", "i1"),
    DType("int16", 2, "signed", "<i2"),
    DType("int32", 4, "signed", "<i4"),
    DType("int64", 8, "signed", "<i8"),
    DType("float16", 2, "float", "<f2"),
    DType("bfloat16", 2, "float", None),
    DType("float32", 4, "float", "<f4"),
    DType("float64", 8, "float", "<f8"),
    DType("float8_e4m3fn", 1, "float", None),
    DType("float8_e4m3fnuz", 1, "float", None),
    DType("float8_e5m2", 1, "float", None),
    DType("float8_e5m2fnuz", 1, "float", None),
    DType("float8_e8m0fnu", 1, "float", None),
    DType("float4_e2m1fn_x2", 1, "float", None),
    DType("complex32", 4, "complex", None),
    DType("complex64", 8, "complex", "<c8"),
    DType("complex128", 16, "complex", "<c16"),
)

DTYPES = {dtype.name: dtype for dtype in _TABLE}
BY_NUMPY = {dtype.numpy: dtype for dtype in _TABLE if dtype.numpy is not None}


def dtype_named(name: object) -> DType:
    """Look an element type up by the name found in an object.

    Raises:
        UnsupportedFormatError: this version does not know it.
    """
    found = DTYPES.get(name) if isinstance(name, str) else None
    if found is None:
        raise UnsupportedFormatError(
            f"unknown element type {name!r}", hint="a newer mvcs may have written it; upgrade and try again"
        )
    return found
