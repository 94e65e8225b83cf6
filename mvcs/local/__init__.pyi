from . import place
from .compactions import BackgroundCompaction, compaction_lock, forget_background
from .exported_files import ExportLanding, Exports, stamps_of_files
from .findings import Findings, Sample, save_findings
from .head import HEAD, HEAD_LOG, MOVED_FROM, Head, HeadLog, Move, mend_advice, read_head, write_head
from .journal import Journal, JournalRemains, journal_remains, packs_at_work
from .place import (
    INCOMING_FOLDER,
    Place,
    adopt,
    check_place,
    describe_damaged,
    find,
    foreign_files_note,
    ignore_note,
    initialise,
    is_begun,
    is_known_file,
    is_new,
    keep_described,
    named_where,
    open_described,
    refuse_occupied,
    wrong_settings,
)
from .records import RECORDS_FOLDER, LocalRecords
from .restore_rates import MeasuredRates, known_rates, remember_rates
from .seen_refs import SEEN_REFS, SeenRefs
from .store_description import Description
from .store_watch import StoreWatch, known_damaged, note_checked, note_damaged
from .trust import TRUSTED_FILE, Trust
from .user_config import UserConfig, shown_setting

__all__ = [
    "HEAD",
    "HEAD_LOG",
    "INCOMING_FOLDER",
    "MOVED_FROM",
    "RECORDS_FOLDER",
    "SEEN_REFS",
    "TRUSTED_FILE",
    "BackgroundCompaction",
    "Description",
    "ExportLanding",
    "Exports",
    "Findings",
    "Head",
    "HeadLog",
    "Journal",
    "JournalRemains",
    "LocalRecords",
    "MeasuredRates",
    "Move",
    "Place",
    "Sample",
    "SeenRefs",
    "StoreWatch",
    "Trust",
    "UserConfig",
    "adopt",
    "check_place",
    "compaction_lock",
    "describe_damaged",
    "find",
    "foreign_files_note",
    "forget_background",
    "ignore_note",
    "initialise",
    "is_begun",
    "is_known_file",
    "is_new",
    "journal_remains",
    "keep_described",
    "known_damaged",
    "known_rates",
    "mend_advice",
    "named_where",
    "note_checked",
    "note_damaged",
    "open_described",
    "packs_at_work",
    "place",
    "read_head",
    "refuse_occupied",
    "remember_rates",
    "save_findings",
    "shown_setting",
    "stamps_of_files",
    "write_head",
    "wrong_settings",
]
