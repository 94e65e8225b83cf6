from .annotation_check import check_note, check_tag
from .damage import (
    UNREADABLE,
    DamagedRecord,
    FoundRecord,
    RefSurvey,
    how_to_give_up,
    lost_end_error,
    missing_ref_error,
    recordless_error,
)
from .names import CONFLICT, check_name, decode_name, encode_name, is_segment, refuse_ambiguous
from .notes import later_metrics, notes_of
from .record import RefChange, RefRecord
from .record_files import ref_folder
from .refstore import (
    HEADS,
    NOTES,
    REMOTES,
    TAGS,
    RefStore,
    now_microseconds,
)
from .remembered_refs import RolledBackError, record_mark
from .same_target import update_behind
from .writer_duties import TAKEN_BACK, GoingError, Marked

__all__ = [
    "CONFLICT",
    "HEADS",
    "NOTES",
    "REMOTES",
    "TAGS",
    "TAKEN_BACK",
    "UNREADABLE",
    "DamagedRecord",
    "FoundRecord",
    "GoingError",
    "Marked",
    "RefChange",
    "RefRecord",
    "RefStore",
    "RefSurvey",
    "RolledBackError",
    "check_name",
    "check_note",
    "check_tag",
    "decode_name",
    "encode_name",
    "how_to_give_up",
    "is_segment",
    "later_metrics",
    "lost_end_error",
    "missing_ref_error",
    "notes_of",
    "now_microseconds",
    "record_mark",
    "recordless_error",
    "ref_folder",
    "refuse_ambiguous",
    "update_behind",
]
