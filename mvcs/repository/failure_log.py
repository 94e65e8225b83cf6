"""What went wrong in the background since the last commit that worked: a text file, bounded."""

import contextlib
import pathlib
import re
from dataclasses import dataclass

from mvcs.addresses import without_secrets
from mvcs.errors import StorageError
from mvcs.local_files import read_file, replace_file

_NAME = "failures.log"
_STEP = re.compile(r"^(step -?[0-9]+) ")
# Sizes, shares, and what is beside the point.
_VARIES = re.compile(r"\([^()]*\)|[0-9][0-9.,]* ([kMGTPE]?B|%)(?!\w)")
_HELD, _MAX_BYTES = 64 << 10, 1 << 20


@dataclass(frozen=True)
class FailureLog:
    """The file; a bare store has none.

    Attributes:
        local: the folder of what this clone alone remembers.
    """

    local: pathlib.Path | None

    def note(self, text: str) -> None:
        """Add what went wrong, on one line and without secrets."""
        # Where a file system is gone, nothing is put in its place.
        if self.local is None or not self.local.is_dir():
            return
        path = self.local / _NAME
        line = without_secrets(" ".join(text.split())).encode("utf-8", "replace")
        # A full disk is what failures come from: then there is no place to report it.
        with contextlib.suppress(StorageError):
            old = (read_file(path, _MAX_BYTES) or b"")[-_HELD:]
            replace_file(path, old + line[: _HELD - 1] + b"\n")

    def lines(self) -> list[str]:
        """Return what went wrong, oldest first.

        Raises:
            StorageError: the file cannot be read.
        """
        data = None if self.local is None else read_file(self.local / _NAME, _MAX_BYTES)
        return (data or b"").decode("utf-8", "replace").splitlines()

    def last(self) -> list[str]:
        """Return the last of those that say the same, with their number and the first step, oldest first.

        They may differ in the step, in sizes and shares, and in what stands in parentheses.

        Raises:
            StorageError: the file cannot be read.
        """
        alike: dict[str, list[str]] = {}
        for line in self.lines():
            what = _VARIES.sub("", _STEP.sub("", line))
            alike[what] = [*alike.pop(what, []), line]
        return [_told(lines) for lines in alike.values()]

    def clear(self) -> None:
        """Forget it, after a commit that worked."""
        if self.local is not None:
            with contextlib.suppress(OSError):
                (self.local / _NAME).unlink(missing_ok=True)


def _told(lines: list[str]) -> str:
    """Return the last of lines that say the same."""
    if len(lines) == 1:
        return lines[0]
    first = _STEP.match(lines[0])
    since = f" since {first[1]}" if first else ""
    return f"{lines[-1]} ({len(lines)} alike{since})"
