"""Bases that a content may be encoded near, and the bytes of those that can be read."""

from collections.abc import Callable
from typing import NamedTuple

from mvcs.delta import Buffer, ElementFormat, NarrowedType, as_array, narrowed_type
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.store.packs.entry import EntryBase

HALF = ElementFormat(2, floating=True)


class Near(NamedTuple):
    """A base and a way to its bytes, for content that may be encoded near it.

    Attributes:
        base: what a reader will look up.
        content: gives the base's bytes; called only when the base is used.
    """

    base: EntryBase
    content: Callable[[], Buffer]


def narrowing_from(content: Buffer, element: ElementFormat, wide: Near | None) -> NarrowedType | None:
    """Return how a chunk of 16-bit floats is one of 32-bit floats rounded; None where it is not."""
    if wide is None or element != HALF:
        return None
    base = readable(wide.content)
    return None if base is None else narrowed_type(as_array(content), as_array(base))


def readable(content: Callable[[], Buffer]) -> Buffer | None:
    """Return a base's bytes; None when it is damaged or gone, and the new content has to be stored alone."""
    try:
        return content()
    except (CorruptionError, NotFoundError):
        return None
