"""How wide the columns of a table are where a terminal is narrow, and which of them are left out."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

GAP = 2
LEGIBLE = 34
"""Columns that a name keeps as long as other columns can make room for it."""


@dataclass(frozen=True)
class Layout:
    """The columns that are shown.

    Attributes:
        columns: their indices, in order.
        widths: how wide each of them is.
    """

    columns: Sequence[int]
    widths: Sequence[int]


def lay_out(
    natural: Sequence[int], limit: int | None, names: Collection[int], optional: Sequence[int]
) -> Layout:
    """Decide how wide each column is, so that a row with gaps takes at most `limit` columns of a terminal.

    First optional columns go, until names are legible; then names are shortened, the longest first; where
    that does not do, everything is.

    Args:
        natural: the width each column needs for its longest cell.
        limit: the terminal's width, at least 1; None where there is no limit.
        names: indices of the columns that may be shortened.
        optional: indices of those that may go, the first to go first.
    """
    kept = list(range(len(natural)))
    if limit is None:
        return Layout(kept, list(natural))
    legible = [min(size, LEGIBLE) if index in names else size for index, size in enumerate(natural)]
    for index in optional:
        if _total([legible[column] for column in kept]) > limit and len(kept) > 1:
            kept.remove(index)
    kept = kept[: (limit + GAP) // (1 + GAP) or 1]
    return Layout(
        kept, _squeezed([natural[index] for index in kept], [index in names for index in kept], limit)
    )


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * max(len(widths) - 1, 0)


def _squeezed(widths: list[int], flexible: Sequence[bool], limit: int) -> list[int]:
    gaps = GAP * max(len(widths) - 1, 0)
    fixed = sum(size for size, bends in zip(widths, flexible, strict=True) if not bends)
    room = limit - gaps - fixed
    if _total(widths) <= limit:
        return widths
    if room < sum(flexible) or not any(flexible):
        return _levelled(widths, limit - gaps)
    levels = iter(_levelled([size for size, bends in zip(widths, flexible, strict=True) if bends], room))
    return [next(levels) if bends else size for size, bends in zip(widths, flexible, strict=True)]


def _levelled(widths: Sequence[int], room: int) -> list[int]:
    """Cut the widest down to one level, so that all together fit."""
    result = list(widths)
    for place, index in enumerate(sorted(range(len(widths)), key=lambda index: widths[index])):
        result[index] = min(widths[index], room // (len(widths) - place))
        room -= result[index]
    return result
