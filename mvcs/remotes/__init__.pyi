from .completeness import has_data
from .fetch import FetchResult, fetch_refs
from .other_endings import BrokenCommits, Brought, Drops, OtherEndings
from .pack_transfer import RememberedPacks, TransferSide
from .push import Delivered, MovedRef, RefToPush, TransferTerms, ahead_behind, push_refs

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
