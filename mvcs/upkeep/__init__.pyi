from . import fsck
from .fsck import CheckedClone
from .fsck_packs import FULL, PACKS, QUICK
from .garbage import Garbage, GcReport, collect_garbage
from .leftovers import remove_copies, remove_leftovers
from .repair import Repair
from .repair_packs import Source

__all__ = [
    "FULL",
    "PACKS",
    "QUICK",
    "CheckedClone",
    "Garbage",
    "GcReport",
    "Repair",
    "Source",
    "collect_garbage",
    "fsck",
    "remove_copies",
    "remove_leftovers",
]
