"""Branches that keep a commit which lost a race: which of them have served, and what then counts no more."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

from mvcs.errors import ConflictError, MvcsError
from mvcs.history import Graph
from mvcs.local import Place, read_head
from mvcs.memory import NOTHING
from mvcs.objects import ObjectId
from mvcs.refs import CONFLICT, HEADS, RefChange, RefRecord, RefStore, ref_folder
from mvcs.store import Backend, ObjectStore

_NAME = re.compile(rf".+{re.escape(CONFLICT)}[0-9a-f]{{8}}")


def is_conflict(name: str) -> bool:
    """Tell whether a branch has the name of one that keeps a commit which lost a race."""
    return _NAME.fullmatch(name) is not None


class GivenUp:
    """Tells which rows of records count no more: those of conflict branches that were deleted long ago."""

    def __init__(self, backend: Backend, clock: Callable[[], float], grace: float) -> None:
        """Count deletions that are older than `grace` seconds, by the clock of the store."""
        self._backend = backend
        self._clock = clock
        self._grace = grace

    def __call__(self, kind: str, name: str, newest: RefRecord) -> bool:
        """Tell whether the past of a name counts no more."""
        if kind != HEADS or newest.target is not None or not is_conflict(name):
            return False
        written = self._backend.modified(f"{ref_folder(kind, name)}/{newest.key}")
        return written is not None and written <= self._clock() - self._grace


def contained(place: Place) -> dict[str, RefRecord]:
    """Return the conflict branches that another branch contains, as far as branches can be read.

    The one that HEAD stands on is none of them.
    """
    heads = RefStore(place.backend).survey(HEADS).whole
    left = {name: record for name, record in heads.items() if is_conflict(name)}
    if place.local is not None:
        left.pop(read_head(place.local).branch or "", None)
    if not left:
        return {}
    wanted = {record.target for record in left.values()}
    others = [record for name, record in heads.items() if not is_conflict(name)]
    met = set(islice((found for found in _behind(place.backend, others) if found in wanted), len(wanted)))
    return {name: record for name, record in left.items() if record.target in met}


def _behind(backend: Backend, records: list[RefRecord]) -> Iterator[ObjectId]:
    graph = Graph(ObjectStore(backend, NOTHING))
    with suppress(MvcsError):  # what cannot be read contains nothing
        tips = [graph.load(record.target, record.pack) for record in records if record.target is not None]
        yield from (revision.id for revision in graph.walk(tips))


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
