"""Mutable names for immutable commits: numbered records, changed by exclusive create, kept as the reflog."""

from mvcs.refs.damage import UNREADABLE, DamagedRecord, Survey
from mvcs.refs.names import CONFLICT, check_name
from mvcs.refs.record import RefRecord
from mvcs.refs.refstore import HEADS, NOTES, REMOTES, TAGS, RefStore

__all__ = [
    "CONFLICT",
    "HEADS",
    "NOTES",
    "REMOTES",
    "TAGS",
    "UNREADABLE",
    "DamagedRecord",
    "RefRecord",
    "RefStore",
    "Survey",
    "check_name",
]
