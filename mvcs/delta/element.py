"""What an encoding needs to know of a chunk's elements."""

from dataclasses import dataclass
from functools import cache

from mvcs.errors import UnsupportedFormatError, UsageError

_WIDTHS = (1, 2, 4, 8, 16)
_FLOATING = 8


@dataclass(frozen=True)
class ElementFormat:
    """The width of an element and whether its bits are a floating-point number.

    Attributes:
        width: bytes of an element: 1, 2, 4, 8 or 16. A complex number counts as two floats of half its width.
        floating: sign, exponent and fraction from the top bit down; otherwise an integer or opaque bits.
    """

    width: int
    floating: bool

    def __post_init__(self) -> None:
        """Refuse widths without a number."""
        if self.width not in _WIDTHS:
            raise UsageError(f"an element cannot be {self.width} bytes wide", hint="use 1, 2, 4, 8 or 16")

    @classmethod
    @cache
    def of(cls, itemsize: int, kind: str) -> "ElementFormat":
        """Return the format of an element type by its size in bytes and kind ("float", "complex", ...)."""
        if kind == "complex":
            return cls(itemsize // 2, floating=True)
        return cls(itemsize, floating=kind == "float")

    @property
    def lane(self) -> int:
        """Bytes of the machine word an element is handled in: 16-byte elements are two words of 8."""
        return min(self.width, 8)

    def to_number(self) -> int:
        """Return the format as one integer: the place of the width in 1, 2, 4, 8, 16, plus 8 for floating."""
        return _WIDTHS.index(self.width) + (_FLOATING if self.floating else 0)

    @classmethod
    def from_number(cls, number: int) -> "ElementFormat":
        """Read what `to_number` returned.

        Raises:
            UnsupportedFormatError: no element format of format 1 has this number.
        """
        if not 0 <= number < 2 * _FLOATING or number % _FLOATING >= len(_WIDTHS):
            raise UnsupportedFormatError(
                f"unknown element format {number}",
                hint="a newer mvcs may have written it; upgrade and try again",
            )
        return cls(_WIDTHS[number % _FLOATING], floating=number >= _FLOATING)
