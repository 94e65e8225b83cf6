"""Histories stored anew beside collectors: what they need now is released, or stored once more."""

from pathlib import Path

from mvcs import Repository
from mvcs.compaction import StoringAnew
from mvcs.history import Graph, GraphNeeds
from mvcs.progress import Silent
from mvcs.refs import HEADS, Marked, now_microseconds
from mvcs.store import CONDEMNED_PACKS, Backend, CondemnedLog, Standing, pack_name, read_footer, upgrade
from tests.compaction.histories import anew, begun, check, collect, made, storing


def log_of(backend: Backend) -> CondemnedLog:
    """Return the log of a store."""
    log = CondemnedLog(backend, now_microseconds)
    log.look()
    return log


def packs_of(work: StoringAnew) -> list[str]:
    """Return the names of the packs that were written."""
    return [name for path in work.paths if (name := pack_name(path))]


def condemn(backend: Backend, packs: list[str]) -> None:
    """Condemn packs, as another collector does."""
    log_of(backend).say(Standing.CONDEMNED, set(packs), "Bob")


def test_what_a_history_needs_now_is_released(tmp_path: Path) -> None:
    """Its commits were known, and marked, as they ended before."""
    history = made(tmp_path / "work", 6, bounded=True)
    with Repository.open(history.folder) as repo:
        assert len(list(repo.log())) == 6
        backend, work = repo._session.place.backend, storing(repo, 1)
        upgrade(backend, CONDEMNED_PACKS, 0, "Bob")
        work.run(lambda: condemn(backend, packs_of(work)))
        record = repo._session.refs.newest("heads", "main")
        assert record is not None
        assert record.pack in packs_of(work)
        needed = {record.pack, *read_footer(backend, record.pack or "").needed}
        assert needed & set(packs_of(work)) > {record.pack}
        assert not log_of(backend).of(Standing.CONDEMNED)
    collect(history)
    check(history)


def test_what_a_collector_deletes_meanwhile_is_stored_once_more(tmp_path: Path) -> None:
    """It meets packs of a compaction that was broken off, and deletes them when the next one goes on."""
    history = made(tmp_path / "work", 6, bounded=True, rows=8)
    kept = {Path(name).stem for name in begun(history)}
    with Repository.open(history.folder) as repo:
        assert len(list(repo.log())) == 6
        backend = repo._session.place.backend
        upgrade(backend, CONDEMNED_PACKS, 0, "Bob")
        log = log_of(backend)
        log.say(Standing.CONDEMNED, kept, "Bob")
        log.say(Standing.GOING, kept, "Bob")
        assert repo.compact(max_depth=1).refs == ["main"]
        record = repo._session.refs.newest("heads", "main")
        assert record is not None
        assert kept.isdisjoint((record.pack, *read_footer(backend, record.pack or "").needed))
    assert kept.isdisjoint(path.stem for path in history.folder.glob(".mvcs/packs/*/*.pack"))
    check(history)
    collect(history)
    check(history)


def test_the_needs_of_a_history_are_told_by_packs_that_are_there(tmp_path: Path) -> None:
    """Only of its tip it is known where it lies now: the packs that were named of the others are gone."""
    history = made(tmp_path / "work", 6, bounded=False)
    with Repository.open(history.folder) as repo:
        session = repo._session
        assert len(list(repo.log())) == 6
        anew(history, 0, chosen=list(history.contents)[1:])
        assert collect(history)
        record = session.refs.newest(HEADS, "main")
        assert record is not None
        assert record.target is not None
        store = session.store.apart()
        session.graph.replace([Graph(store).load(record.target, record.pack)])
        needed = GraphNeeds(store, session.graph)(record, Marked())
    assert record.pack in needed
    assert needed <= {path.stem for path in history.folder.rglob("*.pack")}


class Deleting(Silent):
    """Deletes a pack that was just stored, once."""

    def __init__(self, folder: Path) -> None:
        """Know the store."""
        self.folder, self.before, self.lost = folder, set(folder.rglob("*.pack")), ""

    def finish(self) -> None:
        """Commits were stored anew, and nobody looked yet at what was written."""
        if not self.lost:
            lost = max(set(self.folder.rglob("*.pack")) - self.before)
            self.lost = lost.stem
            lost.unlink()


def test_what_a_collector_deleted_before_it_was_proven_is_stored_once_more(tmp_path: Path) -> None:
    """Nothing is said of damage."""
    history = made(tmp_path / "work", 6, bounded=True, rows=8)
    beside = Deleting(history.folder / ".mvcs" / "packs")
    with Repository.open(history.folder, progress=beside) as repo:
        assert repo.compact(max_depth=1).ended
    assert beside.lost
    check(history)
