"""What lies where a file of the store should and is none, such as a folder, is told of and left alone."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError, MvcsError
from mvcs.local_files import temporary_name
from mvcs.refs import now_microseconds
from mvcs.store.backend.local import LocalBackend
from mvcs.store.condemned.log import CondemnedLog
from mvcs.store.condemned.record import Standing
from tests.repository.states import copied, own_packs, state
from tests.upkeep.test_garbage import age

PACK = "ab" * 32


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with exact and bounded commits, and a remote that has all of it. To be copied."""
    folder = tmp_path_factory.mktemp("made")
    with Repository.init(folder / "work") as repo:
        for number in range(3):
            repo.commit(state(number), step=number, **({"step_size": 0.5} if number else {}))
        repo.create_tag("first", "step:0")
        repo.add_remote("origin", str(folder / "far"))
        repo.push(exact=True, tags=True)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    copied(made, tmp_path)
    return tmp_path


def oddly(path: Path, *, filled: bool = True) -> Path:
    """Put a folder in the place of a file."""
    path.unlink()
    path.mkdir()
    if filled:
        (path / "mine").write_bytes(b"mine")
    return path


def first(store: Path, pattern: str) -> Path:
    return min(store.glob(pattern))


def told(work: Path, *, execute: bool) -> tuple[str, list[str]]:
    """Repair; return everything that is said, and the paths that came again."""
    with Repository.open(work) as repo:
        report = repo.repair(execute=execute)
    said = [*report.notes, *(f"{one.subject} {one.message}" for one in report.problems)]
    return "\n".join(said), [one.path for one in report.mended]


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
@pytest.mark.parametrize("layer", ["packs", "exact"])
def test_a_pack_that_is_a_folder_stays_and_others_come_again(
    folder: Path, layer: str, *, filled: bool
) -> None:
    store = folder / "work/.mvcs"
    with Repository.open(folder / "work") as repo:
        tip = own_packs(repo, "main")[-1]  # without it nobody knows what is behind
    packs = sorted(path for path in store.glob(f"{layer}/*/*.pack") if path.stem != tip)
    odd = oddly(packs[0], filled=filled)
    with Repository.open(folder / "work") as repo:
        assert any(odd.name in problem.message + problem.subject for problem in repo.fsck().problems)
    gone = max(path for path in store.glob("packs/*/*.pack") if path != odd)
    gone.unlink()
    path = gone.relative_to(store).as_posix()
    for execute in (False, True):
        said, mended = told(folder / "work", execute=execute)
        assert mended == [path]
        assert f"{odd}' is not a file, so it was left alone" in said
    assert odd.is_dir()
    assert filled == any(odd.iterdir())
    odd.rename(folder / "moved")
    with Repository.open(folder / "work") as repo:
        repo.fsck()
    assert told(folder / "work", execute=True)[1] == [odd.relative_to(store).as_posix()]
    with Repository.open(folder / "work") as repo:
        assert repo.fsck().ok


def test_what_reads_such_a_pack_says_so_or_leaves_it_out(folder: Path) -> None:
    odd = oddly(first(folder / "work/.mvcs", "packs/*/*.pack"))
    with Repository.open(folder / "work") as repo:
        with pytest.raises(CorruptionError, match="is not a file"):
            repo.compact(max_depth=0)
        assert repo.gc(execute=True, grace_days=0, wait_days=0).garbage == []
        assert any("cannot be read whole" in note for note in repo.stats().notes)
    assert odd.is_dir()


@pytest.mark.parametrize("pattern", ["refs/heads/main/*", "refs/tags/first/*"])
def test_a_ref_whose_newest_record_is_a_folder_stands_again(folder: Path, pattern: str) -> None:
    """What tells of it is elsewhere; the record that comes next passes over the folder."""
    store = folder / "work/.mvcs"
    with Repository.open(folder / "work") as repo:
        stood = [info.id for info in (repo.resolve("main"), repo.resolve("first"))]
    odd = oddly(first(store, pattern))
    said, mended = told(folder / "work", execute=True)
    assert "is not a file" in said
    assert [Path(path).parent for path in mended] == [odd.parent.relative_to(store)]
    with Repository.open(folder / "work") as repo:
        assert [info.id for info in (repo.resolve("main"), repo.resolve("first"))] == stood
        assert repo.fsck().ok
    assert (odd / "mine").read_bytes() == b"mine"


def test_an_older_record_that_is_a_folder_ends_no_repair(folder: Path) -> None:
    store = folder / "work/.mvcs"
    odd = oddly(sorted(store.glob("refs/heads/main/*"))[1])
    gone = first(store, "packs/*/*.pack")
    gone.unlink()
    said, mended = told(folder / "work", execute=True)
    assert mended == [gone.relative_to(store).as_posix()]
    assert f"{odd.name}' cannot be read" in said


def test_a_file_where_drop_records_lie_ends_no_repair(folder: Path) -> None:
    drops = folder / "work/.mvcs/retention/drops"
    drops.parent.mkdir(exist_ok=True)
    drops.write_bytes(b"mine")
    said, _ = told(folder / "work", execute=True)
    assert "left alone" in said
    assert drops.read_bytes() == b"mine"


@pytest.mark.parametrize("number", [1, 2])
def test_a_folder_among_the_records_of_condemned_packs_is_passed_over(tmp_path: Path, number: int) -> None:
    """The second, or where the third would lie: the next one is written behind it."""
    backend = LocalBackend(tmp_path)
    log = CondemnedLog(backend, now_microseconds)
    written = [log.say(Standing.CONDEMNED, {PACK}, "Ada").path for _ in range(2)]
    path = tmp_path / written[1] if number == 1 else tmp_path / "gc/99999997"
    if number == 1:
        path.unlink()
    path.mkdir()
    later = CondemnedLog(backend, now_microseconds)
    later.look()
    assert list(later.unread) == [number]
    assert later.say(Standing.RELEASED, {PACK}, "Ada").number == max(2, number + 1)
    assert path.is_dir()


def test_a_folder_named_like_a_temporary_file_is_no_garbage(folder: Path) -> None:
    odd = folder / "work/.mvcs/tmp" / temporary_name()
    odd.mkdir(parents=True)
    age(folder / "work", [odd.relative_to(folder / "work/.mvcs")], 30)
    with Repository.open(folder / "work") as repo:
        report = repo.gc(execute=True, grace_days=0, wait_days=0)
    assert odd.name not in str(report)
    assert odd.is_dir()


def _packs_as_file(store: Path) -> Path:
    path = first(store, "packs/*/*.pack")
    shutil.rmtree(path.parent)  # two packs may lie in it
    path.parent.write_bytes(b"mine")
    return path.parent


def _lock(store: Path) -> Path:
    path = store / "local/lock"
    path.unlink(missing_ok=True)
    path.mkdir()
    return path


@pytest.mark.parametrize("change", [_packs_as_file, _lock])
def test_what_keeps_a_repair_from_writing_says_what_to_do(
    folder: Path, change: Callable[[Path], Path]
) -> None:
    odd = change(folder / "work/.mvcs")
    try:
        said, _ = told(folder / "work", execute=True)
    except MvcsError as error:
        said = f"{error.message} {error.hint}"
    assert str(odd) in said
    assert "move it" in said or "moved" in said


@pytest.mark.parametrize("target", ["99999998", "nowhere"])
@pytest.mark.parametrize("kind", ["pins", "rules"])
def test_a_link_that_leads_nowhere_is_a_damaged_record(folder: Path, kind: str, target: str) -> None:
    with Repository.open(folder / "work") as repo:
        repo.pin("HEAD")
        repo.set_retention(tagged=True, last=2)
        link = folder / f"work/.mvcs/retention/{kind}/99999998"
        link.symlink_to(target)
        assert [problem.subject for problem in repo.fsck().problems] == [f"retention/{kind}/99999998"]
        with pytest.raises(CorruptionError):
            repo.retention()
        assert repo.repair().ok
        assert repo.fsck().ok
        assert len(repo.retention().pins) == 1
    assert not link.is_symlink()


@pytest.mark.parametrize("target", ["99999998", "nowhere"])
def test_a_link_in_the_place_of_what_a_collector_said_is_passed_over(folder: Path, target: str) -> None:
    backend = LocalBackend(folder / "work/.mvcs")
    log = CondemnedLog(backend, now_microseconds)
    log.say(Standing.CONDEMNED, [PACK], "Ada")
    (folder / "work/.mvcs/gc/99999998").symlink_to(target)
    log.look()
    assert (log.newest, list(log.unread)) == (1, [1])
