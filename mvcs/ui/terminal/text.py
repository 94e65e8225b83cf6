"""Foreign text made safe to show, and columns that line up."""

import re
import unicodedata
from collections.abc import Sequence

from mvcs.ui.terminal.cells import shortened, shortened_alike, width
from mvcs.ui.terminal.columns import lay_out
from mvcs.ui.terminal.screen import Screen

NAME = "~"

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


def table(
    rows: Sequence[Sequence[str]],
    align: str,
    screen: Screen,
    *,
    styles: Sequence[str] = (),
    header: bool = True,
    optional: Sequence[int] = (),
) -> list[str]:
    """Return `rows` as lines with columns two spaces apart, never wider than the screen.

    Args:
        rows: cells without colours; the first row is the heading when `header`.
        align: for each column "<" or ">", or "~" for one of names: on the left, shortened in the middle where
            the screen is narrow.
        screen: where the lines end up.
        styles: a style for each column, or "" for none.
        header: whether the first row is dimmed as a heading.
        optional: columns that are left out before names are shortened much, the first of them first.
    """
    columns = list(zip(*rows, strict=True))
    sizes = [max(map(width, column)) for column in columns]
    names = {index for index, side in enumerate(align) if side == NAME}
    layout = lay_out(sizes, screen.width, names, optional)
    mark = "…" if screen.unicode else ".."
    shown = [
        _column(columns[index], size, align[index], mark)
        for index, size in zip(layout.columns, layout.widths, strict=True)
    ]
    shown[-1:] = [[cell.rstrip() for cell in column] for column in shown[-1:]]
    chosen = [styles[index] if index < len(styles) else "" for index in layout.columns]
    result = []
    for index, cells in enumerate(zip(*shown, strict=True)):
        heading = header and index == 0
        line = cells if heading else _painted(cells, chosen, screen)
        result.append(screen.paint("  ".join(line).rstrip(), "dim") if heading else "  ".join(line).rstrip())
    return result


def _column(cells: Sequence[str], size: int, side: str, mark: str) -> list[str]:
    if side == NAME:
        fitting = shortened_alike(cells, size, mark) if any(width(cell) > size for cell in cells) else cells
    else:
        fitting = [shortened(cell, size, mark) for cell in cells]
    return [_pad(cell, size, side) for cell in fitting]


def _pad(cell: str, size: int, side: str) -> str:
    space = " " * (size - width(cell))
    return space + cell if side == ">" else cell + space


def _painted(cells: Sequence[str], styles: Sequence[str], screen: Screen) -> list[str]:
    return [
        screen.paint(cell, style) if style and cell else cell
        for cell, style in zip(cells, styles, strict=True)
    ]


def bar(fraction: float, cells: int, screen: Screen) -> str:
    """Return a bar of at most `cells` columns; anything above nothing shows at least a sliver."""
    if not fraction > 0:
        return ""
    fraction = min(fraction, 1.0)
    if not screen.unicode:
        return "#" * max(round(fraction * cells), 1)
    eighths = max(round(fraction * cells * 8), 1)
    return "█" * (eighths // 8) + _BLOCKS[eighths % 8].strip()


def wrapped(label: str, items: Sequence[str], screen: Screen, between: str = "  ") -> list[str]:
    """Return items behind a label, on as many lines as the screen's width asks for, indented alike.

    Args:
        label: with the space behind it.
        items: none is broken, however long it is.
        screen: where the lines end up.
        between: what stands between two items; at the end of a line, without its last spaces.
    """
    result, line = [], label
    for index, item in enumerate(items):
        last = index == len(items) - 1
        size = width(line) + width(item) + (0 if last else len(between.rstrip()))
        if screen.width is not None and size > screen.width and len(line) > len(label):
            result.append(line.rstrip())
            line = " " * len(label)
        line += item + ("" if last else between)
    return [*result, line.rstrip()]
