"""One file of a commit, or one folder: what `show REV:FILE` tells."""

from dataclasses import dataclass
from typing import Any

from mvcs.objects.structure import blob_reference
from mvcs.objects.tree import FileFormat
from mvcs.repository.commit_details import TensorInfo
from mvcs.repository.looking import details
from mvcs.repository.reports import CommitInfo, Report
from mvcs.repository.restoring import Reading

FOLDER = "folder"


@dataclass(frozen=True)
class FileDetails(Report):
    """One file of a commit, or a folder.

    Attributes:
        commit: whose it is.
        path: where it lies.
        format: "safetensors", "torch", "npz", "opaque", or "folder".
        raw_bytes: bytes of its tensors and blobs.
        tensors: of a file of tensors.
        values: numbers and texts beside them.
        files: of a folder, by their paths.
        content: of an opaque file, its bytes.
    """

    commit: CommitInfo
    path: str
    format: str
    raw_bytes: int
    tensors: list[TensorInfo]
    values: dict[str, Any]
    files: list[str]
    content: bytes | None = None


def file_details(reading: Reading, info: CommitInfo, path: str) -> FileDetails:
    """Return what a reading of one file, or of the files in a folder, tells of it.

    Raises:
        LimitError: an opaque file is larger than what is allowed, or than this machine's memory.
    """
    entries, size = reading.tree.files or (), reading.tree.raw_bytes
    if [entry.path for entry in entries] != [path]:
        return FileDetails(info, path, FOLDER, size, [], {}, [entry.path for entry in entries])
    blob = blob_reference(entries[0].node)
    content = reading.blob(*blob) if entries[0].format is FileFormat.OPAQUE and blob is not None else None
    known = details(reading, info)
    return FileDetails(info, path, entries[0].format.value, size, known.tensors, known.values, [], content)
