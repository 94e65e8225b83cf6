"""What is compared: a name for each way to encode the tensors of a class; other people's compressors too."""

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import zstandard

from mvcs.delta import (
    Buffer,
    Bytes,
    ElementFormat,
    Encoding,
    as_array,
    decode,
    decode_codes,
    decode_moves,
    decode_planes_rans,
    decode_residual,
    encode,
    encode_codes,
    encode_moves,
    encode_planes_rans,
    encode_residual,
)
from mvcs.objects import CHUNK_ELEMENTS

_LEVEL = 3
_ZIPNN_TYPES = {2: "bfloat16", 4: "float32"}


@dataclass(frozen=True)
class Content:
    """The chunks of a class of tensors, one after another.

    Attributes:
        chunks: whole elements each, at most 2^22 of them.
        bases: a chunk of the same length for each, from the checkpoint before; None where there is none.
        element: the format of their elements.
        levels: for one-byte codes: more than every code in chunks and bases.
        steps: for codes of a lattice: the step bytes of each chunk's base and of the chunk.
    """

    chunks: tuple[Bytes, ...] = field(repr=False)
    bases: tuple[Bytes, ...] | None = field(repr=False)
    element: ElementFormat
    levels: int = 256
    steps: tuple[tuple[int, int], ...] | None = None

    @classmethod
    def cut(
        cls,
        tensors: Sequence[Bytes],
        bases: Sequence[Bytes] | None,
        element: ElementFormat,
        levels: int = 256,
        steps: Sequence[tuple[int, int]] | None = None,
    ) -> "Content":
        """Cut whole tensors as a commit cuts them; `steps` has one item a tensor."""
        run = CHUNK_ELEMENTS * element.width
        chunks = tuple(part for tensor in tensors for part in _parts(tensor, run))
        old = None if bases is None else tuple(part for base in bases for part in _parts(base, run))
        pairs = zip(tensors, steps or (), strict=steps is not None)
        stepped = tuple(step for tensor, step in pairs for _ in _parts(tensor, run))
        return cls(chunks, old, element, levels, None if steps is None else stepped)

    def groups(self) -> Iterator["Content"]:
        """Yield runs of chunks that an entry of several members can hold, as a commit gathers them."""
        start, total = 0, 0
        for index, count in enumerate(self.counts):
            if total and total + count > CHUNK_ELEMENTS:
                yield self._run(start, index)
                start, total = index, 0
            total += count
        if total:
            yield self._run(start, len(self.chunks))

    def _run(self, start: int, end: int) -> "Content":
        bases = None if self.bases is None else self.bases[start:end]
        steps = None if self.steps is None else self.steps[start:end]
        return Content(self.chunks[start:end], bases, self.element, self.levels, steps)

    @cached_property
    def whole(self) -> Bytes:
        """All chunks as one."""
        return _whole(self.chunks)

    @cached_property
    def base(self) -> Bytes:
        """All bases as one; nothing where there are none."""
        return _whole(self.bases or ())

    @property
    def size(self) -> int:
        """Bytes of all chunks."""
        return sum(chunk.size for chunk in self.chunks)

    @property
    def counts(self) -> list[int]:
        """Elements of each chunk."""
        return [chunk.size // self.element.width for chunk in self.chunks]


@dataclass(frozen=True)
class Coder:
    """One encoding, under the name that a table shows.

    Attributes:
        name: what it is called.
        near: whether it needs the checkpoint before.
        encode: content to payloads.
        decode: payloads to all bytes again, in order; the content tells lengths and bases alone.
    """

    name: str
    near: bool
    encode: Callable[[Content], Sequence[Buffer]]
    decode: Callable[[Sequence[Buffer], Content], Sequence[Buffer]]


def single(encoding: Encoding) -> Coder:
    """Return a coder that writes every chunk as an entry of its own."""

    def encoded(content: Content) -> Sequence[Buffer]:
        return [
            encode(encoding, chunk, element=content.element, base=base, levels=content.levels)
            for chunk, base in zip(content.chunks, _bases(content, encoding), strict=True)
        ]

    def decoded(payloads: Sequence[Buffer], content: Content) -> Sequence[Buffer]:
        rows = zip(payloads, content.chunks, _bases(content, encoding), strict=True)
        return [
            decode(encoding, payload, lengths=[chunk.size], element=content.element, base=base)
            for payload, chunk, base in rows
        ]

    return Coder(f"{encoding.name} ({encoding.value})", encoding.has_base, encoded, decoded)


def gathered(
    name: str,
    encode_group: Callable[[Content], Buffer],
    decode_group: Callable[[Buffer, Content], Buffer],
    *,
    near: bool = False,
) -> Coder:
    """Return a coder that writes as many chunks into an entry as it may hold; they share its tables."""

    def encoded(content: Content) -> Sequence[Buffer]:
        return [encode_group(group) for group in content.groups()]

    def decoded(payloads: Sequence[Buffer], content: Content) -> Sequence[Buffer]:
        groups = content.groups()
        return [decode_group(payload, group) for payload, group in zip(payloads, groups, strict=True)]

    return Coder(name, near, encoded, decoded)


def _whole(chunks: Sequence[Bytes]) -> Bytes:
    return np.concatenate(chunks) if chunks else np.empty(0, np.uint8)


def _bases(content: Content, encoding: Encoding) -> Sequence[Bytes | None]:
    return content.bases if encoding.has_base and content.bases else [None] * len(content.chunks)


def _parts(tensor: Bytes, run: int) -> Iterator[Bytes]:
    return (tensor[start : start + run] for start in range(0, tensor.size, run))


EXACT = (
    single(Encoding.RAW),
    gathered(
        "RANS_PLANES (9)",
        lambda group: encode_planes_rans(group.whole, group.element),
        lambda payload, group: decode_planes_rans(payload, group.whole.size, group.element),
    ),
    gathered(
        "RANS_RESIDUAL (8)",
        lambda group: encode_residual(group.whole, group.base, group.element),
        lambda payload, group: decode_residual(payload, group.base, group.element),
        near=True,
    ),
)
"""Encodings of values that come back bit for bit."""

CODES = tuple(single(encoding) for encoding in (Encoding.RAW, Encoding.CODES, Encoding.DELTA))
"""Published encodings of one-byte codes."""

RANS = (
    gathered(
        "RANS_CODES (6)",
        lambda group: encode_codes(group.whole, group.element.width, group.counts),
        lambda payload, group: decode_codes(as_array(payload), group.element.width, group.counts),
    ),
    gathered(
        "RANS_DELTA (7)",
        lambda group: encode_moves(group.whole, group.base, group.element.width, group.counts, group.steps),
        lambda payload, group: decode_moves(as_array(payload), group.base, group.element.width, group.counts),
        near=True,
    ),
)
"""Encodings of codes of one or two bytes."""


def coders_of(width: int) -> tuple[Coder, ...]:
    """Return the encodings of codes of one or two bytes."""
    return (*CODES, *RANS) if width == 1 else (single(Encoding.RAW), *RANS)


def zstd(level: int) -> Coder:
    """Return zstd of all bytes."""

    def encoded(content: Content) -> Sequence[Buffer]:
        return [_compressed(content.whole, level)]

    def decoded(payloads: Sequence[Buffer], content: Content) -> Sequence[Buffer]:
        return [_decompressed(payload, content.size) for payload in payloads]

    return Coder(f"zstd -{level}", near=False, encode=encoded, decode=decoded)


def byte_planes(content: Bytes, width: int) -> list[Bytes]:
    """Return the first bytes of all elements, then their second ones, and so on."""
    return [np.ascontiguousarray(plane) for plane in content.reshape(-1, width).T]


def _encode_planes(content: Content) -> Sequence[Buffer]:
    return [_compressed(plane, _LEVEL) for plane in byte_planes(content.whole, content.element.width)]


def _decode_planes(payloads: Sequence[Buffer], content: Content) -> Sequence[Buffer]:
    return [_joined_planes(payloads, content)]


def _joined_planes(payloads: Sequence[Buffer], content: Content) -> Bytes:
    size = content.size // content.element.width
    return np.stack([_decompressed(payload, size) for payload in payloads], axis=1).reshape(-1)


def _encode_xor(content: Content) -> Sequence[Buffer]:
    planes = byte_planes(content.whole ^ content.base, content.element.width)
    return [_compressed(plane, _LEVEL) for plane in planes]


def _decode_xor(payloads: Sequence[Buffer], content: Content) -> Sequence[Buffer]:
    restored: Bytes = _joined_planes(payloads, content) ^ content.base
    return [restored]


def _compressed(data: Bytes, level: int) -> bytes:
    return zstandard.ZstdCompressor(level=level).compress(np.ascontiguousarray(data).data)


def _decompressed(payload: Buffer, size: int) -> Bytes:
    frame = bytes(payload)
    if zstandard.frame_content_size(frame) != size:
        raise ValueError(f"a frame is not of {size} bytes")
    return np.frombuffer(zstandard.ZstdDecompressor().decompress(frame), np.uint8)


def _encode_zipnn(content: Content) -> Sequence[Buffer]:
    # It overwrites what it is given: both ways get a copy of their own.
    return [bytes(_zipnn(content).compress(bytearray(content.whole)))]


def _decode_zipnn(payloads: Sequence[Buffer], content: Content) -> Sequence[Buffer]:
    return [bytes(_zipnn(content).decompress(bytearray(payload))) for payload in payloads]


def _zipnn(content: Content) -> Any:  # noqa: ANN401  # an optional package without types
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zipnn = importlib.import_module("zipnn")
    return zipnn.ZipNN(input_format="byte", bytearray_dtype=_ZIPNN_TYPES[content.element.width])


PLANES = Coder("planes, zstd -3", near=False, encode=_encode_planes, decode=_decode_planes)
XOR_PLANES = Coder("XOR, planes, zstd -3", near=True, encode=_encode_xor, decode=_decode_xor)
ZIPNN = Coder("ZipNN", near=False, encode=_encode_zipnn, decode=_decode_zipnn)


def others(element: ElementFormat) -> tuple[Coder, ...]:
    """Return the compressors that this installation has for such elements."""
    fits = has_zipnn() and element.floating and element.width in _ZIPNN_TYPES
    return (zstd(_LEVEL), XOR_PLANES, *((ZIPNN,) if fits else ()))


def has_zipnn() -> bool:
    """Whether the optional package is installed."""
    return importlib.util.find_spec("zipnn") is not None
