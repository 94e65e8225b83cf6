"""npz archives: arrays captured by header and read one at a time; objects are never unpickled."""

import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import IO, Any, BinaryIO, cast

import numpy as np

from mvcs.checkpoint.formats.archive import check_archive, content_at, damage
from mvcs.checkpoint.formats.detection import can_name, check_tensor_name
from mvcs.checkpoint.formats.layout import RUN, Deflated, Placed, deflated, layout_node
from mvcs.checkpoint.state.arrays import Array, ArraySource, dtype_of, numpy_view
from mvcs.checkpoint.state.captured import Collector, Found, Source, refuse
from mvcs.checkpoint.state.stamped import StampedFile
from mvcs.checkpoint.state.state import ContentReader
from mvcs.errors import CorruptionError, FileFormatError, LimitError, MvcsError, StateError, UnsafeFileError
from mvcs.machine import machine_memory
from mvcs.objects import (
    DType,
    FileEntry,
    FileFormat,
    NodeTag,
    Path,
    TensorFlag,
    Value,
    as_shape,
    element_count,
    pairs_of,
    tag_of,
    tensor_reference,
)

WHAT = "an npz archive"
SUFFIX = ".npy"
_LEVELS = (6, 9, 1, 5, 7, 4, 3, 8, 2)  # numpy takes the first
_PLAINLY = "it is kept as it is; 'numpy.savez' writes arrays that are not compressed"
# A header is a Python literal, and what numpy and Python's parser raise on an odd one has no end.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class NpzSource(Source):
    """Reads one array of an archive, decompressing it.

    Attributes:
        file: the archive.
        member: the array's place in it, as the archive's directory has it.
        header: bytes in front of its content.
        path: of the array in the commit.
        turned: how many dimensions it has, where the content stands there by columns, so that all of it is
            needed for the first row; else 0.
        swap: bytes of each number that stands there big-endian; 0 where none does.
    """

    file: StampedFile
    member: zipfile.ZipInfo
    header: int
    path: Path
    turned: int
    swap: int

    def read(self) -> memoryview:
        """Return the array's content, row-major and little-endian.

        Raises:
            ConflictError: the file changed since it was captured.
            FileFormatError: its data is damaged.
        """
        with self._open() as stream:
            return ArraySource(_read_array(stream)).read()

    def parts(self, length: int, *, own: bool = True) -> Iterator[memoryview]:  # noqa: ARG002 - it always is
        """Yield the content in runs, decompressed as asked for; what stands by columns is held whole."""
        if self.turned:
            yield from self._turned(length)
            return
        with self._open() as stream:
            stream.read(self.header)
            while part := stream.read(length):
                yield memoryview(_swapped(part, self.swap) if self.swap else part)

    def _turned(self, length: int) -> Iterator[memoryview]:
        with self._open() as stream:
            array = _read_array(stream)
        step = length // array.itemsize
        for start in range(0, array.size, step):
            yield ArraySource(array.flat[start : start + step]).read()

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        # Not by way of the archive: it would read its whole directory for each of its arrays.
        with self.file.open() as opened, _told(self.file):
            opened.seek(content_at(self.file, WHAT, opened, self.member))
            yield cast("IO[bytes]", zipfile.ZipExtFile(opened, "r", self.member))


@contextmanager
def _told(file: StampedFile) -> Iterator[None]:
    """Tell a file that was written meanwhile from a damaged one."""
    try:
        yield
    except (*_DAMAGE, MemoryError) as error:
        if isinstance(error, MvcsError):
            raise
        file.check()
        raise damage(file.path, WHAT, error) from error


def _swapped(part: bytes, size: int) -> bytes:
    # The halves of a complex number are numbers of their own.
    return np.frombuffer(part, f">u{size}").astype(f"<u{size}").tobytes()


def _read_array(stream: IO[bytes]) -> Array:
    array: Array = np.lib.format.read_array(stream, allow_pickle=False)
    # The checksum is compared when the end is reached, so one more byte is asked for.
    if stream.read(1):
        raise ValueError("data follows an array")
    return array


def capture_npz(file: StampedFile, name: str, collector: Collector, *, loosely: bool = False) -> FileEntry:
    """Take an npz archive apart; arrays that are stored as they are, are not read.

    Args:
        file: the archive.
        name: its path in the commit.
        collector: takes its arrays.
        loosely: members that are no arrays of numbers are kept as they stand.

    Raises:
        FileFormatError: it is not an npz archive.
        UnsafeFileError: an array holds pickled objects.
        StateError: an array holds something other than numbers; or it was compressed as no zlib of here does.
    """
    members = check_archive(file, WHAT)
    pairs: list[Value] = []
    placed: list[Placed] = []
    with file.open() as opened, _told(file), zipfile.ZipFile(opened) as archive:
        for member in members:
            try:
                pair, source = _pair(archive, file, name, member, collector)
            except (StateError, UnsafeFileError):
                if not loosely:
                    raise
                continue
            pairs.append(pair)
            placed.append(_placed(archive, member, pair, source, content_at(file, WHAT, opened, member)))
    if loosely and not pairs:
        raise FileFormatError(f"'{file.path}' holds no arrays of numbers")
    node: Value = [int(NodeTag.DICT), pairs]
    kind = FileFormat.BINARY if loosely else FileFormat.NPZ
    layout = layout_node(file, node, placed, collector)
    for one in placed:
        if one.deflated is not None:
            # Loosely, an archive cannot be written without its layout, so not with other values of these.
            leaf = collector.leaves[one.leaf]
            collector.leaves[one.leaf] = replace(leaf, deflated=True, verbatim=loosely or leaf.verbatim)
    return FileEntry(name, kind, node, layout)


def _placed(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, pair: list[Value], source: NpzSource, start: int
) -> Placed:
    leaf = cast("int", cast("list[Value]", pair[1])[1])
    order = tuple(range(source.turned))[::-1] if source.turned else None
    if member.compress_type == zipfile.ZIP_STORED:
        return Placed(start + source.header, leaf, member.file_size - source.header, order, source.swap)
    packed = _deflated_again(archive, member, source, start)
    return Placed(start, leaf, member.file_size - source.header, order, source.swap, packed)


def _deflated_again(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: NpzSource, start: int
) -> Deflated:
    """Find the level at which a member is compressed to the very bytes that it has.

    Raises:
        StateError: there is none: another library, or another version of it, compressed it.
    """
    with archive.open(member) as stream:
        head = stream.read(source.header)
    for level in _LEVELS:
        with archive.open(member) as stream, source.file.open() as opened:
            check = done = 0
            for part in deflated(iter(partial(stream.read, RUN), b""), level):
                # The last part may be longer than what is left, and is another one then.
                held = source.file.part(opened, start + done, min(len(part), member.compress_size - done))
                if held != part:
                    break
                check, done = zlib.crc32(part, check), done + len(part)
            else:
                if done == member.compress_size:
                    return Deflated(head, level, done, check)
    raise refuse(source.path, "an array that zlib compresses to other bytes", _PLAINLY)


def _pair(
    archive: zipfile.ZipFile, file: StampedFile, name: str, info: zipfile.ZipInfo, collector: Collector
) -> tuple[list[Value], NpzSource]:
    member = info.filename
    key = member.removesuffix(SUFFIX)
    if key == member:
        raise refuse((name, member), "a member that is not an array")
    if not can_name(key):
        raise refuse((name, member[:200]), "an array of such a name")
    with archive.open(member) as stream:
        shape, dtype, known, columns_first = _array_header(stream, file, (name, key))
        length = stream.tell()
    if info.file_size != length + element_count(shape) * known.itemsize:
        raise FileFormatError(f"'{file.path}' is not {WHAT}: '{member}' does not fill its shape")
    turned = len(shape) if columns_first and len(shape) > 1 else 0
    if turned and info.file_size > machine_memory():
        raise LimitError(
            f"'{file.path}' holds '{key}' by columns: its {info.file_size} bytes do not fit in memory",
            hint="save it by rows, as numpy.ascontiguousarray gives it",
        )
    swap = 0 if dtype == dtype.newbyteorder("<") else dtype.itemsize // (2 if dtype.kind == "c" else 1)
    source = NpzSource(file, info, length, (name, key), turned, swap)
    found = Found(known, shape, source, TensorFlag.NUMPY, (name, member))
    return [key, collector.tensor(found, (name, key))], source


def _array_header(
    stream: IO[bytes], file: StampedFile, path: Path
) -> tuple[tuple[int, ...], np.dtype[Any], DType, bool]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, columns_first, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, columns_first, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise refuse(path, f"an array of npy version {version}")
    if dtype.hasobject:
        raise UnsafeFileError(
            f"'{file.path}' holds pickled objects in '{path[-1]}'; nothing was run",
            hint="save it again as plain arrays",
        )
    known = dtype_of(dtype)
    if known is None:
        raise refuse(path, f"a numpy array of type '{dtype}'")
    try:
        return as_shape(list(shape)), dtype, known, columns_first
    except CorruptionError:
        raise FileFormatError(f"'{file.path}' is not {WHAT}: '{path[-1]}' has an impossible shape") from None


def write_npz(entry: FileEntry, content: ContentReader, file: BinaryIO) -> None:
    """Write a committed archive again: the same names and arrays in the same order, not compressed.

    Raises:
        CorruptionError: the commit's archive holds something other than arrays.
    """
    tag, rest = tag_of(entry.node)
    names: list[tuple[str, int]] = []
    for key, node in pairs_of(rest[0] if tag is NodeTag.DICT and len(rest) == 1 else None):
        reference = tensor_reference(node)
        if not isinstance(key, str) or reference is None:
            raise CorruptionError(f"the archive '{entry.path}' holds something other than arrays")
        names.append((key, reference[0]))
    write_arrays(names, content, file)


def write_arrays(names: list[tuple[str, int]], content: ContentReader, file: BinaryIO) -> None:
    """Write leaves as the arrays of a new archive, one at a time, each read once if its names stand together.

    Args:
        names: name and leaf index of each array.
        content: where leaves are read.
        file: where the archive goes.

    Raises:
        UsageError: an archive cannot hold one of the names.
    """
    array, held = np.empty(0), -1
    each = content.each([index for index, _ in groupby(index for _, index in names)])
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, index in names:
            check_tensor_name(name, FileFormat.NPZ)
            if index != held:
                leaf = content.tree.leaves[index]
                array, held = numpy_view(leaf.dtype, leaf.shape, next(each)), index
            # Without a date of its own a member has one fixed date, so equal content is an equal file.
            with archive.open(zipfile.ZipInfo(name + SUFFIX), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
