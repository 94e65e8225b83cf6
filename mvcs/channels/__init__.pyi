from .message import HEADER_BYTES, Flag, Header, Kind, checksum_of_ids
from .message_store import MessageStore
from .quantizer import Quantizer
from .residuals import Residuals

__all__ = [
    "HEADER_BYTES",
    "Flag",
    "Header",
    "Kind",
    "MessageStore",
    "Quantizer",
    "Residuals",
    "checksum_of_ids",
]
