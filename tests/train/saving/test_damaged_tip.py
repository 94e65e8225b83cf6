"""A run whose newest commit is damaged hears in one error which is whole, and how it goes on from that."""

import traceback
from pathlib import Path

import pytest

from mvcs.errors import CorruptionError
from mvcs.repository import Repository
from mvcs.train import Checkpointer
from tests.train.runs import Run, steps_of, train


def made(folder: Path, steps: int) -> None:
    run = Run()
    with Repository.init(folder) as repo, Checkpointer(repo, *run.parts, **run.options, every=1) as saving:
        train(saving, run, range(steps))


def break_values(folder: Path, rev: str) -> None:
    """Blank the largest entry of the pack that ends a commit."""
    with Repository.open(folder) as repo:
        name = repo._session.resolver.resolve(rev).written.pack
        entries = repo._session.store.catalog.attach(name).entries
    entry = max(entries, key=lambda each: each.length)
    path = next(folder.rglob(f"{name}.pack"))
    data, middle = path.read_bytes(), entry.offset + entry.length // 2
    path.write_bytes(data[:middle] + bytes(40) + data[middle + 40 :])


def test_one_error_names_the_newest_whole_state_and_how_to_go_on(tmp_path: Path) -> None:
    made(tmp_path, 4)
    break_values(tmp_path, "HEAD")
    run = Run()
    with Repository.open(tmp_path) as repo:
        assert not repo.is_whole()
        whole = next(info for info in repo.log("HEAD~1") if repo.is_whole(info.id))
        with Checkpointer(repo, *run.parts, **run.options, every=1) as saving:
            with pytest.raises(
                CorruptionError, match=r"the run cannot go on from commit .*is damaged"
            ) as raised:
                saving.resume()
            told = "".join(traceback.format_exception(raised.value))
            assert f"step {whole.step}, commit {whole.short}, is the newest before it" in raised.value.hint
            assert "direct cause" not in told
            assert "During handling" not in told
        repo.create_branch("again", whole.short)
        with Checkpointer(repo, *run.parts, **run.options, every=1, branch="again") as saving:
            assert saving.resume() == (whole.step or 0) + 1
            train(saving, run, range((whole.step or 0) + 1, 5))
        assert steps_of(repo, "again")[0] == 4


@pytest.mark.parametrize("fault", ["damaged", "lost"])
def test_so_it_is_where_the_newest_commit_cannot_be_read_at_all(tmp_path: Path, fault: str) -> None:
    made(tmp_path, 3)
    with Repository.open(tmp_path) as repo:
        before = repo.resolve("HEAD~1")
        path = next(tmp_path.rglob(f"{repo._session.resolver.resolve('HEAD').written.pack}.pack"))
    data = path.read_bytes()
    path.unlink()
    if fault == "damaged":
        path.write_bytes(data[:-60] + bytes(60))
    run = Run()
    with Repository.open(tmp_path) as repo, Checkpointer(repo, *run.parts, **run.options, every=1) as saving:
        with pytest.raises(CorruptionError, match="the run cannot go on on branch 'main'") as raised:
            saving.resume()
        assert f"step 1, commit {before.short}, is the newest before it" in (raised.value.hint or "")
        assert "direct cause" not in "".join(traceback.format_exception(raised.value))


def test_where_nothing_before_is_whole_that_is_said(tmp_path: Path) -> None:
    made(tmp_path, 1)
    break_values(tmp_path, "HEAD")
    run = Run()
    with (
        Repository.open(tmp_path) as repo,
        Checkpointer(repo, *run.parts, **run.options, every=1) as saving,
        pytest.raises(CorruptionError) as raised,
    ):
        saving.resume()
    assert "no state of a run among the 16 before it is whole" in (raised.value.hint or "")
