"""Encodings, below the id: how the bytes of one chunk become a payload, alone or near a base chunk."""

from mvcs.delta.choose import CodeChunks, choose_codes, choose_exact, choose_opaque
from mvcs.delta.element import ElementFormat
from mvcs.delta.encoding import Encoding, decode, encode, encoding_numbered

__all__ = [
    "CodeChunks",
    "ElementFormat",
    "Encoding",
    "choose_codes",
    "choose_exact",
    "choose_opaque",
    "decode",
    "encode",
    "encoding_numbered",
]
