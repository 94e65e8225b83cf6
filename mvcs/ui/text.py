"""Foreign text made safe to show, and columns that line up."""

import re
import unicodedata
from collections.abc import Sequence

from mvcs.ui.screen import Screen

# Controls, bytes that are no text, ends of lines, what reorders or joins without being seen, private signs.
_DANGEROUS = frozenset({"Cc", "Cs", "Zl", "Zp", "Cf", "Co"})
# Letters and marks that nobody sees (Unicode's Default_Ignorable_Code_Point), by which one name could pass
# for another or a message hide text: fillers, vowels that are not written, selectors, tags, unassigned ones.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_FOR_SYMBOLS = "\ufe0e\ufe0f"  # behind a symbol they say whether it has colours
_BLOCKS = " ▏▎▍▌▋▊▉█"


def printable(text: str, *, keep: str = "") -> str:
    """Return `text` with everything a terminal would obey instead of show written as an escape.

    Messages, names and paths come from other people's repositories. `keep` lists control characters to leave.
    """
    if text.isascii() and text.isprintable():
        return text
    pairs = zip(text, " " + text, strict=False)
    return "".join(
        sign if sign in keep or not _dangerous(sign, before) else _escape(sign) for sign, before in pairs
    )


def _dangerous(sign: str, before: str) -> bool:
    if sign in _FOR_SYMBOLS:
        return unicodedata.category(before) != "So"
    return unicodedata.category(sign) in _DANGEROUS or _UNSEEN.match(sign) is not None


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
