from .drops import Drop, DropLog, DropRecord
from .exact_layers import is_kept, record_absent, try_apply_rule

__all__ = [
    "Drop",
    "DropLog",
    "DropRecord",
    "is_kept",
    "record_absent",
    "try_apply_rule",
]
