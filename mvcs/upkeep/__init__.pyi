from .checking.fsck import CheckedClone, check_store
from .checking.level import FULL, PACKS, QUICK, Level
from .collecting.garbage import collect_garbage
from .collecting.garbage_report import Garbage, GcReport
from .collecting.leftovers import held, remove_copies, remove_leftovers, remove_packs
from .collecting.remembered_history import remembered_history
from .repairing.repair import Repair
from .repairing.sources import Source
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
