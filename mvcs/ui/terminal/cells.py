"""Text measured in columns of a terminal, and shortened in its middle."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import takewhile

_HEADS = (
    1 / 2,
    2 / 3,
    1 / 3,
    5 / 6,
)  # shares that stand before the mark, the usual one first
# Signs that Unicode 16 made wide, and that terminals show as either: trigrams, hexagrams, counting rods.
_WIDENED = re.compile("[\u2630-\u2637\u268a-\u268f\u4dc0-\u4dff\U0001d300-\U0001d356\U0001d360-\U0001d376]")


def width(text: str) -> int:
    """Return how many columns of a terminal `text` takes, at most."""
    return len(text) if text.isascii() else sum(map(_columns, text))


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
