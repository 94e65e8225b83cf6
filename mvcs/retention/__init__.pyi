from .data_drops import DataDrops, carry_drops
from .dropped import explained
from .drops import Drop, DropLog, DropRecord
from .exact_layers import is_kept, record_absent, try_apply_rule
from .facts import Source
from .pins import pin, unpin
from .plan import Plan, Ruling, commit_names
from .rule_words import RuleWords, rules_from
from .rules import Layer, set_rules

__all__ = [
    "DataDrops",
    "Drop",
    "DropLog",
    "DropRecord",
    "Layer",
    "Plan",
    "RuleWords",
    "Ruling",
    "Source",
    "carry_drops",
    "commit_names",
    "explained",
    "is_kept",
    "pin",
    "record_absent",
    "rules_from",
    "set_rules",
    "try_apply_rule",
    "unpin",
]
