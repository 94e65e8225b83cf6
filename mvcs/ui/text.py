"""How text, numbers and tables look on a terminal: foreign text is safe to show, and columns line up."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile

from mvcs.reports import as_json, as_ratio, as_share, as_size

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
Paint = Callable[[str, str], str]
"""Dresses a text in a style: "id", "ref", "head", "good", "bad", "warn", "dim", "bar", "lane0" to "lane5"."""
size, ratio, share = as_size, as_ratio, as_share
_ITEMS = 4
_HEADS = (1 / 2, 2 / 3, 1 / 3, 5 / 6)  # shares that stand before the mark, the usual one first
# Signs that Unicode 16 made wide, and that terminals show as either: trigrams, hexagrams, counting rods.
_WIDENED = re.compile("[\u2630-\u2637\u268a-\u268f\u4dc0-\u4dff\U0001d300-\U0001d356\U0001d360-\U0001d376]")
GAP = 2
LEGIBLE = 34
"""Columns that a name keeps as long as other columns can make room for it."""


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


def plain(text: str, style: str) -> str:  # noqa: ARG001  # a Paint that paints nothing
    """Return `text` as it is."""
    return text


def width(text: str) -> int:
    """Return how many columns of a terminal `text` takes, at most."""
    return len(text) if text.isascii() else sum(map(_columns, text))


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


def number(value: float) -> str:
    """Return a metric with six significant digits; "nan", "inf" and "-inf" as such.

    >>> number(2.1), number(1e-9), number(float("nan"))
    ('2.1', '1e-09', 'nan')
    """
    return f"{value:.6g}"


def count(amount: int, noun: str, plural: str | None = None) -> str:
    """Return an amount with its noun.

    >>> count(1, "pack"), count(2, "pack"), count(0, "branch", "branches")
    ('1 pack', '2 packs', '0 branches')
    """
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"


def seconds(amount: float) -> str:
    """Return a length of time with two significant places.

    >>> seconds(0.0123), seconds(1.26), seconds(75), seconds(0)
    ('0.012 s', '1.3 s', '75 s', '0 s')
    """
    return f"{amount:.2g} s" if amount < 9.95 else f"{amount:,.0f} s"


def listed(values: Iterable[tuple[str, str]], option: str | None) -> list[str]:
    """Return a line for each value, and a single one for many items of a list.

    Args:
        values: paths, and what to say of each.
        option: what lists all of them; None where all are to be listed.
    """
    result = []
    for _, run in groupby(values, key=_list_of):
        items = list(run)
        lines = [f"{printable(path)}: {said}" for path, said in items]
        if option is not None and len(items) > _ITEMS:
            last = items[-1][0].rpartition(".")[2]
            lines = [f"{lines[0]}, and {len(items) - 1} more up to item {last}; {option} lists them"]
        result += lines
    return result


def value_text(value: object) -> str:
    """Return a number or a text, safe to show."""
    if isinstance(value, float):
        return number(value)
    return printable(str(as_json(value)) if isinstance(value, int) else repr(value))


def _list_of(value: tuple[str, str]) -> tuple[str, bool]:
    """Return which list a value is an item of; itself where it is of none."""
    parent, _, name = value[0].rpartition(".")
    return (parent, True) if parent and name.isdigit() else (value[0], False)


def _columns(sign: str) -> int:
    # A selector behind a symbol (U+FE0F) can make it twice as wide, so it counts itself.
    if sign != "\ufe0f" and unicodedata.category(sign) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" or _WIDENED.match(sign) else 1


def shortened(text: str, columns: int, mark: str, head: float = _HEADS[0]) -> str:
    """Return `text` in at most `columns` columns: its beginning, `mark`, and its end.

    Args:
        text: without colours.
        columns: how many there are; with none, nothing is left.
        mark: stands for what is left out.
        head: the share of what is left that stands before the mark.
    """
    if width(text) <= columns:
        return text
    room = columns - width(mark)
    if room <= 0:
        return mark[: max(columns, 0)]
    begin = _fitting(text, int(room * head))
    end = _fitting(text[::-1], room - width(begin))[::-1]
    return begin + mark + _without_marks(end)


def _fitting(signs: str, columns: int) -> str:
    if signs.isascii():
        return signs[:columns]
    taken = 0
    for index, sign in enumerate(signs):
        taken += _columns(sign)
        if taken > columns:
            return signs[:index]
    return signs


def _without_marks(text: str) -> str:
    """Return text without the marks at its beginning, whose letter is left out."""
    return text[sum(1 for _ in takewhile(lambda sign: unicodedata.category(sign).startswith("M"), text)) :]


def shortened_alike(texts: Sequence[str], columns: int, mark: str) -> list[str]:
    """Shorten the texts of one column, so that those that differ still do, as far as that goes.

    Layers differ in the middle of their names: then the mark stands elsewhere, or for what they begin with.
    """
    found = _most_distinct([[shortened(text, columns, mark, head) for text in texts] for head in _HEADS])
    alike: dict[str, set[str]] = {}
    for text, short in zip(texts, found, strict=True):
        alike.setdefault(short, set()).add(text)
    apart: dict[str, str] = {}
    for names in (sorted(group) for group in alike.values() if len(group) > 1):
        begin = _beginning(names)
        rest = [mark + text[begin:] for text in names]
        tries = [[shortened(text, columns, mark, head) for text in rest] for head in _HEADS]
        apart |= dict(zip(names, _most_distinct(tries), strict=True))
    return [apart.get(text, short) for text, short in zip(texts, found, strict=True)]


def _most_distinct(tries: Sequence[list[str]]) -> list[str]:
    return max(tries, key=lambda found: len(set(found)))


def _beginning(texts: Sequence[str]) -> int:
    """Return how many characters of whole parts all texts begin with, but for the last of these parts."""
    columns = zip(*(text.split(".") for text in texts), strict=False)
    same = [parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, columns)]
    return sum(len(part) + 1 for part in same[:-1])


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
