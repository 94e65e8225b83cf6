"""Where a folder stands when the record of its branch is damaged, or a pull, reset or move was stopped."""

import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from mvcs.errors import ConflictError, CorruptionError, MvcsError
from mvcs.history import Revision
from mvcs.local import LocalRecords
from mvcs.objects import ObjectId, as_id, short_id
from mvcs.refs import HEADS, DamagedRecord, RefRecord
from mvcs.repository.session import Session
from mvcs.repository.worktree.file_index import Index
from mvcs.store import UNREADABLE_ERRORS

SUBJECT, PULL, RESET, MOVE = "pull", "pull", "reset", "move"
_HINTS = {
    PULL: "'mvcs checkout HEAD' brings the files along",
    RESET: "'mvcs reset --hard' or 'mvcs checkout HEAD' brings the files along",
    MOVE: "'mvcs checkout HEAD' brings the files along; or move them yourself",
}


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
    except UNREADABLE_ERRORS:
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
                    return session.graph.load(ref.target)
    return None


def _of_files(session: Session, branch: str) -> Revision | None:
    """Return the commit that most files were known to equal last."""
    if session.place.top is None or session.branch != branch:
        return None
    with suppress(MvcsError, ValueError):
        for commit, _ in Counter(seen.commit for seen in Index.of(session).files.values()).most_common(1):
            return session.graph.load(as_id(bytes.fromhex(commit)))
    return None


def _of_older_records(session: Session, branch: str) -> Revision | None:
    for record in session.refs.row(HEADS, branch):
        if isinstance(record, RefRecord) and record.target is not None:
            with suppress(MvcsError):
                return session.graph.load(record.target)
    return None


@dataclass(frozen=True)
class InterruptedMove:
    """Files that still are, at least some of them, those of the commit before.

    Attributes:
        branch: the branch that moved.
        before: the commit that the folder stood on; None where there was none.
        after: the commit that the branch stands on.
        verb: what moved it.
        going: files that leave their places; where none is left there, nothing is to be done. Empty for all.
    """

    branch: str
    before: ObjectId | None
    after: ObjectId
    verb: str = PULL
    going: tuple[str, ...] = ()

    @classmethod
    def of(cls, session: Session, head: Revision | None) -> "InterruptedMove | None":
        """Return what was stopped, if HEAD still stands on the commit whose files did not come.

        Its branch may be another by now: a switch at one commit, or a new name, leaves the files alone.
        """
        record = LocalRecords(session.place.local).read(SUBJECT)
        with suppress(MvcsError, KeyError, TypeError, ValueError):
            before, after = (bytes.fromhex(record[key]) for key in ("before", "after"))
            found = cls(
                record["branch"],
                as_id(before) if before else None,
                as_id(after),
                str(record.get("verb", PULL)),
                tuple(map(str, record.get("going", ()))),
            )
            there = head is not None and head.id == found.after and found._is_left(session)
            followed = Index.of(session).looked_ns > int(record["looked_ns"])
            return found if there and not followed else None
        return None

    def _is_left(self, session: Session) -> bool:
        top = session.require_top()
        return not self.going or any(os.path.lexists(top / path) for path in self.going)

    def begin(self, session: Session) -> None:
        """Remember it, before the branch moves; the index is looked at anew when the last file is in place.

        Raises:
            StorageError: it cannot be written.
        """
        before = "" if self.before is None else self.before.hex()
        record = {"branch": self.branch, "before": before, "after": self.after.hex(), "verb": self.verb}
        more = {"going": list(self.going), "looked_ns": Index.of(session).looked_ns}
        with LocalRecords(session.place.local).change(SUBJECT) as kept:
            kept.update(record | more)

    @property
    def text(self) -> str:
        """What a person should hear."""
        before = "none" if self.before is None else short_id(self.before)
        return (
            f"a {self.verb} was stopped after '{self.branch}' moved to {short_id(self.after)}: "
            f"some files may still be those of {before}"
        )

    @property
    def hint(self) -> str:
        """How to go on."""
        return _HINTS.get(self.verb, _HINTS[PULL])


def end_move(session: Session) -> None:
    """Forget what was stopped: the files are where HEAD is."""
    if LocalRecords(session.place.local).read(SUBJECT):
        # It no longer applies once HEAD moves.
        with suppress(MvcsError), LocalRecords(session.place.local).change(SUBJECT) as record:
            record.clear()


def refuse_unfinished(session: Session, head: Revision | None) -> None:
    """Refuse to commit files that would undo the commit HEAD stands on.

    Raises:
        ConflictError: a pull, a reset or a move was stopped, and its files have not come.
    """
    found = InterruptedMove.of(session, head)
    if found is not None:
        raise ConflictError(found.text, hint=found.hint)
