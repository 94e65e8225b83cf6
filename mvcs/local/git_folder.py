"""A folder that git has as well: git would take the store along, unless a line keeps it out."""

import os
import pathlib
import shlex
from collections.abc import Iterator

from mvcs.errors import StorageError
from mvcs.local_files import read_file

LINE = ".mvcs/"
_MAX_BYTES = 1 << 20
_KNOWN = {form + end for form in (".mvcs", "/.mvcs", "**/.mvcs") for end in ("", "/")}


def ignore_note(top: pathlib.Path) -> str | None:
    """Return how to keep the store of a working folder out of git; None where git has no part in it."""
    folder = pathlib.Path(os.path.abspath(top))  # noqa: PTH100 - links stay
    root = next((above for above in (folder, *folder.parents) if (above / ".git").exists()), None)
    if root is None or any(map(_is_ignored, _lists(folder, root))):
        return None
    target = shlex.quote(str(root / ".gitignore"))
    return f"git has this folder too, and would take the store along; to keep it out: echo {LINE} >> {target}"


def _lists(folder: pathlib.Path, root: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield the files that may tell git to leave the store out."""
    yield root / ".git" / "info" / "exclude"
    for above in (folder, *folder.parents):
        yield above / ".gitignore"
        if above == root:
            return


def _is_ignored(path: pathlib.Path) -> bool:
    try:
        text = (read_file(path, _MAX_BYTES) or b"").decode("utf-8", "replace")
    except StorageError:
        return False
    return any(line.strip() in _KNOWN for line in text.splitlines())
