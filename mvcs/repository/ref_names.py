"""Names of branches and tags: those that are looked for, new ones, and those that are to go."""

from collections.abc import Collection
from fnmatch import fnmatchcase

from mvcs.errors import ConflictError
from mvcs.history import Revision
from mvcs.objects import BOUNDED, short_id
from mvcs.refs import HEADS, DamagedRecord, RefChange, RefRecord, check_name
from mvcs.repository.session import Session
from mvcs.retention import has_exact_layer, said_of


def matches(name: str, patterns: Collection[str]) -> bool:
    """Tell whether a name matches one of some patterns; where there are none, every name does."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def check_new(session: Session, kind: str, name: str) -> None:
    """Check that a new branch or tag can have a name.

    Raises:
        ConflictError: one has it.
        UsageError: it will not do.
    """
    check_name(name)
    found = session.refs.top(kind, name)
    if isinstance(found, DamagedRecord) or (found is not None and found.target is not None):
        noun = "branch" if kind == HEADS else "tag"
        raise ConflictError(
            f"{noun} '{name}' exists", hint=f"choose another name, or delete it with 'mvcs {noun} -d {name}'"
        )


def begin_branch(session: Session, name: str, revision: Revision, action: str = "branch: created") -> None:
    """Write the first record of a branch, or the first after its deletion.

    Raises:
        ConflictError: it exists.
        UsageError: the name will not do.
    """
    check_new(session, HEADS, name)
    change = RefChange(revision.id, session.author, action)
    session.refs.update(HEADS, name, session.branch_record(name), change)


def note_dropped(session: Session, name: str, revision: Revision) -> None:
    """Say that what was given a name restores as quantized values alone, or not at all."""
    drop = session.data_drop(revision.id)
    if drop is not None and drop.is_loss:
        session.progress.note(said_of(session.place.backend, revision.id, drop, left=False))
    elif drop is not None:
        from mvcs.repository.opened_commit import looked_at, open_for

        info = looked_at(session, open_for(session, revision, exact=False, tell=False))
        session.progress.note(
            f"the data of {short_id(revision.id)} were dropped and are still there: "
            f"where '{name}' keeps them, the next 'mvcs retention apply' takes the drop back"
            if info.data_left
            else f"the data of {short_id(revision.id)} were dropped: '{name}' names its history alone"
        )
        return
    if revision.commit.exactness == BOUNDED and not has_exact_layer(session.store.backend, revision):
        session.progress.note(
            f"the exact layer of {short_id(revision.id)} is not stored here: "
            f"'{name}' names its quantized values"
        )


def record_to_delete(session: Session, kind: str, name: str) -> RefRecord | DamagedRecord:
    """Return the newest record of a name that is there, damaged or not.

    Raises:
        NotFoundError: there is none.
    """
    record = session.refs.top(kind, name)
    if record is None or (isinstance(record, RefRecord) and record.target is None):
        raise session.refs.missing(kind, name)
    return record
