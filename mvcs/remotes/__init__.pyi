from .completeness import has_data
from .fetch import FetchResult, fetch_refs
from .needed_packs import RememberedPacks
from .push import Delivered, MovedRef, RefToPush, TransferTerms, ahead_behind, push_refs
from .transfer_sides import TransferSide

__all__ = [
    "Delivered",
    "FetchResult",
    "MovedRef",
    "RefToPush",
    "RememberedPacks",
    "TransferSide",
    "TransferTerms",
    "ahead_behind",
    "fetch_refs",
    "has_data",
    "push_refs",
]
