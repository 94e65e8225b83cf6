"""Branches that keep a commit which lost a race: which of them have served, and what then counts no more."""

import re
from contextlib import suppress

from mvcs.errors import ConflictError
from mvcs.history import Graph
from mvcs.local import Place, read_head
from mvcs.memory import NOTHING
from mvcs.refs import CONFLICT, HEADS, RefChange, RefRecord, RefStore, ref_folder
from mvcs.store import Backend, ObjectStore

_NAME = re.compile(rf".+{re.escape(CONFLICT)}[0-9a-f]{{8}}")


def is_conflict(name: str) -> bool:
    """Tell whether a branch has the name of one that keeps a commit which lost a race."""
    return _NAME.fullmatch(name) is not None


class GivenUp:
    """Tells which rows of records count no more: those of conflict branches that were deleted long ago."""

    def __init__(self, backend: Backend, since: float) -> None:
        """Count deletions from before `since`, in seconds by the clock of the store."""
        self._backend = backend
        self._since = since

    def __call__(self, kind: str, name: str, newest: RefRecord) -> bool:
        """Tell whether the past of a name counts no more."""
        if kind != HEADS or newest.target is not None or not is_conflict(name):
            return False
        written = self._backend.modified(f"{ref_folder(kind, name)}/{newest.key}")
        return written is not None and written <= self._since


def contained(place: Place) -> dict[str, RefRecord]:
    """Return the conflict branches that another branch contains, but for the one that HEAD stands on.

    Raises:
        MvcsError: a branch cannot be read.
    """
    heads = RefStore(place.backend).survey(HEADS).required()
    left = {name: record for name, record in heads.items() if is_conflict(name)}
    if place.local is not None:
        left.pop(read_head(place.local).branch or "", None)
    if not left:
        return {}
    graph = Graph(ObjectStore(place.backend, NOTHING))
    wanted = {record.target for record in left.values()}
    others = (record for name, record in heads.items() if not is_conflict(name))
    tips = [graph.load(record.target, record.pack) for record in others if record.target is not None]
    met = set()
    for revision in graph.walk(tips):
        if revision.id in wanted:
            met.add(revision.id)
            if len(met) == len(wanted):
                break
    return {name: record for name, record in left.items() if record.target in met}


def delete_contained(place: Place, branches: dict[str, RefRecord], author: str) -> list[str]:
    """Delete conflict branches and return which; one that somebody moved meanwhile stays.

    Raises:
        StorageError: one cannot be deleted.
    """
    refs, gone = RefStore(place.backend), list[str]()
    change = RefChange(None, None, author, "gc: another branch contains it")
    for name, record in branches.items():
        with suppress(ConflictError):
            refs.update(HEADS, name, record, change)
            gone.append(name)
    return gone
