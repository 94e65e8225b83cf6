"""Other people's compressors, on the same bytes: zstd, XOR and byte planes before it, ZipNN."""

import importlib
import importlib.util
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import zstandard

from mvcs.bench.codecs.coders import Coder, Content
from mvcs.delta import Buffer, Bytes, ElementFormat

_LEVEL = 3
_ZIPNN_TYPES = {2: "bfloat16", 4: "float32"}


def others(element: ElementFormat) -> tuple[Coder, ...]:
    """Return the compressors that this installation has for such elements."""
    found = [
        Coder("zstd -3", near=False, encode=_encode_zstd, decode=_decode_zstd),
        Coder("XOR, planes, zstd -3", near=True, encode=_encode_xor, decode=_decode_xor),
    ]
    if has_zipnn() and element.floating and element.width in _ZIPNN_TYPES:
        found.append(Coder("ZipNN", near=False, encode=_encode_zipnn, decode=_decode_zipnn))
    return tuple(found)


def has_zipnn() -> bool:
    """Whether the optional package is installed."""
    return importlib.util.find_spec("zipnn") is not None


def _compressed(data: Bytes) -> bytes:
    return zstandard.ZstdCompressor(level=_LEVEL).compress(np.ascontiguousarray(data).data)


def _decompressed(payload: Buffer) -> Bytes:
    return np.frombuffer(zstandard.ZstdDecompressor().decompress(bytes(payload)), np.uint8)


def _encode_zstd(content: Content) -> Sequence[Buffer]:
    return [_compressed(content.whole)]


def _decode_zstd(payloads: Sequence[Buffer], content: Content) -> Sequence[Buffer]:  # noqa: ARG001  # a decoder's form
    return [_decompressed(payload) for payload in payloads]


def _encode_xor(content: Content) -> Sequence[Buffer]:
    mixed = content.whole ^ content.base
    planes = mixed.reshape(-1, content.element.width).T
    return [_compressed(plane) for plane in planes]


def _decode_xor(payloads: Sequence[Buffer], content: Content) -> Sequence[Buffer]:
    planes = np.stack([_decompressed(payload) for payload in payloads], axis=1)
    restored: Bytes = planes.reshape(-1) ^ content.base
    return [restored]


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
