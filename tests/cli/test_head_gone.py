"""HEAD on a commit of no branch that another clone's gc took: every command says where to go on from."""

from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import NotFoundError
from tests.cli.conftest import Console

FILE = "model.safetensors"


@pytest.fixture
def gone(mvcs: Console) -> str:
    """Stand on a commit without a branch, which a collector that does not know of this clone has deleted."""
    first = mvcs.commit("one")["id"]
    mvcs("checkout", first)
    lost: str = mvcs.commit("two", seed=3)["id"]
    with Repository.init(mvcs.folder / "other", store=str(mvcs.folder / ".mvcs")) as other:
        assert other.gc(execute=True, grace_days=0, wait_days=0).garbage
    return lost


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["log"],
        ["show"],
        ["diff"],
        ["ls-files"],
        ["commit", FILE, "-m", "three"],
        ["commit", "--amend", "-m", "three"],
        ["checkout", "main"],
        ["checkout", "HEAD"],
        ["switch", "main"],
        ["switch", "-c", "new"],
        ["restore", FILE],
        ["rev-parse", "HEAD~1"],
        ["tag", "here"],
        ["why", "HEAD"],
    ],
    ids=" ".join,
)
def test_every_command_that_opens_head_says_where_to_go_on(
    mvcs: Console, gone: str, words: list[str]
) -> None:
    said = mvcs(*words, code=5).err
    assert f"HEAD is on no branch and stands on {gone[:12]}, which is not in the store" in said
    assert "'mvcs reset main' takes HEAD to the commit of 'main' and leaves files alone" in said
    assert "'mvcs switch -f main' continues there with its files" in said
    assert "fsck" not in said
    assert "two dashes" not in said


def test_so_do_checks_repairs_and_collections(mvcs: Console, gone: str) -> None:
    for words in (["fsck"], ["repair"], ["gc"], ["gc", "--execute"]):
        said = mvcs(*words, code=5)
        assert f"stands on {gone[:12]}" in said.out + said.err
        assert "'mvcs reset main'" in said.out + said.err
    mvcs("stats")


def test_so_does_the_library(mvcs: Console, gone: str) -> None:
    with Repository.open(mvcs.folder) as repo:
        for act in (repo.head, repo.status, lambda: list(repo.log()), lambda: repo.resolve("HEAD")):
            with pytest.raises(NotFoundError, match=f"stands on {gone[:12]}") as caught:
                act()
            assert "mvcs reset main" in (caught.value.hint or "")


def test_both_ways_lead_on(mvcs: Console, gone: str) -> None:
    """The first keeps what lies in the folder, which may be the last of the lost commit."""
    assert gone
    before = (mvcs.folder / FILE).read_bytes()
    mvcs("reset", "main")
    assert (mvcs.folder / FILE).read_bytes() == before
    mvcs("switch", "-c", "again")
    mvcs("commit", FILE, "-m", "what was there")
    assert mvcs("fsck").code == 0


def test_the_other_way_takes_the_files_of_the_branch(mvcs: Console, gone: str) -> None:
    assert gone
    before = (mvcs.folder / FILE).read_bytes()
    mvcs("switch", "-f", "main")
    assert (mvcs.folder / FILE).read_bytes() != before
    mvcs("status")


def test_where_no_branch_can_be_read_the_log_of_head_is_named(mvcs: Console, gone: str) -> None:
    assert gone
    for path in Path(mvcs.folder / ".mvcs/refs/heads").glob("*/*"):
        path.write_bytes(b"")
    said = mvcs("status", code=5).err
    assert "'mvcs reflog HEAD' shows where it was before" in said
    assert "reset" not in said
    mvcs("reflog", "HEAD")
