from .index import Lineage
from .records import CommitRecord, EncodingRecord, NoteRecord, RebuildReport, RefRecord, TensorRecord

__all__ = [
    "CommitRecord",
    "EncodingRecord",
    "Lineage",
    "NoteRecord",
    "RebuildReport",
    "RefRecord",
    "TensorRecord",
]
