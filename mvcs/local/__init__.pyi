from . import head_log, place
from .background_compaction import BackgroundCompaction, forget_background
from .compaction_steps import CompactionSteps, Step, packs_to_go_on_with
from .damaged_packs import known_damaged, note_checked, note_damaged
from .exported_files import ExportLanding, Exports, stamps_of_files
from .findings import Findings, save_findings
from .foreign_files import foreign_files_note
from .git_folder import ignore_note
from .head import HEAD, Head, mend_advice, read_head, write_head
from .head_log import MOVED_FROM, HeadLog, Move
from .journal import Journal, JournalRemains, journal_remains, packs_at_work, packs_on_record
from .place import (
    INCOMING_FOLDER,
    Place,
    adopt,
    check_place,
    describe_damaged,
    find,
    initialise,
    is_begun,
    is_new,
    keep_described,
    named_where,
    open_described,
    refuse_occupied,
)
from .records import RECORDS_FOLDER, LocalRecords
from .restore_rates import MeasuredRates, known_rates, remember_rates
from .sampling import Sample
from .seen_refs import SEEN_REFS, SeenRefs
from .settings_shown import shown_setting
from .store_description import Description
from .store_watch import StoreWatch
from .trust import TRUSTED_FILE, Trust
from .user_config import UserConfig

__all__ = [
    "HEAD",
    "INCOMING_FOLDER",
    "MOVED_FROM",
    "RECORDS_FOLDER",
    "SEEN_REFS",
    "TRUSTED_FILE",
    "BackgroundCompaction",
    "CompactionSteps",
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
    "Step",
    "StoreWatch",
    "Trust",
    "UserConfig",
    "adopt",
    "check_place",
    "describe_damaged",
    "find",
    "foreign_files_note",
    "forget_background",
    "head_log",
    "ignore_note",
    "initialise",
    "is_begun",
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
    "packs_on_record",
    "packs_to_go_on_with",
    "place",
    "read_head",
    "refuse_occupied",
    "remember_rates",
    "save_findings",
    "shown_setting",
    "stamps_of_files",
    "write_head",
]
