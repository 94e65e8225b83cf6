from .checking.fsck import CheckedClone, check_store
from .checking.pack_check import FULL, PACKS, QUICK, Level
from .collecting.garbage import Garbage, GcReport, collect_garbage
from .collecting.leftovers import delete_packs, remove_leftovers
from .collecting.marking import remembered_history
from .reasons import explain
from .repairing.repair import Repair
from .repairing.workspace import Source
from .statistics import store_stats

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
    "check_store",
    "collect_garbage",
    "delete_packs",
    "explain",
    "remembered_history",
    "remove_leftovers",
    "store_stats",
]
