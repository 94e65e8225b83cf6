"""HEAD: the branch or the commit that a folder stands on, in a file that shows damage, and where it has been.

Its own moves this clone alone remembers; those of the branches it was on stand in their records.
"""

import pathlib
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice, pairwise, takewhile

from mvcs.errors import CorruptionError, StorageError, UsageError, raise_if_denied
from mvcs.local.records import LocalRecords
from mvcs.local_files import read_file, replace_file
from mvcs.objects import ObjectId, as_id, checksum
from mvcs.refs import HEADS, FoundRecord, RefRecord, RefStore, check_name, now_microseconds

HEAD_LOG, MOVES, LOST = "head", "moves", "lost"
MOST = 512
REF = "ref: "
MOVED_FROM = "checkout: moving from "
HEAD = "HEAD"
MAX_BYTES = 4096
# A name holds no space, so a line break that rotted away never joins the two lines into a longer name.
_CHECKED = re.compile(rb"([^\n]+\n)checksum: ([0-9a-f]{32})\n")


@dataclass(frozen=True)
class Move:
    """One time that HEAD went to another branch, or to a commit without one.

    Attributes:
        time: microseconds since 1970-01-01 UTC.
        author: who moved it.
        action: what was done.
        left: the first line of HEAD before; "" where it was damaged.
        left_at: number of the newest record of the branch that was left; -1 for none.
        entered: the first line of HEAD after.
        entered_at: number of the newest record of the branch that was entered; -1 for none.
        commit: where HEAD stood then, in hexadecimal; "" for no commit.
    """

    time: int
    author: str
    action: str
    left: str
    left_at: int
    entered: str
    entered_at: int
    commit: str

    @property
    def record(self) -> RefRecord:
        """The same in the form in which branches move."""
        target = as_id(bytes.fromhex(self.commit)) if self.commit else None
        return RefRecord(0, target, None, self.time, self.author, self.action)


class HeadLog:
    """The moves of one clone's HEAD; it forgets the oldest first."""

    def __init__(self, local: pathlib.Path | None) -> None:
        """Remember them in `local`, which is `.mvcs`; a bare store (None) remembers nothing."""
        self._records = LocalRecords(local)

    def begin(self, lost: int = 0) -> None:
        """Begin a log that is not there, so that a lost one is told from one of a clone that never moved.

        Args:
            lost: when an earlier one was found lost, in microseconds since 1970-01-01 UTC; 0 for a new clone.

        Raises:
            StorageError: it cannot be written.
        """
        with self._records.change(HEAD_LOG, durable=False) as record:
            if self._known() is None:
                record.clear()
                record |= {LOST: lost, MOVES: []}

    def moves(self) -> list[Move]:
        """Return what is remembered, the oldest move first; nothing where the record is damaged."""
        return self._known() or []

    def doubt(self, since: int) -> str | None:
        """Return why HEAD may have left any commit since a time; None where its moves are known.

        Args:
            since: microseconds since 1970-01-01 UTC.
        """
        if self._known() is None:
            return "the log of where HEAD was is damaged or gone"
        lost = self._records.read(HEAD_LOG).get(LOST, 0)
        if not lost or (isinstance(lost, int) and lost < since):
            return None
        return "the log of where HEAD was is not whole: it was lost once"

    def _known(self) -> list[Move] | None:
        with suppress(TypeError, ValueError, KeyError, CorruptionError):
            moves = [Move(**row) for row in self._records.read(HEAD_LOG)[MOVES]]
            if all(_is_place(move.left) and _is_place(move.entered) and move.record for move in moves):
                return moves
        return None

    def note(self, move: Move) -> None:
        """Remember a move.

        Raises:
            StorageError: it cannot be written.
        """
        with self._records.change(HEAD_LOG) as record:
            known = self._known()
            if known is None:
                record[LOST] = move.time
            record[MOVES] = [asdict(each) for each in (*(known or [])[1 - MOST :], move)]

    def history(self, refs: RefStore, stands: str) -> Iterator[FoundRecord]:
        """Yield where HEAD has been, newest first, as records of a branch, damaged ones among them.

        Args:
            refs: the branches.
            stands: the first line of HEAD; "" where it is damaged.
        """
        moves = self.moves()
        if _commit(stands) is not None and (not moves or moves[-1].entered != stands):
            yield RefRecord(0, _commit(stands), None, now_microseconds(), "", "HEAD was written by hand")
        stay, until = stands, None
        for move in reversed(moves):
            # A person may have written HEAD: then only the newest is known of the stay.
            since = move.entered_at if move.entered == stay else None
            yield from _stay(refs, stay, since, until)
            if move.commit:
                yield move.record
            stay, until = move.left, move.left_at
        yield from _stay(refs, stay, -1, until)

    def left_last(self) -> str:
        """Return the first line of HEAD before it last went elsewhere; "" where nothing tells."""
        gone = [move.left for move in self.moves() if move.action.startswith(MOVED_FROM)]
        return gone[-1] if gone else ""

    def left_since(self, time: int) -> set[ObjectId]:
        """Return the commits that HEAD stood on without a branch, and left at a time or later."""
        moves = self.moves()
        stays = [(move.left, move.time) for move in moves]
        stays += [(move.entered, later.time) for move, later in pairwise(moves)]
        last = [moves[-1].entered] if moves else []
        texts = [*last, *(text for text, left in stays if left >= time)]
        return {commit for text in texts if (commit := _commit(text)) is not None}


def _is_place(text: str) -> bool:
    return not text or _commit(text) is not None or bool(check_name(text.removeprefix(REF)))


def _commit(stands: str) -> ObjectId | None:
    return as_id(bytes.fromhex(stands)) if stands and not stands.startswith(REF) else None


def _stay(refs: RefStore, stands: str, since: int | None, until: int | None) -> Iterator[FoundRecord]:
    """Yield the records of a branch while HEAD was on it, newest first."""
    if not stands.startswith(REF):
        return
    records = refs.row(HEADS, stands.removeprefix(REF))
    here = (record for record in records if until is None or record.number <= until)
    if since is None:
        yield from islice(here, 1)
    else:
        yield from takewhile(lambda record: record.number > since, here)


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
        hint = f"move it away, and {mend_advice(local)}"
        raise CorruptionError(f"{error.message}, and it is HEAD", hint=hint) from error
    if data is None:
        raise CorruptionError(
            f"'{path}' cannot be read",
            hint=f"run an interrupted 'mvcs init' or 'mvcs clone' again, or {mend_advice(local)}",
        )
    try:
        return Head.decode(data)
    except UsageError as error:
        raise CorruptionError(f"'{path}' is damaged: {error.message}", hint=mend_advice(local)) from error


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
