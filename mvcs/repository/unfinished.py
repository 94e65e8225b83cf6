"""A pull that was stopped after the branch moved and before the files followed: what is known of it."""

from contextlib import suppress
from dataclasses import dataclass

from mvcs.errors import ConflictError, MvcsError
from mvcs.history.graph import Revision
from mvcs.objects.ids import ObjectId, as_id, short
from mvcs.repository.local_records import LocalRecords
from mvcs.repository.session import Session
from mvcs.repository.working import Index

SUBJECT = "pull"


@dataclass(frozen=True)
class Unfinished:
    """Files that still are, at least some of them, those of the commit before a pull.

    Attributes:
        branch: the branch that was pulled.
        before: the commit that the folder stood on; None where there was none.
        after: the commit that the branch stands on.
    """

    branch: str
    before: ObjectId | None
    after: ObjectId

    @classmethod
    def of(cls, session: Session, head: Revision | None) -> "Unfinished | None":
        """Return what was stopped, if the branch HEAD is on still stands where the pull left it."""
        record = LocalRecords(session.place.local).read(SUBJECT)
        with suppress(MvcsError, KeyError, TypeError, ValueError):
            before, after = (bytes.fromhex(record[key]) for key in ("before", "after"))
            found = cls(record["branch"], as_id(before) if before else None, as_id(after))
            there = head is not None and (session.branch, head.id) == (found.branch, found.after)
            return found if there and not found._followed(session) else None
        return None

    def _followed(self, session: Session) -> bool:
        """Tell whether the files came after all: the index is written when the last of them is in place."""
        index = Index.of(session)
        return any(seen.commit == self.after.hex() and seen.size >= 0 for seen in index.files.values())

    def begin(self, session: Session) -> None:
        """Remember it, before the branch moves.

        Raises:
            StorageError: it cannot be written.
        """
        before = "" if self.before is None else self.before.hex()
        record = {"branch": self.branch, "before": before, "after": self.after.hex()}
        LocalRecords(session.place.local).update(SUBJECT, lambda kept: kept.update(record))

    @property
    def text(self) -> str:
        """What a person should hear."""
        before = "none" if self.before is None else short(self.before)
        return (
            f"a pull was stopped after '{self.branch}' moved to {short(self.after)}: "
            f"some files are still those of {before}"
        )

    @property
    def hint(self) -> str:
        """How to go on."""
        return f"'mvcs pull' or 'mvcs checkout {self.branch}' brings the files along"


def end(session: Session) -> None:
    """Forget what was stopped: the files are where HEAD is."""
    if LocalRecords(session.place.local).read(SUBJECT):
        with suppress(MvcsError):  # it no longer applies once HEAD moves
            LocalRecords(session.place.local).update(SUBJECT, lambda record: record.clear())


def refuse_unfinished(session: Session, head: Revision | None) -> None:
    """Refuse to commit files that would undo the commit HEAD stands on.

    Raises:
        ConflictError: a pull was stopped, and its files have not come.
    """
    found = Unfinished.of(session, head)
    if found is not None:
        raise ConflictError(found.text, hint=found.hint)
