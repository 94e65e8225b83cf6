"""What the place where text ends up can show: colours, and characters beyond ASCII."""

from collections.abc import Callable
from dataclasses import dataclass

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
    """

    paint: Paint = plain
    unicode: bool = True
