"""Repair of records: a flipped bit is turned back, a branch stands where it stood, drops are said anew."""

from pathlib import Path

import pytest

from mvcs import Repository
from tests.repository.states import content, copied, state


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with all kinds of records, and a remote that is two commits behind. To be copied."""
    folder = tmp_path_factory.mktemp("made")
    with Repository.init(folder / "work") as repo:
        for number in range(3):
            repo.commit(state(number), step=number, step_size=0.5)
        repo.create_tag("first", "step:0", message="the first")
        repo.note("step:1", {"loss": 0.5})
        repo.note("step:1", {"loss": 0.25})
        repo.add_remote("origin", str(folder / "far"))
        repo.push(exact=True, tags=True)
        for number in range(3, 5):
            repo.commit(state(number), step=number, step_size=0.5)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    copied(made, tmp_path)
    return tmp_path


def records(folder: Path) -> list[Path]:
    store = folder / "work/.mvcs"
    return sorted(
        path for name in ("refs", "retention") for path in (store / name).rglob("*") if path.is_file()
    )


def newest(folder: Path, name: str) -> Path:
    found = (folder / "work/.mvcs" / name).rglob("9*")
    return min(path for path in found if path.is_file())  # a note's folder may begin with a 9 as well


def blank(path: Path) -> None:
    path.write_bytes(bytes(len(path.read_bytes())))


def test_a_flipped_bit_of_any_record_is_turned_back(folder: Path) -> None:
    found = records(folder)
    whole = [path.read_bytes() for path in found]
    assert {path.relative_to(folder / "work/.mvcs").parts[1] for path in found} == {
        "heads",
        "tags",
        "remotes",
        "notes",
        "drops",
    }
    for number, (path, data) in enumerate(zip(found, whole, strict=True)):
        place = (7, len(data) // 2, len(data) - 3)[number % 3]
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << number % 8]) + data[place + 1 :])
    with Repository.open(folder / "work") as repo:
        assert not repo.fsck(full=False).ok
        report = repo.repair()
        assert report.ok
        assert {one.how for one in report.mended} == {"a flipped bit was corrected"}
        assert len(report.mended) == len(report.aside) == len(found)
    assert [path.read_bytes() for path in found] == whole


@pytest.mark.parametrize("remote", [True, False])
def test_a_branch_stands_again_where_it_stood(folder: Path, remote: bool) -> None:
    with Repository.open(folder / "work") as repo:
        stood, before = repo.head(), content(repo, "HEAD")
        if not remote:
            repo.remove_remote("origin")
    blank(newest(folder, "refs/heads/main"))
    with Repository.open(folder / "work") as repo:
        assert not repo.fsck(full=False).ok
        plan = repo.repair(execute=False)
        report = repo.repair()
        assert plan.mended[0].how == report.mended[0].how
        assert "'main' stands at" in report.mended[0].how
        assert report.ok
        assert repo.head() == stood
        assert content(repo, "HEAD") == before
        assert repo.fsck().ok
        repo.commit(state(9))


def test_where_two_commits_may_be_it_nothing_is_decided(folder: Path) -> None:
    with Repository.open(folder / "work") as repo:
        repo.create_branch("side", "step:3")
        repo.commit(state(20), branch="side", step=20)
        repo.switch("side")
    blank(newest(folder, "refs/heads/main"))
    blank(newest(folder, "refs/heads/side"))
    with Repository.open(folder / "work") as repo:
        report = repo.repair()
    assert not report.ok
    assert any("where the branch 'main' stood is not known" in note for note in report.notes)
    # What stood on the commit that both are ahead of descends from one alone.
    assert [one for one in report.mended if "'main'" in one.how] == []


def test_an_older_record_that_is_gone_for_good_costs_no_commit(folder: Path) -> None:
    old = sorted((folder / "work/.mvcs/refs/heads/main").iterdir())[2]
    blank(old)
    with Repository.open(folder / "work") as repo:
        report = repo.repair()
        assert (report.mended, report.losses) == ([], [])
        assert [problem.subject for problem in report.problems] == ["heads/main"]


@pytest.mark.parametrize("name", ["refs/tags", "refs/notes", "refs/remotes"])
def test_what_a_remote_has_of_it_is_written_anew(folder: Path, name: str) -> None:
    blank(newest(folder, name))
    with Repository.open(folder / "work") as repo:
        notes = repo.notes("step:1") if name != "refs/notes" else []
        report = repo.repair()
        assert report.ok
        assert report.mended
        assert [tag.name for tag in repo.tags()] == ["first"]
        assert not notes or repo.notes("step:1") == notes
        assert {value for note in repo.notes("step:1") for value in note.metrics.values()} == {0.5, 0.25}
        assert repo.fsck().ok


def test_a_drop_record_is_said_anew(folder: Path) -> None:
    drops = sorted((folder / "work/.mvcs/retention/drops").iterdir())
    for path in drops:
        blank(path)
    with Repository.open(folder / "work") as repo:
        assert not repo.fsck(full=False).ok
        report = repo.repair()
        assert report.ok
        assert any("count as dropped on purpose" in note for note in report.notes)
        assert repo.fsck().ok
    assert sorted((folder / "work/.mvcs/retention/drops").iterdir()) == drops


def test_a_record_of_a_newer_version_is_left_alone(folder: Path) -> None:
    path = newest(folder, "refs/heads/main")
    newer = path.read_bytes().replace(b"MVCSREF1", b"MVCSREF9", 1)[:-16] + bytes(16)
    path.write_bytes(newer)
    with Repository.open(folder / "work") as repo:
        report = repo.repair()
        assert not report.ok
        assert report.mended == []
    assert path.read_bytes() == newer
