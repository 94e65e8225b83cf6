"""What the place where text ends up can show: colours, characters beyond ASCII, and how many."""

from collections.abc import Callable
from dataclasses import dataclass, replace

Paint = Callable[[str, str], str]
"""Dresses a text in a style: "id", "ref", "head", "good", "bad", "warn", "dim", "bar", "lane0" to "lane5"."""


def plain(text: str, style: str) -> str:  # noqa: ARG001  # a Paint that paints nothing
    """Return `text` as it is."""
    return text


@dataclass(frozen=True)
class Screen:
    """Where text ends up.

    Attributes:
        paint: adds colours, or nothing.
        unicode: whether lines and bars may use characters beyond ASCII.
        width: how many columns there are; None where lines may be of any length.
    """

    paint: Paint = plain
    unicode: bool = True
    width: int | None = None

    def narrowed(self, columns: int) -> "Screen":
        """Return the same with so many columns less, where their number is limited."""
        return self if self.width is None else replace(self, width=max(self.width - columns, 1))

    @property
    def endless(self) -> "Screen":
        """The same without a width, for what is there to be copied."""
        return replace(self, width=None)
