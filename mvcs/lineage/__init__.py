"""The lineage index: a rebuildable SQLite cache of who descends from whom, and with what metrics.

SQLAlchemy is imported where a report needs it, and Alembic where an older file is written to.
"""

from mvcs.lineage.index import Lineage
from mvcs.lineage.records import (
    CommitRecord,
    EncodingRecord,
    NoteRecord,
    RebuildReport,
    RefRecord,
    TensorRecord,
)

__all__ = [
    "CommitRecord",
    "EncodingRecord",
    "Lineage",
    "NoteRecord",
    "RebuildReport",
    "RefRecord",
    "TensorRecord",
]
