"""Histories that are stored again, and what must not change by it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mvcs import Repository
from mvcs.compaction import Repack, Repacked, Terms, chosen_of
from mvcs.errors import StorageError
from mvcs.objects import ObjectId
from mvcs.progress import SILENT
from mvcs.refs import Moved
from mvcs.reports import CompactReport
from mvcs.restore import located_chunks, open_reading
from mvcs.store import DataDrop, Placement, RestoreLimits
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


def repack(
    history: History,
    depth: int = DEEP,
    *,
    for_archive: bool = False,
    chosen: list[str] | None = None,
    dropped: list[str] | None = None,
) -> Repacked:
    """Store a history again in a process of its own, as it were."""
    with Repository.open(history.folder) as repo:
        return repacking(repo, depth, for_archive=for_archive, chosen=chosen, dropped=dropped).run()


def repacking(
    repo: Repository,
    depth: int = DEEP,
    *,
    for_archive: bool = False,
    chosen: list[str] | None = None,
    dropped: list[str] | None = None,
) -> Repack:
    """Return what stores a history again."""
    session = repo._session
    store = session.store.apart()
    ids = None if chosen is None else list(map(as_id, chosen))
    drops = {as_id(one): DataDrop(0) for one in dropped or ()}
    terms = Terms(RestoreLimits(max_depth=depth, max_cost=1000), chosen_of(ids), for_archive, drops)

    def publish(move: Moved) -> Placement:
        done = session.refs.duties.move(store.manifests, [move], "Ada")
        return done[0].now if done else store.manifests.placement(move.commit)

    return Repack(store, session.retention_source, terms, SILENT, publish=publish)


def as_id(identifier: str) -> ObjectId:
    """Return an id that is given in hexadecimal digits."""
    return ObjectId(bytes.fromhex(identifier))


def packs_of(history: History, rev: str = "HEAD") -> set[str]:
    """Return the names of the packs that a commit needs now."""
    with Repository.open(history.folder) as repo:
        manifests = repo._session.store.manifests
        return {*manifests.placement(as_id(repo.resolve(rev).id)).packs}


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
    """How deep the commits behind a revision lie today that have their data, newest first."""
    with Repository.open(history.folder) as repo:
        session = repo._session
        found = []
        line = session.graph.first_parents(session.resolver.resolve(rev))
        for revision in (one for one in line if session.data_drop(one.id) is None):
            reading = open_reading(session.store.apart(), revision, SILENT)
            catalog = reading.store.catalog
            chunks = (link for leaf in reading.tree.leaves for link in located_chunks(reading.store, leaf))
            found.append(max(catalog.depth_of(link) for link in chunks))
        return found


def collect(history: History) -> int:
    """Delete what nothing needs; return its bytes."""
    with Repository.open(history.folder) as repo:
        return repo.gc(grace_days=0, execute=True).bytes


def compact(history: History, depth: int = 1, *, for_archive: bool = False) -> CompactReport:
    """Compact as a user does."""
    with Repository.open(history.folder) as repo:
        if for_archive:
            return repo.compact(for_archive=True)
        return repo.compact(max_depth=depth)


def stopped(history: History, allowed: int, *, for_archive: bool = False, error: Any = Stopped) -> bool:
    """Compact on a disk that stops at some change; tell whether it did."""
    with Disk(history.folder, allowed=allowed, error=error):
        try:
            compact(history, for_archive=for_archive)
        except (Stopped, StorageError):
            return True
    return False
