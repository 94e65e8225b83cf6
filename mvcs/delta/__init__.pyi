from .buffers import IDLE_BYTES, Buffer, Bytes, Content, as_array, bytes_of, joined_bytes, release_idle
from .choose import Chosen, CodeChunks, CodeCoder, choose_codes, choose_exact, choose_opaque, pays_near_base
from .element import ElementFormat
from .encoding import Encoding, decode, encode, encoding_numbered
from .exact import decode_planes_rans, decode_residual, encode_planes_rans, encode_residual
from .narrowed import NarrowedType, narrowed_payload, narrowed_type
from .rans import decode_codes, decode_moves, encode_codes, encode_moves, rescale_codes

__all__ = [
    "IDLE_BYTES",
    "Buffer",
    "Bytes",
    "Chosen",
    "CodeChunks",
    "CodeCoder",
    "Content",
    "ElementFormat",
    "Encoding",
    "NarrowedType",
    "as_array",
    "bytes_of",
    "choose_codes",
    "choose_exact",
    "choose_opaque",
    "decode",
    "decode_codes",
    "decode_moves",
    "decode_planes_rans",
    "decode_residual",
    "encode",
    "encode_codes",
    "encode_moves",
    "encode_planes_rans",
    "encode_residual",
    "encoding_numbered",
    "joined_bytes",
    "narrowed_payload",
    "narrowed_type",
    "pays_near_base",
    "release_idle",
    "rescale_codes",
]
