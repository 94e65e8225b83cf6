"""HEAD: damage to it is found, and never becomes another branch."""

from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError, MvcsError, NotFoundError, UsageError
from mvcs.local.head import MAX_BYTES, write_head
from mvcs.refs import HEADS
from mvcs.refs.refstore import RefChange, RefStore
from mvcs.store.backend import open_backend
from tests.repository.states import state


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("head") / "work"
    with Repository.init(folder) as repo:
        repo.commit(state(0))
        repo.create_branch("side")
    return folder


@pytest.fixture
def head(work: Path):
    path = work / ".mvcs" / "HEAD"
    whole = path.read_bytes()
    yield path
    path.write_bytes(whole)


def flips(data: bytes) -> list[bytes]:
    return [
        data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
        for place in range(len(data))
        for bit in range(8)
    ]


def stands(work: Path) -> str | tuple[str, str | None]:
    """Where a command believes it is: a branch and commit, or the error that it ends in."""
    with Repository.open(work) as repo:
        try:
            found = repo.head()
        except CorruptionError as error:
            return "corruption" if "HEAD" in error.message and error.hint else str(error)
        return "none" if found is None else (found.id, repo.branch)


def branches(work: Path) -> list[str]:
    return sorted(path.name for path in (work / ".mvcs/refs/heads").iterdir())


@pytest.mark.parametrize("detached", [False, True])
def test_no_flipped_bit_of_head_leads_elsewhere(work: Path, head: Path, detached: bool) -> None:
    with Repository.open(work) as repo:
        if detached:
            write_head(work / ".mvcs", repo.resolve("main").id)
        right = (repo.head().id, repo.branch)
    for damaged in flips(head.read_bytes()):
        head.write_bytes(damaged)
        assert stands(work) in (right, "corruption"), damaged


def test_no_flipped_bit_of_a_head_without_checksum_leads_to_a_branch_that_never_was(
    work: Path, head: Path
) -> None:
    with Repository.open(work) as repo:
        right = (repo.head().id, "main")
    for damaged in flips(b"ref: main\n"):
        head.write_bytes(damaged)
        assert stands(work) in (right, "corruption"), damaged


def test_a_commit_under_a_damaged_head_makes_no_branch(work: Path, head: Path) -> None:
    before = branches(work)
    for damaged in [
        b"ref: main.\n",
        b"ref: mair\n",
        b"ref: mai\x0e\n",
        b"ref: ../x\n",
        *flips(head.read_bytes())[40:48],
    ]:
        head.write_bytes(damaged)
        with Repository.open(work) as repo, pytest.raises(CorruptionError) as caught:
            repo.commit(state(1))
        assert f"'{head}'" in caught.value.hint
        assert branches(work) == before


@pytest.mark.parametrize("cut", range(0, 58, 5))
def test_a_head_that_was_cut(work: Path, head: Path, cut: int) -> None:
    with Repository.open(work) as repo:
        right = (repo.head().id, "main")
    head.write_bytes(head.read_bytes()[:cut])
    assert stands(work) in (right, "corruption")


def test_the_way_back_from_a_damaged_head(work: Path, head: Path) -> None:
    head.write_bytes(b"\x00" * 58)
    with Repository.open(work) as repo:
        assert [branch.name for branch in repo.branches()] == ["main", "side"]
        assert not any(branch.current for branch in repo.branches())
        assert repo.resolve("main").id == repo.resolve("side").id
        with pytest.raises(CorruptionError) as caught:
            repo.head()
    line, path = caught.value.hint.split("echo '")[1].split("' > '")
    Path(path.removesuffix("'")).write_text(line + "\n")
    with Repository.open(work) as repo:
        assert repo.branch == "main"
        assert repo.head() is not None


def test_a_head_of_one_line_is_read_and_gets_its_checksum_at_the_next_commit(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        path = tmp_path / ".mvcs/HEAD"
        checked = path.read_bytes()
        path.write_bytes(b"ref: main\n")
        repo.commit(state(0))
        assert repo.branch == "main"
        assert path.read_bytes() == checked


def test_a_new_branch_that_was_asked_for_has_no_commits_yet(tmp_path: Path) -> None:
    with Repository.init(tmp_path / "one") as repo:
        repo.commit(state(0), branch="side")
        assert repo.head() is None
        first = repo.commit(state(1))
        assert (first.parents, repo.branch) == ([], "main")
    with Repository.init(tmp_path / "two") as repo:
        repo.switch("feature", create_from="HEAD")
        assert repo.head() is None
        repo.commit(state(0), branch="side")
        repo.commit(state(1))
        assert {branch.name for branch in repo.branches()} == {"feature", "side"}


def test_a_head_that_is_no_head_at_all(work: Path, head: Path) -> None:
    for data in (
        b"",
        b"ref: ",
        b"ref: \n",
        b"main\n",
        b"zz" * 32,
        b"ref: main",
        b"ref: " + b"a" * MAX_BYTES,
        b"\xff",
    ):
        head.write_bytes(data)
        assert stands(work) == "corruption", data
    head.write_bytes(b"00" * 32)
    with Repository.open(work) as repo, pytest.raises(NotFoundError):
        repo.head()


@pytest.mark.parametrize("name", ["..", "a b", "-x", "HEAD", "x\n", "../../etc"])
def test_no_ref_is_written_under_a_name_that_no_branch_may_have(work: Path, name: str) -> None:
    refs = RefStore(open_backend(str(work / ".mvcs")))
    record = refs.read(HEADS, "main")
    with pytest.raises(UsageError):
        refs.update(HEADS, name, None, RefChange(record.target, "eve", "test"))
    with Repository.open(work) as repo, pytest.raises(MvcsError):
        repo._session.set_head(f"ref: {name}")
