"""Items of an array that are alike, read many at a time: ids, halves of ids, and pairs of small numbers.

Footers and trees are made of these. What is not alike is left to the reader of single items.
"""

import re

# The heads of ids and of their halves, and how many bytes follow.
_STRINGS = {0x58: (b"\x58\x20", 32), 0x50: (b"\x50", 16)}
# A number below 24 and one below 2^32, each in its only form.
_PAIR = rb"\x82[\x00-\x17](?:[\x00-\x17]|\x18[\x18-\xff]|\x19(?!\x00)..|\x1a(?!\x00\x00)....)"
_PAIRS, _EACH_PAIR = (re.compile(pattern, re.DOTALL) for pattern in (b"(?:" + _PAIR + b")*", _PAIR))
_LONGEST_PAIR = 7
RUN_HEADS = frozenset({*_STRINGS, 0x82})
FEW = 7  # of fewer items, looking for a run takes longer than reading them


def strings_at(data: bytes, offset: int, count: int) -> tuple[list[bytes], int]:
    """Return the ids, or the halves of ids, that `count` items at an offset are, and where they end.

    Returns:
        none, and the offset, where one of them is anything else.
    """
    head, length = _STRINGS.get(data[offset], (b"", 0))
    width = len(head) + length
    items = data[offset : offset + count * width]
    alike = all(items[place::width] == bytes([byte]) * count for place, byte in enumerate(head))
    if not head or len(items) != count * width or not alike:
        return [], offset
    starts = range(len(head), len(items), width)
    return [items[start : start + length] for start in starts], offset + len(items)


def pairs_at(data: bytes, offset: int, count: int) -> tuple[list[list[int]], int]:
    """Return the pairs that the first of `count` items at an offset are, and where they end."""
    # Not farther than the array can go, or arrays in arrays would have the same bytes looked at many times.
    found = _PAIRS.match(data, offset, offset + count * _LONGEST_PAIR)
    items: list[bytes] = _EACH_PAIR.findall(data, offset, found.end() if found else offset)[:count]
    known = {item: [item[1], int.from_bytes(item[3:] or item[2:], "big")] for item in set(items)}
    return [known[item].copy() for item in items], offset + sum(map(len, items))
