from .completeness import Completeness, IncompleteError
from .fetch import FetchResult, fetch_refs
from .needed_packs import RememberedPacks
from .push import Delivered, MovedRef, RefToPush, TransferTerms, ahead_behind, push_refs
from .transfer_sides import TransferSide

__all__ = [
    "Completeness",
    "Delivered",
    "FetchResult",
    "IncompleteError",
    "MovedRef",
    "RefToPush",
    "RememberedPacks",
    "TransferSide",
    "TransferTerms",
    "ahead_behind",
    "fetch_refs",
    "push_refs",
]
