"""The layout of a file: where its tensors lie and the bytes around them, so that it comes back as it was.

docs/format/files.md#layout has the bytes. What a writer would choose (order, alignment, names and dates of
members, the opcodes of a pickle) is kept as it was read.
"""

import os
import pathlib
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import IO, BinaryIO, cast

import numpy as np

from mvcs.checkpoint.formats.archive import DAMAGE
from mvcs.checkpoint.state.arrays import numpy_view
from mvcs.checkpoint.state.captured import Collector, Found, Source
from mvcs.checkpoint.state.stamped import StampedFile
from mvcs.checkpoint.state.state import Buffer, ContentReader
from mvcs.errors import CorruptionError, FileFormatError, UnsupportedFormatError
from mvcs.objects import (
    DType,
    FileEntry,
    FileFormat,
    NodeTag,
    TensorFlag,
    Value,
    as_bytes,
    as_integer,
    as_list,
    blob_reference,
    cbor,
    element_count,
    walk_tensors,
)

NamedTensor = tuple[str, DType, tuple[int, ...], int]
"""Name, element type and shape of a tensor, and where it begins in its file, row-major and little-endian."""
RUN = 1 << 20  # bytes that are compressed, or copied, at a time
_LENGTH, _PIECE_BYTES = 8, 256  # in front of the table; a piece of it has fewer
_PIECE_VALUES = 9  # itself and its items, without those of an order
_IN_MEMORY = 1 << 24


@dataclass(frozen=True)
class Deflated:
    """A stream of deflate that the same level gives again.

    Attributes:
        head: the bytes in front of the tensor in it.
        level: from 1 to 9.
        length: bytes of the stream.
        check: its CRC-32.
    """

    head: bytes
    level: int
    length: int
    check: int


@dataclass(frozen=True)
class Placed:
    """Where the elements of a tensor lie in a file.

    Attributes:
        begin: the first byte, of the stream where they are deflated.
        leaf: the number of the leaf, as a structure refers to it.
        length: bytes of the tensor.
        order: its dimensions as they vary there, slowest first; None for row-major.
        swapped: bytes of each number that stands big-endian; 0 where none does.
        deflated: how they are compressed, if they are.
    """

    begin: int
    leaf: int
    length: int
    order: tuple[int, ...] | None = None
    swapped: int = 0
    deflated: Deflated | None = None

    @property
    def end(self) -> int:
        """The byte behind them in the file."""
        return self.begin + (self.length if self.deflated is None else self.deflated.length)


def layout_node(file: StampedFile, node: Value, placed: Iterable[Placed], collector: Collector) -> Value:
    """Return the layout of a file, as it stands in the file's entry.

    Args:
        file: the file.
        node: the structure that refers to its tensors.
        placed: where those lie whose place is known. Of several that overlap the first one counts, and what
            no tensor fills is kept as it is.
        collector: takes what is too long for a tree, and is told which leaves can have no other values here.

    Raises:
        ConflictError: the file changed since it was looked at.
    """
    local = {leaf: number for number, leaf in enumerate(_leaves_of(node))}
    table: list[Value] = []
    others: list[bytes | tuple[int, int]] = []  # itself, or where it begins and ends
    done, last = 0, -1
    fixed = set(local)
    for one in sorted(placed, key=lambda one: (one.begin, -one.length)):
        if not one.length or one.leaf not in local:
            continue
        if one.begin < done:
            fixed.add(last)
            continue
        fixed.discard(one.leaf)
        last = one.leaf
        order: Value = None if one.order is None else list(one.order)
        piece: list[Value] = [one.begin - done, local.pop(one.leaf), order, one.swapped]
        others.append((done, one.begin))
        if (packed := one.deflated) is not None:
            others.append(packed.head)
            piece += [len(packed.head), packed.level, packed.length, packed.check]
        table.append(piece)
        done = one.end
    for leaf in fixed:
        collector.leaves[leaf] = replace(collector.leaves[leaf], verbatim=True)
    encoded = cbor.dumps(table)
    source = _Recipe(file, (struct.pack("<Q", len(encoded)) + encoded, *others, (done, file.size)))
    if source.length > _IN_MEMORY:
        return collector.blob(source)
    return collector.bytes_node(bytes(source.read()))


def capture_named(
    file: StampedFile, name: str, found: Iterable[NamedTensor], collector: Collector
) -> FileEntry:
    """Take a file apart of which the tensors alone are known: all else is its layout.

    Raises:
        FileFormatError: there are none.
    """
    pairs: dict[str, Value] = {}
    placed: list[Placed] = []
    for called, dtype, shape, begin in found:
        length = element_count(shape) * dtype.itemsize
        identity = (name, begin, dtype.name, shape) if length else (name, called)
        tensor = Found(dtype, shape, file.span(begin, length), TensorFlag(0), identity)
        key = called if called not in pairs else f"{called} ({len(pairs)})"
        pairs[key] = node = collector.tensor(tensor, (name, key))
        placed.append(Placed(begin, cast("int", cast("list[Value]", node)[1]), length))
    if not pairs:
        raise FileFormatError(f"'{file.path}' holds no tensors")
    node = [int(NodeTag.DICT), [[key, tensor] for key, tensor in pairs.items()]]
    return FileEntry(name, FileFormat.BINARY, node, layout_node(file, node, placed, collector))


def _leaves_of(node: Value) -> list[int]:
    return list(dict.fromkeys(leaf for _, leaf in walk_tensors(node)))


@dataclass(frozen=True)
class _Recipe(Source):
    """A layout, read from its file: bytes themselves, and spans of the file."""

    file: StampedFile
    pieces: tuple[bytes | tuple[int, int], ...]

    @property
    def length(self) -> int:
        """Number of bytes."""
        return sum(len(one) if isinstance(one, bytes) else one[1] - one[0] for one in self.pieces)

    def read(self) -> memoryview:
        """Return all of it."""
        return memoryview(b"".join(self._runs()))

    def parts(self, length: int, *, own: bool = True) -> Iterator[memoryview]:  # noqa: ARG002 - it always is
        """Yield it in runs of `length` bytes."""
        held = bytearray()
        for run in self._runs():
            held += run
            while len(held) >= length:
                yield memoryview(bytes(held[:length]))
                del held[:length]
        if held:
            yield memoryview(bytes(held))

    def _runs(self) -> Iterator[Buffer]:
        with self.file.open() as opened:
            for one in self.pieces:
                if isinstance(one, bytes):
                    yield one
                    continue
                for at in range(one[0], one[1], RUN):
                    yield self.file.part(opened, at, min(RUN, one[1] - at))


def write_laid_out(entry: FileEntry, content: ContentReader, file: BinaryIO) -> bool:
    """Write a file as its layout says; return False and write nothing where streams cannot be as they were.

    Raises:
        CorruptionError: the layout does not fit the tensors of the entry.
        UnsupportedFormatError: so it is with a file that nothing but its layout can give.
    """
    pieces, others = _read(entry, content)
    packed = [one.leaf for _, one in pieces if one.deflated]
    if content.restored_from(packed) is None and _write(pieces, others, content, file):
        return True
    if entry.format is not FileFormat.NPZ:
        raise UnsupportedFormatError(
            f"'{entry.path}' has arrays that the zlib of here compresses to other bytes",
            hint="its arrays are written by: mvcs checkout REV:FILE -o ARRAYS.safetensors",
        )
    file.seek(0)
    file.truncate()
    return False


def compresses_otherwise(entry: FileEntry, content: ContentReader) -> bool:
    """Tell whether arrays of a file were compressed to bytes that the zlib of here does not give.

    Raises:
        CorruptionError: the layout does not fit the tensors of the entry.
    """
    pieces, others = _read(entry, content)
    with pathlib.Path(os.devnull).open("wb") as nowhere:
        return not _write(pieces, others, content, nowhere)


def _read(entry: FileEntry, content: ContentReader) -> tuple[list[tuple[int, Placed]], "_Others"]:
    """Return the pieces of a layout, and its other bytes, checked before anything is made by them.

    A piece is the gap of other bytes in front of it, and its tensor: `leaf` is that of the tree, and `begin`,
    of deflated ones, the length of the head, which is not read yet.
    """
    leaves = _leaves_of(entry.node)
    reference = blob_reference(entry.header)
    if reference is None:
        data = as_bytes(entry.header, "a layout")
        length, runs = len(data), cast("Iterator[Buffer]", iter((data,)))
    else:
        length, runs = reference[1], content.pieces(*reference)
    others = _Others(runs, entry.path)
    size = int.from_bytes(b"".join(others.take(min(length, _LENGTH))), "little")
    if size > min(length - _LENGTH, _PIECE_BYTES * (len(leaves) + 1)):
        raise _damaged(entry.path)
    most = _PIECE_VALUES * len(leaves) + sum(len(content.tree.leaves[leaf].shape) for leaf in leaves)
    table = as_list(cbor.loads(b"".join(others.take(size)), most + 1), "the table of a layout")
    pieces = [_piece(value, leaves, content, entry.path) for value in table]
    held = sum(gap + (one.begin if one.deflated else 0) for gap, one in pieces)
    if len({one.leaf for _, one in pieces}) != len(pieces) or held > length - _LENGTH - size:
        raise _damaged(entry.path)
    return pieces, others


def _write(
    pieces: Sequence[tuple[int, Placed]], others: "_Others", content: ContentReader, file: BinaryIO
) -> bool:
    """Write a file, a tensor at a time; return whether what is deflated came out as it was."""
    each = content.each([one.leaf for _, one in pieces])
    for gap, one in pieces:
        file.writelines(others.take(gap))
        leaf = content.tree.leaves[one.leaf]
        data = _arranged(leaf.dtype, leaf.shape, next(each), one)
        if one.deflated is None:
            file.write(data)
        elif not _write_deflated(one.deflated, chain(others.take(one.begin), (data,)), file):
            return False
    file.writelines(others.rest())
    if content.restored_from(one.leaf for _, one in pieces) is not None:
        _mend_checksums(file, _DIRECTORY + _PER_TENSOR * len(pieces))
    return True


def _damaged(path: str) -> CorruptionError:
    return CorruptionError(f"the layout of '{path}' does not describe its tensors")


def _piece(value: Value, leaves: list[int], content: ContentReader, path: str) -> tuple[int, Placed]:
    items = as_list(value, "a piece of a layout")
    if len(items) not in (4, 8):
        raise _damaged(path)
    gap = as_integer(items[0], "a gap in a layout", 0, 1 << 62)
    leaf = leaves[as_integer(items[1], "a tensor of a layout", 0, len(leaves))]
    known = content.tree.leaves[leaf]
    ways = None if items[2] is None else as_list(items[2], "an order")
    order = None if ways is None else tuple(as_integer(way, "a dimension of an order") for way in ways)
    swapped = as_integer(items[3], "the width of numbers in a layout", 0, 9)
    is_odd = swapped not in (0, 2, 4, 8) or (swapped and known.dtype.itemsize % swapped)
    if is_odd or (order is not None and sorted(order) != list(range(len(known.shape)))):
        raise _damaged(path)
    if len(items) == 4:
        return gap, Placed(0, leaf, known.raw_bytes, order, swapped)
    head, level, length, check = (as_integer(item, "a deflated piece", 0, 1 << 62) for item in items[4:])
    if not 1 <= level <= 9:
        raise _damaged(path)
    return gap, Placed(head, leaf, known.raw_bytes, order, swapped, Deflated(b"", level, length, check))


def _arranged(dtype: DType, shape: tuple[int, ...], data: memoryview, one: Placed) -> memoryview:
    """Return the elements of a tensor, row-major and little-endian, as they lie in the file."""
    if one.order is not None and element_count(shape):
        turned = np.ascontiguousarray(numpy_view(dtype, shape, data).transpose(one.order))
        data = turned.reshape(-1).view(np.uint8).data
    return np.frombuffer(data, f"<u{one.swapped}").byteswap().data.cast("B") if one.swapped else data


def deflated(runs: Iterable[Buffer], level: int) -> Iterator[bytes]:
    """Yield the raw stream of deflate of some bytes, compressed RUN bytes at a time."""
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    held = bytearray()
    for run in runs:
        for at in range(0, len(run), RUN):
            held += memoryview(run)[at : at + RUN]
            if len(held) >= RUN:
                yield packer.compress(held[:RUN])
                del held[:RUN]
    yield packer.compress(held) + packer.flush()


def _write_deflated(packed: Deflated, runs: Iterable[Buffer], file: BinaryIO) -> bool:
    check = length = 0
    for part in deflated(runs, packed.level):
        check, length = zlib.crc32(part, check), length + len(part)
        file.write(part)
    return (check, length) == (packed.check, packed.length)


class _Others:
    """The bytes of a layout, taken from its front."""

    def __init__(self, runs: Iterator[Buffer], path: str) -> None:
        self._runs, self._path = runs, path
        self._held = memoryview(b"")

    def take(self, count: int) -> Iterator[memoryview]:
        """Yield the next `count` bytes in runs."""
        while count:
            if not self._held:
                found = next(self._runs, None)
                if found is None:
                    raise _damaged(self._path)
                self._held = memoryview(found).cast("B")
            part, self._held = self._held[:count], self._held[count:]
            count -= len(part)
            yield part

    def rest(self) -> Iterator[Buffer]:
        """Yield all that is left."""
        yield self._held
        yield from self._runs


_LOCAL, _LOCAL_CRC, _DESCRIBED, _CENTRAL, _CENTRAL_CRC = 30, 14, 8, 46, 16
_DESCRIPTOR = 8  # its mark and the checksum
_DIRECTORY, _PER_TENSOR = 1 << 20, 512  # bytes of a directory that is read: each 46 of it may be a member


class _Bounded:
    """An archive whose directory is not read where it is longer than `most`."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self.seek, self.tell = file.seek, file.tell
        self._file, self._most = file, most

    def read(self, size: int = -1) -> bytes:
        """Read so much.

        Raises:
            BadZipFile: it is too much.
        """
        if size > self._most:
            raise zipfile.BadZipFile("too many members")
        return self._file.read(size)


def _mend_checksums(file: BinaryIO, most: int = _DIRECTORY) -> None:
    """Give the members of an archive the checksums of what is in them now; leave any other file alone."""
    left = file.seek(0, os.SEEK_END)
    try:
        archive = zipfile.ZipFile(cast("IO[bytes]", _Bounded(file, most)))
    except DAMAGE:
        return
    at = front = archive.start_dir
    for member in archive.infolist():
        # Whoever made the file may claim anything: members that overlap would be read again and again.
        left -= member.compress_size
        if left < 0 or not 0 <= member.header_offset <= front - _LOCAL:
            return
        file.seek(member.header_offset + 26)
        start = member.header_offset + _LOCAL + sum(struct.unpack("<HH", file.read(4)))
        behind = start + member.compress_size
        if behind > front:  # nothing is written into the directory but checksums
            return
        check = _checksum(file, start, member.compress_size)
        if check != member.CRC and member.compress_type == zipfile.ZIP_STORED:
            file.seek(behind)
            if (
                behind <= front - _DESCRIPTOR
                and member.flag_bits & _DESCRIBED
                and file.read(4) == b"PK\x07\x08"
            ):
                _put(file, behind + 4, check)
            else:
                _put(file, member.header_offset + _LOCAL_CRC, check)
            _put(file, at + _CENTRAL_CRC, check)
        file.seek(at + 28)
        at += _CENTRAL + sum(struct.unpack("<HHH", file.read(6)))


def _put(file: BinaryIO, at: int, check: int) -> None:
    file.seek(at)
    file.write(struct.pack("<I", check))


def _checksum(file: BinaryIO, start: int, length: int) -> int:
    file.seek(start)
    check = 0
    for at in range(0, length, RUN):
        check = zlib.crc32(file.read(min(RUN, length - at)), check)
    return check
