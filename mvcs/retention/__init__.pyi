from .dropped import dropped_why, explained, said_of
from .drops import Drop, DropLog, DropRecord, drops_row
from .exact_layers import drop_layers, has_exact_layer, layer_bytes, record_absent, try_drop_old_layers
from .facts import Source
from .pins import PinRecord, pin, pinned, pins_row, unpin
from .plan import GONE, Plan, Ruling, commit_names, dropped_before
from .record_row import RecordRow
from .rules import Keeps, Layer, Rule, RuleRecord, RuleWords, parse_age, rules_from, rules_row, set_rules

__all__ = [
    "GONE",
    "Drop",
    "DropLog",
    "DropRecord",
    "Keeps",
    "Layer",
    "PinRecord",
    "Plan",
    "RecordRow",
    "Rule",
    "RuleRecord",
    "RuleWords",
    "Ruling",
    "Source",
    "commit_names",
    "drop_layers",
    "dropped_before",
    "dropped_why",
    "drops_row",
    "explained",
    "has_exact_layer",
    "layer_bytes",
    "parse_age",
    "pin",
    "pinned",
    "pins_row",
    "record_absent",
    "rules_from",
    "rules_row",
    "said_of",
    "set_rules",
    "try_drop_old_layers",
    "unpin",
]
