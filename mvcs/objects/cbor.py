"""Deterministic CBOR (RFC 8949, section 4.2) with the three additions of `docs/format/objects.md`.

Integers of any size use bignum tags, floats always take 8 bytes and keep NaN payloads, and there are no maps:
a dict is an array of `[key, value]` pairs, since order is content. The decoder takes exactly what the encoder
writes and refuses everything else, so that equal values have equal bytes and ids.
"""

import re
import struct
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from mvcs.errors import CorruptionError, StateError

Value: TypeAlias = "bool | int | float | str | bytes | Sequence[Value] | None"

MAX_DEPTH = 256
MAX_VALUES = 1 << 25
MAX_INTEGER_BYTES = 1 << 16

_UINT, _NINT, _BYTES, _TEXT, _ARRAY, _TAG = 0, 1, 2, 3, 4, 6
_FALSE, _TRUE, _NULL, _FLOAT64 = 0xF4, 0xF5, 0xF6, 0xFB
_POSITIVE_BIGNUM, _NEGATIVE_BIGNUM = 2, 3
_SCALARS = frozenset({int, float, str, bool, type(None)})
_RUNS = frozenset({_BYTES, _TEXT, _ARRAY})
_WIDTHS = {24: 1, 25: 2, 26: 4, 27: 8}
# Items of one byte.
_KNOWN: dict[int, Value] = {
    **{_UINT << 5 | number: number for number in range(24)},
    **{_NINT << 5 | number: -1 - number for number in range(24)},
    _FALSE: False,
    _TRUE: True,
    _NULL: None,
}
# An id is so many bytes behind a head of two; arrays of few items have a head of one.
_SHORT_BYTES, _ID = _BYTES << 5 | 24, 32
_SHORT_ARRAYS = {_ARRAY << 5 | count: count for count in range(24)}
_ID_HEAD, _NOTHING = bytes([_SHORT_BYTES, _ID]), bytes([_NULL])
_HALF = 16
_HALF_HEAD = bytes([_BYTES << 5 | _HALF])
_DOUBLE = struct.Struct(">d")
_SMALL = 256  # arguments of which the heads stand in a table
_HEADS = [
    bytes([major << 5 | number] if number < 24 else [major << 5 | 24, number])
    for major in range(8)
    for number in range(_SMALL)
]
# The heads of ids and of their halves, and how many bytes follow.
_STRINGS = {0x58: (b"\x58\x20", 32), 0x50: (b"\x50", 16)}
# A number below 24 and one below 2^32, each in its only form.
_PAIR = rb"\x82[\x00-\x17](?:[\x00-\x17]|\x18[\x18-\xff]|\x19(?!\x00)..|\x1a(?!\x00\x00)....)"
_PAIRS, _EACH_PAIR = (re.compile(pattern, re.DOTALL) for pattern in (b"(?:" + _PAIR + b")*", _PAIR))
_LONGEST_PAIR = 7
RUN_HEADS = frozenset({*_STRINGS, 0x82})
FEW = 7  # of fewer items, looking for a run takes longer than reading them


def dumps(value: Value) -> bytes:
    """Encode `value` to its only canonical form.

    Raises:
        StateError: a type has no canonical form, nesting is deeper than `MAX_DEPTH`, or there are more than
            `MAX_VALUES`.
    """
    out, room = bytearray(), MAX_VALUES
    # A stack of our own: the caller's may be nearly used up when a state is nested deeply.
    outer: list[Iterator[Value]] = []
    items = iter((value,))
    while True:
        for item in items:
            # Ids and small numbers first: nearly all that is encoded are these.
            if type(item) is bytes:
                out += _head(_BYTES, len(item))
                out += item
            elif type(item) is int and 0 <= item < _SMALL:
                out += _HEADS[item]
            elif type(item) not in _SCALARS and isinstance(item, list | tuple):
                out += _head(_ARRAY, len(item))
                outer.append(items)
                room -= len(item)
                if room < 0:
                    raise StateError(f"a description would hold more than {MAX_VALUES} values")
                if item and len(outer) == MAX_DEPTH:
                    raise StateError(f"nesting is deeper than {MAX_DEPTH} levels")
                items = iter(item)
                break
            else:
                _encode(item, out)
        else:
            if not outer:
                return bytes(out)
            items = outer.pop()


def array_of(items: Sequence[bytes]) -> bytes:
    """Return the array of items that are encoded already: of many tensors alike, most of an item is known."""
    return _head(_ARRAY, len(items)) + b"".join(items)


def id_item(identifier: bytes | None) -> bytes:
    """Encode an id, or nothing."""
    return _NOTHING if identifier is None else _ID_HEAD + identifier


def half_item(identifier: bytes) -> bytes:
    """Encode half an id."""
    return _HALF_HEAD + identifier


def loads(data: bytes | memoryview, most: int = MAX_VALUES) -> Value:
    """Decode canonical bytes; lists come back as lists.

    Raises:
        CorruptionError: the bytes are not what `dumps` writes, hold more than `most` values, or something
            follows the value.
    """
    reader = _Reader(bytes(data), most)
    value = reader.value()
    if reader.offset != len(reader.data):
        raise CorruptionError(f"{len(reader.data) - reader.offset} bytes follow the encoded value")
    return value


def _head(major: int, argument: int) -> bytes:
    if argument < _SMALL:
        return _HEADS[major << 8 | argument]
    for info, width in _WIDTHS.items():
        if argument < 1 << (8 * width):
            return bytes([major << 5 | info]) + argument.to_bytes(width, "big")
    raise StateError(f"length {argument} is too large to encode")


def _encode(value: Value, out: bytearray) -> None:
    if value is None:
        out.append(_NULL)
    elif value is True or value is False:
        out.append(_TRUE if value else _FALSE)
    elif type(value) is int:
        _encode_integer(value, out)
    elif type(value) is float:
        out.append(_FLOAT64)
        out += _DOUBLE.pack(value)
    elif type(value) is str:
        encoded = value.encode("utf-8", "surrogatepass")
        out += _head(_TEXT, len(encoded)) + encoded
    elif isinstance(value, bytes):
        out += _head(_BYTES, len(value)) + value
    else:
        raise StateError(f"a value of type '{type(value).__name__}' has no canonical form")


def _encode_integer(value: int, out: bytearray) -> None:
    major, argument = (_UINT, value) if value >= 0 else (_NINT, -1 - value)
    if argument < 1 << 64:
        out += _head(major, argument)
        return
    magnitude = argument.to_bytes((argument.bit_length() + 7) // 8, "big")
    if len(magnitude) > MAX_INTEGER_BYTES:
        raise StateError(f"an integer of {len(magnitude)} bytes is too large to store")
    tag = _POSITIVE_BIGNUM if major == _UINT else _NEGATIVE_BIGNUM
    out += _head(_TAG, tag) + _head(_BYTES, len(magnitude)) + magnitude


def _beyond(room: int, most: int) -> CorruptionError:
    """Return the error for more values than there may be, or for deeper ones."""
    much = f"holds more than {most} values" if room < 0 else f"is nested deeper than {MAX_DEPTH} levels"
    return CorruptionError(f"encoded value {much}")


class _Reader:
    """Reads items one after the other.

    Attributes:
        data: all bytes.
        offset: where the next item starts.
        most: items of arrays that are read.
        length: how many items the array has whose head was read last.
    """

    def __init__(self, data: bytes, most: int) -> None:
        self.data = data
        self.most = most
        self.offset = 0
        self.length = 0

    def value(self) -> Value:
        """Read one item and all that is in it; those of one byte, ids and heads of arrays without a call."""
        known, data, end = _KNOWN, self.data, len(self.data)
        items, left, offset, room = list[Value](), 1, self.offset, self.most
        outer: list[tuple[list[Value], int]] = []
        while True:
            while left:
                left -= 1
                initial = data[offset] if offset < end else -1
                if initial in known:
                    offset += 1
                    items.append(known[initial])
                    continue
                start = offset + 2
                if initial == _SHORT_BYTES and start + _ID <= end and data[start - 1] == _ID:
                    offset = start + _ID
                    items.append(data[start:offset])
                    continue
                if initial in _SHORT_ARRAYS and _SHORT_ARRAYS[initial] < end - offset:
                    item: Value = []
                    self.length, offset = _SHORT_ARRAYS[initial], offset + 1
                else:
                    self.offset = offset
                    short = self.short(initial)
                    item = self.item() if short is None else short
                    offset = self.offset
                items.append(item)
                if type(item) is list:
                    outer.append((items, left))
                    items, left = item, self.length
                    room -= left
                    if room < 0 or (left and len(outer) >= MAX_DEPTH):
                        raise _beyond(room, self.most)
                    if left > FEW and data[offset] in RUN_HEADS and len(outer) < MAX_DEPTH - 1:
                        run, room = self.run(offset, left, room)
                        items += run
                        offset, left = self.offset, left - len(run)
            if not outer:
                self.offset = offset
                return items[0]
            items, left = outer.pop()

    def run(self, offset: int, count: int, room: int) -> tuple[Sequence[Value], int]:
        """Read the first items of an array that are alike; return them, and the values there is room for."""
        strings, self.offset = strings_at(self.data, offset, count)
        if strings:
            return strings, room
        pairs, self.offset = pairs_at(self.data, offset, count)
        room -= 2 * len(pairs)
        if room < 0:
            raise _beyond(room, self.most)
        return pairs, room

    def short(self, initial: int) -> int | str | bytes | list[Value] | None:
        """Read a number, bytes, ASCII text or the head of an array below 2^16; None for all else, not read.

        That is what nearly all items of footers and trees are.
        """
        data, start = self.data, self.offset + 1
        major, count = initial >> 5, initial & 31
        if count > 23:
            end, least = (start + 1, 24) if count == 24 else (start + 2, 256)
            known = count < 26 and end <= len(data)
            count, start = int.from_bytes(data[start:end], "big") if known else 0, end
            if count < least:
                return None
        if major == _UINT:
            self.offset = start
            return count
        if major not in _RUNS or start + count > len(data):
            return None
        if major == _ARRAY:
            self.offset, self.length = start, count
            return []
        found = data[start : start + count]
        if major == _TEXT and not found.isascii():
            return None
        self.offset = start + count
        return found.decode("ascii") if major == _TEXT else found

    def take(self, count: int) -> bytes:
        start = self.offset
        self.offset = end = start + count
        if end > len(self.data):
            raise CorruptionError("encoded value ends early")
        return self.data[start:end]

    def argument(self, info: int) -> int:
        if info < 24:
            return info
        width = _WIDTHS.get(info)
        if width is None:
            raise CorruptionError(f"unknown length form {info} in an encoded value")
        argument = int.from_bytes(self.take(width), "big")
        if argument < (24 if width == 1 else 1 << (4 * width)):
            raise CorruptionError("an encoded length or integer is not in its shortest form")
        return argument

    def item(self) -> Value:
        """Read one item that has more than one byte; of an array only the head."""
        initial = self.take(1)[0]
        if initial == _FLOAT64:
            number: float = _DOUBLE.unpack(self.take(8))[0]
            return number
        return self.counted(initial >> 5, self.argument(initial & 31))

    def counted(self, major: int, argument: int) -> Value:
        if major == _BYTES:
            return self.take(argument)
        if major == _TEXT:
            return self.text(argument)
        if major == _ARRAY:
            return self.array(argument)
        if major == _UINT:
            return argument
        if major == _NINT:
            return -1 - argument
        if major == _TAG:
            return self.bignum(argument)
        raise CorruptionError(f"unknown major type {major} in an encoded value")

    def array(self, length: int) -> list[Value]:
        if length > len(self.data) - self.offset:
            raise CorruptionError("encoded array is longer than its data")
        self.length = length
        return []

    def text(self, length: int) -> str:
        try:
            return self.take(length).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise CorruptionError("encoded text is not UTF-8") from error

    def bignum(self, tag: int) -> int:
        initial = self.take(1)[0]
        if tag not in (_POSITIVE_BIGNUM, _NEGATIVE_BIGNUM) or initial >> 5 != _BYTES:
            raise CorruptionError(f"unknown tag {tag} in an encoded value")
        magnitude = self.take(self.argument(initial & 31))
        if not 8 < len(magnitude) <= MAX_INTEGER_BYTES or magnitude[0] == 0:
            raise CorruptionError("a large integer is not in its shortest form")
        number = int.from_bytes(magnitude, "big")
        return number if tag == _POSITIVE_BIGNUM else -1 - number


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
