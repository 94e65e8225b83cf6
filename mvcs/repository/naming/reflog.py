"""Where a branch, or HEAD, has been, as people and scripts see it."""

from mvcs.errors import NotFoundError
from mvcs.local import HEAD
from mvcs.refs import HEADS, DamagedRecord, RefRecord, missing_ref_error
from mvcs.reports import ReflogEntry, as_utc
from mvcs.repository.head_moves import trail
from mvcs.repository.session import Session


def moves_of(session: Session, ref: str) -> list[ReflogEntry]:
    """Return the changes of a branch, or of `HEAD`, newest first; damaged ones stand among them.

    Raises:
        NotFoundError: the branch never existed, or nothing is known of HEAD.
    """
    records = trail(session) if ref == HEAD else session.refs.row(HEADS, ref)
    entries = [_entry(back, record) for back, record in enumerate(records)]
    if not entries and ref == HEAD:
        raise NotFoundError("where HEAD was is not known", hint="name a branch: mvcs reflog BRANCH")
    if not entries:
        raise missing_ref_error(HEADS, ref)
    return entries


def _entry(back: int, record: RefRecord | DamagedRecord) -> ReflogEntry:
    if isinstance(record, DamagedRecord):
        return ReflogEntry(back, None, None, "", "", damage=record.error.message)
    target = record.target.hex() if record.target else None
    return ReflogEntry(back, target, as_utc(record.time), record.author, record.action)
