from .completeness import has_data
from .fetch import FetchResult, fetch_refs
from .needed_packs import RememberedPacks
from .other_endings import BrokenCommits, Brought, Drops, OtherEndings
from .push import Delivered, MovedRef, RefToPush, TransferTerms, ahead_behind, push_refs
from .transfer_sides import TransferSide

__all__ = [
    "BrokenCommits",
    "Brought",
    "Delivered",
    "Drops",
    "FetchResult",
    "MovedRef",
    "OtherEndings",
    "RefToPush",
    "RememberedPacks",
    "TransferSide",
    "TransferTerms",
    "ahead_behind",
    "fetch_refs",
    "has_data",
    "push_refs",
]
