"""Whether two stores are of one project: only then history goes to and fro between them."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from mvcs.checkpoint import DESCRIPTION_FILE
from mvcs.errors import ConflictError, MvcsError
from mvcs.local import Description
from mvcs.objects import ObjectId
from mvcs.refs import HEADS, REMOTES, TAGS, DamagedRecord, RefStore
from mvcs.repository.session import Session
from mvcs.store import Backend

KINDS = (HEADS, TAGS, REMOTES)


def refuse_other_project(session: Session, name: str, there: RefStore) -> None:
    """Check that a store that says it is of another project has nothing but what is ours.

    Args:
        session: the repository.
        name: what the other store is called here.
        there: the refs of that store.

    Raises:
        ConflictError: it has the history of another project.
    """
    if not _has_only(there, session):
        raise ConflictError(
            f"remote '{name}' holds another project, with a history of its own",
            hint=f"'mvcs remote set-url {name} URL' names another place; 'mvcs clone' takes what is there "
            "into a folder of its own",
        )


def take_in(session: Session, name: str, there: Backend, found: Description) -> None:
    """Make a store that has nothing of its own one of this project.

    Raises:
        ConflictError: another project took it in at the same moment.
    """
    project = session.place.description.project_id
    _describe(there, replace(found, project_id=project))
    if Description.read(there, name).project_id != project:
        raise ConflictError(f"remote '{name}' was made one of another project at the same moment")


def join(session: Session, found: Description) -> None:
    """Make this repository, which has no refs, one of the project of another store."""
    place = session.place
    described = replace(place.description, project_id=found.project_id)
    _describe(place.backend, described)
    session.place = replace(place, description=described)


def has_refs(refs: RefStore) -> bool:
    """Tell whether there is any branch, tag, or what is known of a remote, be it deleted."""
    return any(refs.listed(kind) for kind in KINDS)


def _describe(backend: Backend, described: Description) -> None:
    backend.replace(DESCRIPTION_FILE, described.encode())


def _has_only(refs: RefStore, session: Session) -> bool:
    """Tell whether a store names no commit, now or in its past, that is not behind a branch or tag here."""
    named = set[ObjectId]()
    for kind in KINDS:
        for name in refs.listed(kind):
            for record in refs.row(kind, name):
                if isinstance(record, DamagedRecord):
                    return False
                named.update([record.target] if record.target is not None else ())
    return not named or named <= set(_ours(session))


def _ours(session: Session) -> Iterator[ObjectId]:
    records = [*session.refs.survey(HEADS).whole.values(), *session.refs.survey(TAGS).whole.values()]
    met = set[ObjectId]()
    for record in records:
        if record.target is None or record.target in met:
            continue
        with suppress(MvcsError):  # what cannot be read is not known to be ours
            start = session.graph.load(record.target, record.pack)
            for revision in session.graph.walk([start], without=set(met)):
                met.add(revision.id)
                yield revision.id
