from . import fsck
from .fsck import CheckedClone
from .garbage import Garbage, GcReport, collect_garbage
from .leftovers import remove_copies, remove_leftovers

__all__ = [
    "CheckedClone",
    "Garbage",
    "GcReport",
    "collect_garbage",
    "fsck",
    "remove_copies",
    "remove_leftovers",
]
