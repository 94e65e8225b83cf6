"""HEAD: the branch or the commit that a folder stands on, in a file that shows damage."""

import pathlib
import re
from dataclasses import dataclass

from mvcs.errors import CorruptionError, StorageError, UsageError, raise_if_denied
from mvcs.local.head_log import REF, HeadLog
from mvcs.local_files import read_file, replace_file
from mvcs.objects import ObjectId, checksum
from mvcs.refs import check_name

HEAD = "HEAD"
MAX_BYTES = 4096
# A name holds no space, so a line break that rotted away never joins the two lines into a longer name.
_CHECKED = re.compile(rb"([^\n]+\n)checksum: ([0-9a-f]{32})\n")


@dataclass(frozen=True)
class Head:
    """Where a folder stands.

    Attributes:
        branch: the branch; None when HEAD is detached.
        commit: the commit HEAD is detached at; None on a branch.
        checked: whether the file carried its checksum; a person, or an earlier version, wrote one without.
    """

    branch: str | None
    commit: ObjectId | None
    checked: bool = True

    @classmethod
    def parse(cls, text: str, *, checked: bool = True) -> "Head":
        """Read `ref: BRANCH` or a commit's hexadecimal id.

        Raises:
            UsageError: it is neither, or no branch can have that name.
        """
        if text.startswith(REF):
            return cls(check_name(text[len(REF) :]), None, checked)
        if not re.fullmatch("[0-9a-f]{64}", text):
            raise UsageError("it names neither a branch nor a commit")
        return cls(None, ObjectId(bytes.fromhex(text)), checked)

    @property
    def text(self) -> str:
        """What the first line says."""
        return f"{REF}{self.branch}" if self.commit is None else self.commit.hex()

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        line = f"{self.text}\n".encode()
        return line + b"checksum: %s\n" % checksum(line).hex().encode()

    @classmethod
    def decode(cls, data: bytes) -> "Head":
        """Read the bytes of the file.

        Raises:
            UsageError: they are damaged.
        """
        match = _CHECKED.fullmatch(data)
        if match is not None and checksum(match[1]).hex().encode() != match[2]:
            raise UsageError("it does not match its checksum")
        try:
            text = (data if match is None else match[1]).decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError("it is no text") from error
        if text.startswith(REF) and not text.endswith("\n"):
            raise UsageError("it was cut")
        return cls.parse(text.removesuffix("\n"), checked=match is not None)


def read_head(local: pathlib.Path) -> Head:
    """Return what HEAD says.

    Raises:
        CorruptionError: the file is missing or damaged.
        StorageError: it may not be read.
    """
    path = local / HEAD
    try:
        data = read_file(path, MAX_BYTES)
    except StorageError as error:
        raise_if_denied(error)
        raise CorruptionError(f"{error.message}, and it is HEAD", hint=_moved_away(local)) from error
    if data is None:
        raise CorruptionError(
            f"'{path}' cannot be read",
            hint=f"run an interrupted 'mvcs init' or 'mvcs clone' again, or {mend_advice(local)}",
        )
    try:
        return Head.decode(data)
    except UsageError as error:
        raise CorruptionError(f"'{path}' is damaged: {error.message}", hint=mend_advice(local)) from error


def _moved_away(local: pathlib.Path) -> str:
    return f"move it away, and {mend_advice(local)}"


def mend_advice(local: pathlib.Path | None) -> str:
    """Return what to do about a damaged HEAD in `local`."""
    path = (local or pathlib.Path()) / HEAD
    moves = HeadLog(local).moves()
    if moves:
        seen = "'mvcs reflog HEAD' shows where it was"
        return f"{seen}; it came last there: echo '{moves[-1].entered}' > '{path}'"
    lost = "'mvcs fsck' names the commits that no branch leads to"
    return f"{lost}; say which branch the folder is on: echo 'ref: main' > '{path}'"


def write_head(local: pathlib.Path, text: str) -> None:
    """Point HEAD at `ref: BRANCH` or at a commit's hexadecimal id.

    Raises:
        UsageError: it is neither, or no branch can have that name.
        StorageError: the file cannot be written; the old one stays.
    """
    replace_file(local / HEAD, Head.parse(text).encode())
