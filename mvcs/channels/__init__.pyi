from .message import HEADER_BYTES, Flag, Header, Kind, checksum_of_ids
from .quantizer import Quantizer

__all__ = ["HEADER_BYTES", "Flag", "Header", "Kind", "Quantizer", "checksum_of_ids"]
