from .checking.fsck import CheckedClone, check_store
from .checking.pack_check import FULL, PACKS, QUICK, Level
from .collecting.garbage import Garbage, GcReport, collect_garbage
from .collecting.known_history import remembered_history
from .collecting.leftovers import held, remove_copies, remove_leftovers, remove_packs
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
    "explain",
    "held",
    "remembered_history",
    "remove_copies",
    "remove_leftovers",
    "remove_packs",
    "store_stats",
]
