from .checkouts import CheckoutReport, ExportReport, ResetReport, RestoreReport
from .commits import DAMAGED, DROPPED, KEPT, NOT_MEASURED, SAME, CommitInfo, Restored, TensorError
from .details import CatFile, ClassInfo, CommitDetails, FileInfo, TensorInfo
from .differences import FILE, PART, Diff, FileChange, TensorDiff
from .figures import as_ratio, as_share, as_size
from .fsck import FsckReport, LookReport, Problem, SampleReport
from .history_size import HistorySize
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
from .repair import Loss, Mended, RepairReport
from .report import Report, as_json, as_utc
from .shortfalls import Cause, Shortfall
from .status import FileStatus, Status

__all__ = [
    "DAMAGED",
    "DROPPED",
    "FILE",
    "KEPT",
    "NOT_MEASURED",
    "PART",
    "SAME",
    "BranchInfo",
    "CatFile",
    "Cause",
    "CheckoutReport",
    "ClassInfo",
    "CommitDetails",
    "CommitInfo",
    "Diff",
    "ExportReport",
    "FetchReport",
    "FileChange",
    "FileInfo",
    "FileStatus",
    "FsckReport",
    "HistorySize",
    "LookReport",
    "Loss",
    "Mended",
    "NoteInfo",
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
    "RestoreReport",
    "Restored",
    "SampleReport",
    "Shortfall",
    "Status",
    "TagInfo",
    "TensorDiff",
    "TensorError",
    "TensorInfo",
    "as_json",
    "as_ratio",
    "as_share",
    "as_size",
    "as_utc",
]
