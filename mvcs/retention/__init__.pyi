from .drops import DropLog
from .exact_layers import is_kept, record_absent, try_apply_rule

__all__ = [
    "DropLog",
    "is_kept",
    "record_absent",
    "try_apply_rule",
]
