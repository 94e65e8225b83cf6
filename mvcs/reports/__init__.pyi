from .checkouts import CheckoutReport, ExportReport, ResetReport, RestoreReport
from .commits import DAMAGED, DROPPED, KEPT, NOT_MEASURED, SAME, CommitInfo, Restored, TensorError
from .compaction import CompactReport
from .details import CatFile, ClassInfo, CommitDetails, FileInfo, TensorInfo
from .differences import FILE, PART, Diff, FileChange, TensorDiff
from .figures import as_ratio, as_share, as_size
from .fsck import FsckReport, LookReport, Problem, SampleReport
from .history_size import HistorySize
from .plans import CheckoutPlan, RestoreFigures
from .refs import (
    BranchInfo,
    FetchReport,
    NoteInfo,
    PullReport,
    PushReport,
    ReflogEntry,
    RefUpdate,
    RemoteBranch,
    RemoteInfo,
    TagInfo,
)
from .repair import Loss, Mended, NewestWhole, RepairReport
from .report import Report, as_json, as_utc
from .retention import PinInfo, PlannedCommit, RetentionApplied, RetentionShown, RuleInfo
from .shortfalls import Cause, Shortfall
from .stats import (
    Bin,
    BranchSize,
    ClassSize,
    CommitSize,
    EncodingSize,
    Freeable,
    MonthSize,
    StoreStats,
)
from .status import FileStatus, Status
from .why import NEEDED, PAST, UNNEEDED, DropInfo, Why, WhyStep
from .words_for_stores import of_remote

__all__ = [
    "DAMAGED",
    "DROPPED",
    "FILE",
    "KEPT",
    "NEEDED",
    "NOT_MEASURED",
    "PART",
    "PAST",
    "SAME",
    "UNNEEDED",
    "Bin",
    "BranchInfo",
    "BranchSize",
    "CatFile",
    "Cause",
    "CheckoutPlan",
    "CheckoutReport",
    "ClassInfo",
    "ClassSize",
    "CommitDetails",
    "CommitInfo",
    "CommitSize",
    "CompactReport",
    "Diff",
    "DropInfo",
    "EncodingSize",
    "ExportReport",
    "FetchReport",
    "FileChange",
    "FileInfo",
    "FileStatus",
    "Freeable",
    "FsckReport",
    "HistorySize",
    "LookReport",
    "Loss",
    "Mended",
    "MonthSize",
    "NewestWhole",
    "NoteInfo",
    "PinInfo",
    "PlannedCommit",
    "Problem",
    "PullReport",
    "PushReport",
    "RefUpdate",
    "ReflogEntry",
    "RemoteBranch",
    "RemoteInfo",
    "RepairReport",
    "Report",
    "ResetReport",
    "RestoreFigures",
    "RestoreReport",
    "Restored",
    "RetentionApplied",
    "RetentionShown",
    "RuleInfo",
    "SampleReport",
    "Shortfall",
    "Status",
    "StoreStats",
    "TagInfo",
    "TensorDiff",
    "TensorError",
    "TensorInfo",
    "Why",
    "WhyStep",
    "as_json",
    "as_ratio",
    "as_share",
    "as_size",
    "as_utc",
    "of_remote",
]
