"""fsck finds what is wrong with refs and HEAD, names what nobody needs, and is quiet beside a writer."""

import multiprocessing
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError
from mvcs.objects.ids import ObjectId
from mvcs.refs import HEADS, REMOTES
from mvcs.refs.refstore import RefChange, RolledBackError
from mvcs.reports import as_size
from mvcs.ui.progress import NotesOnly
from tests.cli import hostile
from tests.repository.states import content, leaves, state


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine") / "work"
    with Repository.init(folder) as repo:
        for number in range(3):
            repo.commit(state(number))
        repo.create_tag("v1")
        repo.create_branch("side")
        repo.note("HEAD", {"loss": 1.0})
        repo.add_remote("origin", str(folder.parent / "far"))
        repo.push()
    return folder


@pytest.fixture
def work(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "work"))


def problems(work: Path) -> dict[str, str]:
    with Repository.open(work) as repo:
        report = repo.fsck()
        assert report.ok == (not report.problems)
        return {problem.subject: problem.kind for problem in report.problems}


def newest(work: Path, ref: str) -> Path:
    return min((work / ".mvcs" / "refs" / ref).iterdir())


def forget(work: Path) -> None:
    (work / ".mvcs" / "local" / "seen.json").unlink()


def test_a_whole_repository(work: Path) -> None:
    with Repository.open(work) as repo:
        report = repo.fsck()
    assert (report.problems, report.notes) == ([], [])


@pytest.mark.parametrize("damaged", [b"ref: main\nchecksum: 00\n", b"ref: mair\n", b"", b"00" * 32])
def test_a_damaged_head_is_found(work: Path, damaged: bytes) -> None:
    (work / ".mvcs" / "HEAD").write_bytes(damaged)
    assert problems(work) == {"HEAD": "HEAD"}


@pytest.mark.parametrize(
    "path",
    [
        "heads/main/README",
        "heads/main/00000000.bak",
        "heads/main/below/99999999",
        "heads/.DS_Store",
        "heads/UPPER/99999999",
        "heads/a%20b/99999999",
        "heads/%2E%2E/99999999",
        "notes/main/99999999",
        "stash/main/99999999",
        "remotes/origin%2Fa%3Ab/99999999",
    ],
)
def test_a_stray_file_among_records_is_found(work: Path, path: str) -> None:
    stray = work / ".mvcs" / "refs" / path
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_bytes(newest(work, "heads/main").read_bytes())
    found = problems(work)
    assert any(f"refs/{path}".startswith(subject) for subject in found), found


LOST: dict[str, Callable[[Path], None]] = {
    "the newest record": lambda work: newest(work, "heads/main").unlink(),
    "the newest two": lambda work: [newest(work, "heads/main").unlink() for _ in range(2)] and None,
    "all records": lambda work: shutil.rmtree(work / ".mvcs" / "refs" / "heads" / "main"),
    "a tag": lambda work: shutil.rmtree(work / ".mvcs" / "refs" / "tags" / "v1"),
    "what a remote had": lambda work: newest(work, "remotes/origin%2Fmain").unlink(),
}


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST)
def test_a_deleted_newest_record_is_found_by_who_saw_it(work: Path, lose: Callable[[Path], None]) -> None:
    lose(work)
    assert list(problems(work).values()) == ["ref"] * len(problems(work))
    assert problems(work)


def test_a_branch_that_was_set_back_is_found_by_what_was_pushed(work: Path) -> None:
    newest(work, "heads/main").unlink()
    forget(work)
    assert problems(work) == {"heads/main": "ref"}


def test_records_that_are_gone_from_the_beginning_of_a_row_are_found(work: Path) -> None:
    max((work / ".mvcs" / "refs" / "heads" / "main").iterdir()).unlink()
    assert problems(work) == {"heads/main": "ref"}


def test_a_record_that_was_exchanged_is_found(work: Path) -> None:
    path = newest(work, "heads/main")
    kept = path.read_bytes()
    path.unlink()
    forget(work)
    with Repository.open(work) as repo:
        repo.commit(state(7))
    assert path.read_bytes() != kept
    assert problems(work) == {"heads/main": "ref"}  # what was pushed
    with Repository.open(work) as repo:
        assert repo.head()
    path.unlink()
    path.write_bytes(kept)
    assert problems(work) == {"heads/main": "ref"}  # what was seen


def test_whoever_writes_on_a_branch_that_was_set_back_loses_nothing(work: Path) -> None:
    told: list[str] = []
    gone = newest(work, "heads/main")
    kept = gone.read_bytes()
    gone.unlink()
    with Repository.open(work, progress=NotesOnly(told.append)) as repo:
        assert repo.head().step is None
        assert any("set back" in line for line in told)
        with pytest.raises(RolledBackError, match=r"kept as branch 'main\.conflict-") as caught:
            repo.commit(state(8))
    assert gone.name in caught.value.hint
    with Repository.open(work) as repo:
        (beside,) = [branch.name for branch in repo.branches() if "conflict" in branch.name]
        assert content(repo, beside) == leaves(state(8))
        with pytest.raises(CorruptionError):
            repo._session.refs.update(
                HEADS, "main", repo._session.branch_record("main"), RefChange(None, "Ada", "test")
            )
    gone.write_bytes(kept)
    with Repository.open(work) as repo:
        repo.commit(state(9))
        assert repo.branch == "main"


def test_one_goes_on_from_what_is_there_by_forgetting(work: Path) -> None:
    newest(work, "heads/main").unlink()
    with Repository.open(work) as repo, pytest.raises(RolledBackError) as caught:
        repo.commit(state(8))
    Path(caught.value.hint.rpartition("remove '")[2].rstrip("'")).unlink()
    with Repository.open(work) as repo:
        assert content(repo, repo.commit(state(8)).id) == leaves(state(8))


def test_a_listing_that_lags_behind_is_no_loss(work: Path) -> None:
    with Repository.open(work) as repo:
        backend = repo._session.place.backend
        real = backend.newest
        first = repo._session.branch_record("main")
        assert first is not None
        backend.newest = lambda folder: min(backend.list(folder)[1:], default=None) or real(folder)
        assert repo._session.branch_record("main") == first


def test_memory_that_is_damaged_or_of_another_store_is_no_memory(work: Path) -> None:
    path = work / ".mvcs" / "local" / "seen.json"
    whole = path.read_text()
    with Repository.open(work) as repo:
        store = repo._session.place.description.store_id
    for text in (
        "",
        "[",
        "[]",
        '{"store": 1}',
        '{"store": "x", "refs": {"heads/main": [99, ""]}}',
        whole[:-9],
    ):
        path.write_text(text)
        assert problems(work) == {}
    path.write_text(f'{{"store": "{store}", "refs": {{"heads/main": ["x", 1], "odd": [1], "tags/v1": 3}}}}')
    assert problems(work) == {}
    shutil.rmtree(path.parent)
    path.parent.write_text("in the way")
    with Repository.open(work) as repo:
        repo.commit(state(5))
    assert problems(work) == {}


def test_a_blob_that_is_not_of_the_length_its_tree_names_is_found(tmp_path: Path) -> None:
    hostile.huge_blob(tmp_path)
    with Repository.open(tmp_path) as repo:
        (problem,) = repo.fsck().problems
    assert problem.kind == "commit"
    assert f"has 7 bytes where its tree says {1 << 40}" in problem.message


def test_packs_nobody_needs_are_named_with_their_bytes(work: Path) -> None:
    with Repository.open(work) as repo:
        repo.commit(state(4), branch="gone", bins=16)
        repo.delete_branch("gone", force=True)
        report = repo.fsck()
    left = [note for note in report.notes if "belongs to no commit" in note]
    assert report.ok
    sizes = {path.name: path.stat().st_size for path in (work / ".mvcs").glob("*/*/*.pack")}
    for note in left:
        name = note.split("'")[1].rpartition("/")[2]
        assert f"({as_size(sizes[name])})" in note
    assert {note.split("/")[0] for note in left} == {"'packs", "'exact"}


def test_a_ref_that_leads_out_of_its_row_by_hand_is_no_push(work: Path) -> None:
    with Repository.open(work) as repo:
        refs = repo._session.refs
        before = refs.newest(REMOTES, "origin/main")
        change = RefChange(ObjectId(before.target), "Ada", "fetch")
        refs.update(REMOTES, "origin/main", before, change)
    assert problems(work) == {}


def write(folder: str, started, stop, rounds: int) -> None:
    """Commit bounded states, whose layers are dropped two commits later, until told to stop."""
    with Repository.open(folder) as repo:
        for number in range(rounds):
            repo.commit(state(number), bins=16)
            if number == 2:
                started.set()
            if stop.is_set():
                break


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Path]:
    """A repository in which another process commits all the time."""
    Repository.init(tmp_path / "busy").close()
    context = multiprocessing.get_context("spawn")
    started, stop = context.Event(), context.Event()
    writer = context.Process(target=write, args=(str(tmp_path / "busy"), started, stop, 400))
    writer.start()
    assert started.wait(120)
    yield tmp_path / "busy"
    stop.set()
    writer.join()
    assert writer.exitcode == 0


@pytest.mark.parametrize("rounds", [4, pytest.param(8, marks=pytest.mark.slow)])
def test_beside_a_writer_fsck_push_and_show_are_quiet(busy: Path, tmp_path: Path, rounds: int) -> None:
    for number in range(rounds):
        with Repository.open(busy) as repo:
            assert repo.fsck(full=number % 2 == 0).problems == []
            assert repo.show("HEAD~1").commit.id
            if number == 0:
                repo.add_remote("far", str(tmp_path / "far"))
            repo.push("far", exact=True)
    with Repository.open(tmp_path / "far") as far:
        assert far.fsck().problems == []
