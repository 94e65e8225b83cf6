from . import fsck
from .fsck import CheckedClone
from .fsck_level import FULL, PACKS, QUICK, Level
from .garbage import collect_garbage
from .garbage_report import Garbage, GcReport
from .leftovers import remove_copies, remove_leftovers
from .repair import Repair
from .repair_packs import Source
from .stats.store_stats import store_stats
from .why.reasons import explain

__all__ = [
    "FULL",
    "PACKS",
    "QUICK",
    "CheckedClone",
    "Garbage",
    "GcReport",
    "Level",
    "Repair",
    "Source",
    "collect_garbage",
    "explain",
    "fsck",
    "remove_copies",
    "remove_leftovers",
    "store_stats",
]
