"""One file of a commit, one folder, or one part of a state: what `show REV:FILE` tells."""

from dataclasses import dataclass
from typing import Any

from mvcs.objects import FileFormat, blob_reference
from mvcs.reports import PART, CommitInfo, Report, TensorInfo
from mvcs.restore.open_commit import Reading
from mvcs.restore.show import details, shown_values

FOLDER = "folder"


@dataclass(frozen=True)
class FileDetails(Report):
    """One file of a commit, a folder, or a part of a state.

    Attributes:
        commit: whose it is.
        path: where it lies.
        format: "safetensors", "torch", "npz", "binary", "opaque", "folder", or "part" of a state.
        raw_bytes: bytes of its tensors and blobs.
        tensors: of a file of tensors, or of a part.
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


def details_of_file(reading: Reading, info: CommitInfo, path: str) -> FileDetails:
    """Return what the reading of a commit tells of one file, of the files in a folder, or of a part.

    Raises:
        NotFoundError: the commit has nothing of that name.
        LimitError: an opaque file is larger than what is allowed, or than this machine's memory.
    """
    if reading.tree.files is None:
        return _part(reading, info, path)
    reading = reading.at(path)
    entries, size = reading.tree.files or (), reading.tree.raw_bytes
    if [entry.path for entry in entries] != [path]:
        return FileDetails(info, path, FOLDER, size, [], {}, [entry.path for entry in entries])
    blob = blob_reference(entries[0].node)
    is_opaque = entries[0].format is FileFormat.OPAQUE
    content = bytes(reading.blob(*blob)) if is_opaque and blob is not None else None
    known = details(reading, info)
    return FileDetails(info, path, entries[0].format.value, size, known.tensors, known.values, [], content)


def _part(reading: Reading, info: CommitInfo, name: str) -> FileDetails:
    part = reading.at(name).tree
    # What tensors are for shows in the whole state alone.
    tensors = [
        found
        for found in details(reading, info).tensors
        if any(f"{path}.".startswith(f"{name}.") for path in (found.path, *found.aliases))
    ]
    values = {f"{name}.{path}" if path else name: value for path, value in shown_values(part).items()}
    return FileDetails(info, name, PART, part.raw_bytes, tensors, values, [])
