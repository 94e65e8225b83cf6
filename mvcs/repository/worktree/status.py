"""Status: where the working folder stands against HEAD and what its branch follows, and what is untracked."""

import pathlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from mvcs.checkpoint import (
    FolderWalk,
    FoundKind,
    IgnoreRules,
    KnownFiles,
    StampedFile,
    format_in,
    format_of,
    is_called_file,
    link_instead_error,
)
from mvcs.errors import CorruptionError, MvcsError, NotFoundError, StorageError
from mvcs.history import Revision
from mvcs.local import BackgroundCompaction, LocalRecords
from mvcs.objects import short_id, unfit_paths
from mvcs.refs import CONFLICT, HEADS, DamagedRecord
from mvcs.reports import FileStatus
from mvcs.repository.failure_log import FailureLog
from mvcs.repository.session import Session
from mvcs.repository.worktree.file_index import Index, file_states
from mvcs.repository.worktree.named_files import known_files
from mvcs.repository.worktree.whereabouts import InterruptedMove, last_known
from mvcs.restore import Reading, open_reading
from mvcs.store import UNREADABLE_ERRORS


@dataclass(frozen=True)
class HeadPosition:
    """Where HEAD stands, as far as that can be read.

    Attributes:
        head: its commit; None before the first, and where it cannot be read.
        last: the commit that files are compared with: that, or where a damaged branch was last known to be.
        problems: what a person should hear.
        unreadable: whether there is a commit, and it cannot be read.
    """

    head: Revision | None
    last: Revision | None
    problems: tuple[str, ...]
    unreadable: bool = False

    @classmethod
    def of(cls, session: Session) -> "HeadPosition":
        """Look at HEAD, and at what went wrong or was stopped since it moved.

        Raises:
            MvcsError: HEAD leads nowhere, or a newer version wrote its commit.
        """
        problems = [f"a background commit failed: {line}" for line in FailureLog(session.place.local).last()]
        problems += _failed_compaction(session)
        head, last, unreadable = None, None, False
        try:
            head = last = session.head()
        except UNREADABLE_ERRORS as error:
            if not _leads_somewhere(session, error):
                raise
            unreadable = True
            last = None if session.branch is None else last_known(session, session.branch)
            problems.append(_unreadable(error, last))
        stopped = InterruptedMove.of(session, head)
        problems += [f"{stopped.text}; {stopped.hint}"] if stopped else []
        return cls(head, last, tuple(problems), unreadable)


@dataclass(frozen=True)
class FolderFiles:
    """What lies in the folder, against a commit.

    Attributes:
        entries: the commit's files, and then checkpoints that it has not.
        parts: the names at the top of the state that the commit holds; None for one of files.
        others: all else that lies there.
        problems: what a person should hear.
        refused: why a commit of the whole folder is refused, by the files and folders that it is refused for.
        unread: why the commit's files cannot be told.
    """

    entries: tuple[FileStatus, ...] = ()
    parts: list[str] | None = None
    others: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    unread: MvcsError | None = None

    @classmethod
    def of(cls, session: Session, commit: Revision | None) -> "FolderFiles":
        """Compare the folder with a commit; a store that refuses, or is damaged, is a problem to show."""
        top, tree, problems = session.place.top, None, []
        states: dict[str, str] = {}
        if top is None:
            return cls()
        if commit is not None:
            try:
                reading = open_reading(session.reader(), commit, session.progress)
                states, tree = _states(session, reading), reading.tree
            except StorageError as error:
                problems.append(f"the files of HEAD cannot be compared: {error.message}")
            except (CorruptionError, NotFoundError) as error:
                # Without the commit nobody can tell which files it holds.
                return cls(problems=(_unread(error),), unread=error)
        files = cls(
            tuple(FileStatus(path, state) for path, state in states.items()),
            tree.parts if tree else None,
        )
        try:
            there = [path for path, state in states.items() if state != "deleted"]
            found = Uncommitted.of(top, known_files(top, Index.of(session), tree), there)
        except StorageError as error:
            problems.append(f"what is not committed cannot be listed: {error.message}")
            return replace(files, problems=tuple(problems))
        untracked = [FileStatus(path, "untracked") for path in found.checkpoints]
        problems += [_instead(name, what) for name, what in found.links.items()]
        return replace(
            files,
            entries=(*files.entries, *untracked),
            others=tuple(found.others),
            problems=tuple(problems),
            refused=found.refused,
        )


def _instead(name: str, what: str) -> str:
    error = link_instead_error(name, what)
    return f"{error.message}; {error.hint}"


def compaction_at_work(session: Session) -> BackgroundCompaction | None:
    """Return the compaction that rests in between; None where none is at work."""
    found = BackgroundCompaction.last(LocalRecords(session.place.local))
    return found if found is not None and found.runs else None


def _failed_compaction(session: Session) -> list[str]:
    found = BackgroundCompaction.last(LocalRecords(session.place.local))
    if found is None or found.failure is None:
        return []
    return [
        f"a compaction in the background failed: {found.failure}; 'mvcs compact --share 1' tries it again"
    ]


def conflicts_of(session: Session, branch: str) -> list[str]:
    """Return the conflict branches of a branch; one whose record is damaged is the matter of fsck."""
    found = []
    for name in session.refs.listed(HEADS):
        with suppress(*UNREADABLE_ERRORS):
            if name.startswith(branch + CONFLICT) and session.refs.read(HEADS, name) is not None:
                found.append(name)
    return found


def _leads_somewhere(session: Session, error: MvcsError) -> bool:
    """Tell whether HEAD's branch leads to a commit that is damaged or lost, by a record that may be damaged.

    What leads nowhere, and what is no longer known of a HEAD without a branch, is an error with its own hint.
    """
    if session.branch is None:
        return False
    record = session.refs.top(HEADS, session.branch)
    damaged = isinstance(record, DamagedRecord)
    return damaged or (record is not None and isinstance(error, CorruptionError | NotFoundError))


def _unread(error: MvcsError) -> str:
    hint = f"; {error.hint}" if error.hint else ""
    return f"the commit is damaged, and its files cannot be compared: {error.message}{hint}"


def _unreadable(error: MvcsError, last: Revision | None) -> str:
    """Say what is wrong with HEAD's branch, how to go on, and what is shown meanwhile."""
    hint = f"; {error.hint}" if error.hint else ""
    shown = (
        f"; files are compared with {short_id(last.id)}, the newest known of it that can be read"
        if last
        else ""
    )
    return f"{error.message}{hint}{shown}"


def _states(session: Session, reading: Reading) -> dict[str, str]:
    top, index = session.require_top(), Index.of(session)
    known = dict(index.files)
    states = file_states(top, index, reading)
    with suppress(OSError):  # what was read is then read again the next time
        index.confirm(session.place.local or top, known)
    return states


@dataclass(frozen=True)
class Uncommitted:
    """Files of the folder that HEAD does not hold, and what a commit of the whole folder does with them.

    Attributes:
        checkpoints: those that it takes; none of hidden folders that HEAD has nothing of.
        others: all else that it takes; a hidden folder, which is not looked into, ends in a slash.
        refused: why it is refused, by the files and folders that it is refused for, of HEAD too.
        links: what is a link now where HEAD has files, by its path; it is refused for these as well.
    """

    checkpoints: list[str]
    others: list[str]
    refused: dict[str, str]
    links: dict[str, str]

    @classmethod
    def of(cls, top: pathlib.Path, known: KnownFiles, there: Iterable[str] = ()) -> "Uncommitted":
        """Look for them.

        Args:
            top: the working folder.
            known: the files that HEAD holds.
            there: those of them that are in the folder.

        Raises:
            StorageError: what says which files are left out cannot be read.
        """
        walk = FolderWalk(top, ".", top, IgnoreRules.of(top), known, glancing=True)
        taken = {FoundKind.FILE, FoundKind.HIDDEN}
        found = [one for one in walk.found() if one.kind not in taken or one.name not in known.names]
        hidden = [f"{one.name}/" for one in found if one.kind is FoundKind.HIDDEN]
        files = sorted(one.name for one in found if one.kind is FoundKind.FILE)
        unfit = unfit_paths([*files, *there])
        refused: dict[str, str] = {place: one.reason for one in unfit for place in one.places}
        refused |= {one.name: f"it is {one.what}" for one in found if one.kind is FoundKind.LINK_OUT}
        links = {one.name: one.what for one in found if one.kind is FoundKind.LINK and one.name in known}
        files = [name for name in files if refused.keys().isdisjoint(_with_folders(name))]
        checkpoints = [name for name in files if _is_checkpoint(top / name)]
        seen = set(checkpoints)
        others = sorted([*hidden, *(name for name in files if name not in seen)])
        return cls(checkpoints, others, refused, links)


def _with_folders(path: str) -> Iterator[str]:
    """Yield a path, and the folders that it lies in."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _is_checkpoint(path: pathlib.Path) -> bool:
    if path.name.startswith(".") or not is_called_file(path):
        return False
    try:
        return format_of(path) is not None or format_in(StampedFile.at(path)) is not None
    except MvcsError:
        return False  # such as one that is gone by now
