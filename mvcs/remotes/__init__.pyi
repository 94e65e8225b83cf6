from .acceptance import Claims
from .completeness import Completeness, Decodable
from .fetch import FetchResult, fetch_refs
from .pack_transfer import TransferSide
from .push import Delivered, MovedRef, RefToPush, TransferTerms, ahead_behind, push_refs

__all__ = [
    "Claims",
    "Completeness",
    "Decodable",
    "Delivered",
    "FetchResult",
    "MovedRef",
    "RefToPush",
    "TransferSide",
    "TransferTerms",
    "ahead_behind",
    "fetch_refs",
    "push_refs",
]
