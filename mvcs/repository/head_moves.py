"""HEAD as it moves, which is noted with what its branches were then, and where it or a branch has been."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mvcs.errors import CorruptionError, MvcsError, NotFoundError
from mvcs.local import HEAD, MOVED_FROM, Head, HeadLog, Move
from mvcs.objects import ABBREVIATED
from mvcs.refs import HEADS, DamagedRecord, FoundRecord, RefRecord, now_microseconds
from mvcs.reports import ReflogEntry, as_utc

if TYPE_CHECKING:
    from mvcs.repository.session import Session


def note_move(session: "Session", after: Head, action: str) -> None:
    """Remember that HEAD is about to move; what cannot be remembered is a warning.

    Args:
        session: the repository.
        after: where it goes.
        action: what the reflog says; by default, that it is a checkout.
    """
    before = _head(session)
    if before is not None and before.text == after.text:
        return
    said = action or f"{MOVED_FROM}{_name(before)} to {_name(after)}"
    left = "" if before is None else before.text
    try:
        left_at, entered_at = _number(session, before), _number(session, after)
        commit = _commit(session, after)
        move = Move(now_microseconds(), session.author, said, left, left_at, after.text, entered_at, commit)
        HeadLog(session.place.local).note(move)
    except MvcsError as error:
        session.warn(f"'mvcs reflog HEAD' will not tell of this move: {error.message}")


def trail(session: "Session") -> Iterator[FoundRecord]:
    """Yield where HEAD has been, newest first, as records of a branch; also when it is damaged."""
    stands = _head(session)
    return HeadLog(session.place.local).history(session.refs, "" if stands is None else stands.text)


def _head(session: "Session") -> Head | None:
    try:
        return Head.parse(session.head_text)
    except CorruptionError:
        return None


def _name(stands: Head | None) -> str:
    if stands is None:
        return "a damaged HEAD"
    return stands.branch or stands.text[:ABBREVIATED]


def _number(session: "Session", stands: Head | None) -> int:
    """Return the number of the newest record of the branch; -1 for none."""
    number = session.refs.newest_number(HEADS, stands.branch) if stands and stands.branch else None
    return -1 if number is None else number


def _commit(session: "Session", stands: Head) -> str:
    """Return the id of the commit that HEAD stands on; empty where there is none."""
    if stands.commit is not None:
        return stands.commit.hex()
    record = session.branch_record(stands.branch or "")
    return "" if record is None or record.target is None else record.target.hex()


def moves_of(session: "Session", ref: str) -> list[ReflogEntry]:
    """Return the changes of a branch, or of `HEAD`, newest first; damaged ones stand among them.

    Raises:
        NotFoundError: the branch never existed, or nothing is known of HEAD.
    """
    records = trail(session) if ref == HEAD else session.refs.row(HEADS, ref)
    entries = [_entry(back, record) for back, record in enumerate(records)]
    if not entries and ref == HEAD:
        raise NotFoundError("where HEAD was is not known", hint="name a branch: mvcs reflog BRANCH")
    if not entries:
        raise session.refs.missing(HEADS, ref)
    return entries


def _entry(back: int, record: RefRecord | DamagedRecord) -> ReflogEntry:
    if isinstance(record, DamagedRecord):
        return ReflogEntry(back, None, None, "", "", damage=record.error.message)
    target = record.target.hex() if record.target else None
    return ReflogEntry(back, target, as_utc(record.time), record.author, record.action)
