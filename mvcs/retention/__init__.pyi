from .carried_drops import carry_drops
from .data_drops import DataDrop, DataDrops, record_drops, record_there, told_of
from .dropped import dropped_why, explained, said_of
from .drops import Drop, DropLog, DropRecord, drops_row
from .exact_layers import drop_layers, try_drop_old_layers
from .facts import Source
from .missing_data import GONE, dropped_before
from .pins import PinRecord, pin, pins_row, unpin
from .plan import Plan, Ruling, commit_names
from .record_row import RecordRow
from .rule_words import RuleWords, parse_age, rules_from
from .rules import Keeps, Layer, Rule, RuleRecord, rules_row, set_rules
from .stored_layers import has_exact_layer, layer_bytes, record_absent

__all__ = [
    "GONE",
    "DataDrop",
    "DataDrops",
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
    "carry_drops",
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
    "pins_row",
    "record_absent",
    "record_drops",
    "record_there",
    "rules_from",
    "rules_row",
    "said_of",
    "set_rules",
    "told_of",
    "try_drop_old_layers",
    "unpin",
]
