"""Where a folder stands when the record of its branch is damaged: what else tells, newest first."""

from collections import Counter
from contextlib import suppress

from mvcs.errors import CorruptionError, MvcsError
from mvcs.history import Revision
from mvcs.objects import as_id
from mvcs.refs import HEADS, DamagedRecord, RefRecord
from mvcs.repository.session import UNREADABLE, Session
from mvcs.repository.worktree.file_index import Index


def last_known(session: Session, branch: str) -> Revision | None:
    """Return the commit that a branch was at last, as far as this clone knows; None when nothing tells.

    It may be an older one than the damaged record named.
    """
    return _of_lineage(session, branch) or _of_files(session, branch) or _of_older_records(session, branch)


def damage(session: Session, branch: str) -> MvcsError | None:
    """Return what is wrong with the newest record of a branch; None when nothing is."""
    found = session.refs.top(HEADS, branch)
    return found.error if isinstance(found, DamagedRecord) else None


def head_to_leave(session: Session, *, forced: bool) -> Revision | None:
    """Return the commit that the folder stands on, or was known to stand on where its branch is damaged.

    Where HEAD itself or a commit is damaged, that is an error, or None when it is to be left by force.
    """
    try:
        return session.head()
    except UNREADABLE:
        with suppress(CorruptionError):
            branch = session.branch
            if branch is not None and damage(session, branch) is not None:
                return last_known(session, branch)
        if not forced:
            raise
        return None


def _of_lineage(session: Session, branch: str) -> Revision | None:
    """Return what the lineage heard of this very record."""
    number = session.refs.newest_number(HEADS, branch)
    if session.place.local is not None and number is not None:
        with suppress(MvcsError):
            for ref in session.indexing.lineage.refs():
                if (ref.kind, ref.name, ref.number) == (HEADS, branch, number) and ref.target is not None:
                    return session.graph.load(ref.target, None)
    return None


def _of_files(session: Session, branch: str) -> Revision | None:
    """Return the commit that most files were known to equal last."""
    if session.place.top is None or session.branch != branch:
        return None
    with suppress(MvcsError, ValueError):
        for commit, _ in Counter(seen.commit for seen in Index.of(session).files.values()).most_common(1):
            return session.graph.load(as_id(bytes.fromhex(commit)), None)
    return None


def _of_older_records(session: Session, branch: str) -> Revision | None:
    for record in session.refs.row(HEADS, branch):
        if isinstance(record, RefRecord) and record.target is not None:
            with suppress(MvcsError):
                return session.graph.load(record.target, record.pack)
    return None
