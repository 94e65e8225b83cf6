"""safetensors files: captured without being loaded, and written back byte for byte."""

from typing import BinaryIO

from mvcs.checkpoint.formats.layout import capture_named
from mvcs.checkpoint.formats.restored_mark import marked, unmarked
from mvcs.checkpoint.formats.safetensors_header import (
    LENGTH_BYTES,
    MAX_HEADER,
    Span,
    header_length,
    length_prefix,
    parse_header,
)
from mvcs.checkpoint.state.collector import Collector, Found
from mvcs.checkpoint.state.content_reader import ContentReader
from mvcs.checkpoint.state.stamped import StampedFile
from mvcs.errors import CorruptionError, FileFormatError, StateError
from mvcs.objects import FileEntry, FileFormat, NodeTag, TensorFlag, Value, pairs_of, tag_of, tensor_reference


def capture_safetensors(file: StampedFile, name: str, collector: Collector) -> FileEntry:
    """Take a safetensors file apart: its header as it stands, its tensors in the order of their bytes.

    The mark of a lossily restored file is no part of its header; the collector takes note of it.

    Raises:
        FileFormatError: it is not a safetensors file; says what is wrong and where.
        StateError: its header says more than the format has.
    """
    header, spans = _read(file)
    data = LENGTH_BYTES + len(header)
    pairs: list[Value] = []
    for span in spans:
        source = file.span(data + span.begin, span.end - span.begin)
        found = Found(span.dtype, span.shape, source, TensorFlag(0), (name, span.name))
        pairs.append([span.name, collector.tensor(found, (name, span.name))])
    own, restored = unmarked(header)
    if restored is not None:
        collector.restored[name] = restored
    return FileEntry(name, FileFormat.SAFETENSORS, [int(NodeTag.DICT), pairs], collector.bytes_node(own))


def capture_odd_safetensors(file: StampedFile, name: str, collector: Collector) -> FileEntry:
    """Take a file apart whose header says more than the format has: its tensors, and all else as it stands.

    Raises:
        FileFormatError: it is not a safetensors file even so.
    """
    header, spans = _read(file, loosely=True)
    data = LENGTH_BYTES + len(header)
    found = ((span.name, span.dtype, span.shape, data + span.begin) for span in spans)
    return capture_named(file, name, found, collector)


def _read(file: StampedFile, *, loosely: bool = False) -> tuple[bytes, list[Span]]:
    try:
        return _parse(file, loosely=loosely)
    except FileFormatError as error:
        raise FileFormatError(f"'{file.path}' is not a safetensors file: {error.message}") from error


def _parse(file: StampedFile, *, loosely: bool) -> tuple[bytes, list[Span]]:
    if file.size < LENGTH_BYTES:
        raise FileFormatError(f"it has {file.size} bytes, fewer than the length in front of a header")
    length = header_length(file.read(0, LENGTH_BYTES))
    if length > MAX_HEADER:
        raise FileFormatError(f"its first 8 bytes announce a header of {length} bytes, above {MAX_HEADER}")
    if LENGTH_BYTES + length > file.size:
        raise FileFormatError(f"it ends at byte {file.size}, inside its header of {length} bytes")
    header = bytes(file.read(LENGTH_BYTES, length))
    spans = parse_header(header, loosely=loosely)
    expected = LENGTH_BYTES + length + max((span.end for span in spans), default=0)
    if file.size < expected or (file.size != expected and not loosely):
        kind = StateError if file.size > expected else FileFormatError
        raise kind(f"it has {file.size} bytes where its header describes {expected}")
    return header, spans


def write_safetensors(entry: FileEntry, content: ContentReader, file: BinaryIO) -> None:
    """Write a committed safetensors file as it was, a tensor at a time; one that is not says so in a mark.

    Raises:
        CorruptionError: the header and the tensors of the commit do not belong together.
    """
    header = content.bytes_of(entry.header)
    indices = _indices(entry, content, header)
    restored = content.restored_from(indices)
    written = header if restored is None else marked(header, restored)
    file.write(length_prefix(written))
    file.write(written)
    file.writelines(content.leaf(index) for index in indices)


def _indices(entry: FileEntry, content: ContentReader, header: bytes) -> list[int]:
    tag, rest = tag_of(entry.node)
    pairs = pairs_of(rest[0] if tag is NodeTag.DICT and len(rest) == 1 else None)
    try:
        spans = parse_header(header, len(pairs))
    except (FileFormatError, StateError) as error:
        raise CorruptionError(f"the header of '{entry.path}' is damaged: {error.message}") from error
    references = [tensor_reference(node) for _, node in pairs]
    indices = [reference[0] for reference in references if reference is not None]
    leaves = [content.tree.leaves[index] for index in indices]
    held = [(key, leaf.dtype, leaf.shape) for (key, _), leaf in zip(pairs, leaves, strict=False)]
    if len(leaves) != len(pairs) or held != [(span.name, span.dtype, span.shape) for span in spans]:
        raise CorruptionError(f"the header of '{entry.path}' does not describe its tensors")
    return indices
