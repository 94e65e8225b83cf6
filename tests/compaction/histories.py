"""Histories that are stored anew, and what must not change by it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mvcs import Repository
from mvcs.compaction.rewriting import Anew
from mvcs.compaction.storing_anew import StoredAnew, StoringAnew, chosen_of
from mvcs.errors import StorageError
from mvcs.local import packs_to_go_on_with
from mvcs.objects import ObjectId
from mvcs.progress import SILENT
from mvcs.reports import CompactReport
from mvcs.restore import located_chunks, open_reading
from mvcs.store import RestoreLimits
from tests.repository.states import content, state
from tests.store.faults import Disk, Stopped

DEEP = 64


@dataclass
class History:
    """A repository, and what its commits restore and tell."""

    folder: Path
    contents: dict[str, Any]
    told: dict[str, Any]


def made(folder: Path, commits: int, *, bounded: bool, rows: int = 40) -> History:
    """Make a history of one branch."""
    found = History(folder, {}, {})
    with Repository.init(folder) as repo:
        repo.config_set("restore.max_cost", "1000")  # long chains, exact ones as well
    for number in range(commits):
        grow(found, number, bounded=bounded, rows=rows)
    return found


def grow(history: History, number: int, *, bounded: bool, rows: int = 40, branch: str | None = None) -> str:
    """Add one commit."""
    with Repository.open(history.folder) as repo:
        options = {"step_size": 0.5} if bounded else {}
        info = repo.commit(state(number, rows), step=number, branch=branch, **options)
        note(history, repo, info.id)
        return info.id


def note(history: History, repo: Repository, identifier: str) -> None:
    """Remember what a commit restores and tells."""
    history.contents[identifier] = content(repo, identifier)
    history.told[identifier] = told(repo, identifier)


def told(repo: Repository, identifier: str) -> dict[str, Any]:
    """What a commit tells of itself, but for its exact layer, which later commits may drop."""
    return repo.resolve(identifier).to_json() | {"exact_layer": None}


def anew(
    history: History,
    depth: int = DEEP,
    *,
    hangs: bool = False,
    chosen: list[str] | None = None,
    without: list[str] | None = None,
) -> StoredAnew:
    """Store a history anew in a process of its own, as it were."""
    with Repository.open(history.folder) as repo:
        return storing(repo, depth, hangs=hangs, chosen=chosen, without=without).run(lambda: None)


def storing(
    repo: Repository,
    depth: int = DEEP,
    *,
    hangs: bool = False,
    chosen: list[str] | None = None,
    without: list[str] | None = None,
) -> StoringAnew:
    """Return what stores a history anew."""
    session = repo._session
    ids = None if chosen is None else [ObjectId(bytes.fromhex(one)) for one in chosen]
    gone = frozenset(ObjectId(bytes.fromhex(one)) for one in without or ())
    terms = Anew(RestoreLimits(max_depth=depth, max_cost=1000), chosen_of(ids), gone)
    return StoringAnew(session.store.apart(), session.refs, terms, "Ada", SILENT, hangs=hangs)


def check(history: History, without: frozenset[str] = frozenset()) -> None:
    """See that every commit is what it was, and the store whole."""
    with Repository.open(history.folder) as repo:
        for identifier in history.contents.keys() - without:
            assert content(repo, identifier) == history.contents[identifier]
            now, was = told(repo, identifier), history.told[identifier]
            assert now == was, {key: (now[key], was[key]) for key in was if now[key] != was[key]}
        if not without:
            report = repo.fsck()
            assert report.ok, report.problems


def depths(history: History, rev: str = "HEAD") -> list[int]:
    """How deep the commits behind a revision lie today, newest first."""
    with Repository.open(history.folder) as repo:
        session = repo._session
        found = []
        for revision in session.graph.first_parents(session.resolver.resolve(rev)):
            reading = open_reading(session.store.apart(), revision, SILENT)
            catalog = reading.store.catalog
            chunks = (link for leaf in reading.tree.leaves for link in located_chunks(reading.store, leaf))
            found.append(max(catalog.depth_of(link) for link in chunks))
        return found


def collect(history: History) -> int:
    """Delete what nothing needs; return its bytes."""
    with Repository.open(history.folder) as repo:
        return repo.gc(grace_days=0, execute=True).bytes


def compact(history: History, depth: int = 1, *, hangs: bool = False) -> CompactReport:
    """Compact as a user does."""
    with Repository.open(history.folder) as repo:
        if hangs:
            return repo.compact(for_archive=True)
        return repo.compact(max_depth=depth)


def stopped(history: History, allowed: int, *, hangs: bool = False, error: Any = Stopped) -> bool:
    """Compact on a disk that stops at some change; tell whether it did."""
    with Disk(history.folder, allowed=allowed, error=error):
        try:
            compact(history, hangs=hangs)
        except (Stopped, StorageError):
            return True
    return False


def on_record(history: History) -> set[str]:
    """Return the packs that the next compaction goes on with."""
    return packs_to_go_on_with(history.folder / ".mvcs")


def begun(history: History) -> set[str]:
    """Break a compaction off, and return the packs that are on record."""
    allowed = 40
    assert stopped(history, allowed)
    kept = on_record(history)
    assert kept
    return kept
