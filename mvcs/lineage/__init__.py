"""The lineage index: a rebuildable SQLite cache of who descends from whom, and with what metrics.

Nothing here is imported from SQLAlchemy or Alembic before a query or a write needs it.
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
