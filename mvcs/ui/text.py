"""Foreign text made safe to show, and columns that line up."""

import unicodedata
from collections.abc import Sequence

from mvcs.ui.screen import Screen

# These reorder what follows on the line, so that a name could pass for another.
_BIDI = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_BLOCKS = " ▏▎▍▌▋▊▉█"


def printable(text: str, *, keep: str = "") -> str:
    """Return `text` with everything a terminal would obey instead of show written as an escape.

    Messages, names and paths come from other people's repositories. `keep` lists control characters to leave.
    """
    return "".join(sign if sign in keep or not _dangerous(sign) else _escape(sign) for sign in text)


def _dangerous(sign: str) -> bool:
    return unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") or sign in _BIDI


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")


def lines(text: str) -> list[str]:
    """Return the lines of a message, safe to show."""
    return [printable(line, keep="\t") for line in text.split("\n")]


def first_line(text: str) -> str:
    """Return a message's first line, safe to show."""
    return printable(text.strip("\n").partition("\n")[0])


def width(text: str) -> int:
    """Return how many columns of a terminal `text` takes."""
    return sum(_columns(sign) for sign in text)


def _columns(sign: str) -> int:
    if unicodedata.combining(sign):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def table(
    rows: Sequence[Sequence[str]],
    align: str,
    screen: Screen,
    *,
    styles: Sequence[str] = (),
    header: bool = True,
) -> list[str]:
    """Return `rows` as lines with columns two spaces apart.

    Args:
        rows: cells without colours; the first row is the heading when `header`.
        align: "<" or ">" for each column.
        screen: where the lines end up.
        styles: a style for each column, or "" for none.
        header: whether the first row is dimmed as a heading.
    """
    widths = [max((width(cell) for cell in column), default=0) for column in zip(*rows, strict=True)]
    result = []
    for index, row in enumerate(rows):
        cells = [_pad(cell, size, side) for cell, size, side in zip(row, widths, align, strict=True)]
        if header and index == 0:
            result.append(screen.paint("  ".join(cells).rstrip(), "dim"))
        else:
            result.append("  ".join(_painted(cells, styles, screen)).rstrip())
    return result


def _pad(cell: str, size: int, side: str) -> str:
    space = " " * (size - width(cell))
    return cell + space if side == "<" else space + cell


def _painted(cells: Sequence[str], styles: Sequence[str], screen: Screen) -> list[str]:
    padded = [*styles, *[""] * (len(cells) - len(styles))]
    return [screen.paint(cell, style) if style else cell for cell, style in zip(cells, padded, strict=True)]


def bar(fraction: float, cells: int, screen: Screen) -> str:
    """Return a bar of at most `cells` columns; anything above nothing shows at least a sliver."""
    if not fraction > 0:
        return ""
    fraction = min(fraction, 1.0)
    if not screen.unicode:
        return "#" * max(round(fraction * cells), 1)
    eighths = max(round(fraction * cells * 8), 1)
    return "█" * (eighths // 8) + _BLOCKS[eighths % 8].strip()
