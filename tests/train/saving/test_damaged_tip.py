"""A run whose newest commit is damaged hears in one error which is whole, and how it goes on from that."""

import shutil
import traceback
from pathlib import Path

import pytest

from mvcs.errors import CorruptionError
from mvcs.repository import Repository
from mvcs.train import Checkpointer
from mvcs.train.saving import resumption
from tests.repository.states import own_packs
from tests.train.runs import Run, steps_of, train


def made(folder: Path, steps: int) -> None:
    run = Run()
    with Repository.init(folder) as repo, Checkpointer(repo, *run.parts, **run.options, every=1) as saving:
        train(saving, run, range(steps))


def break_values(folder: Path, rev: str, apart_from: str | None = None) -> None:
    """Blank the largest entry of the packs that a commit needs, but for those that another one needs."""
    with Repository.open(folder) as repo:
        wanted = needed_by(repo, rev) - (needed_by(repo, apart_from) if apart_from else set())
        catalog = repo._session.store.catalog
        entries = [
            (entry.length, entry.offset, name) for name in wanted for entry in catalog.attach(name).entries
        ]
    length, offset, name = max(entries)
    path = next(folder.rglob(f"{name}.pack"))
    data, middle = path.read_bytes(), offset + length // 2
    path.write_bytes(data[:middle] + bytes(40) + data[middle + 40 :])


def needed_by(repo: Repository, rev: str) -> set[str]:
    session = repo._session
    return set(session.store.manifests.placement(session.resolver.resolve(rev).id).packs)


def hint_of(folder: Path) -> str:
    """What a run hears that cannot go on."""
    run = Run()
    with Repository.open(folder) as repo, Checkpointer(repo, *run.parts, **run.options, every=1) as saving:
        with pytest.raises(CorruptionError) as raised:
            saving.resume()
        return raised.value.hint or ""


def test_one_error_names_the_newest_whole_state_and_how_to_go_on(tmp_path: Path) -> None:
    made(tmp_path, 4)
    break_values(tmp_path, "HEAD", apart_from="HEAD~1")
    run = Run()
    with Repository.open(tmp_path) as repo:
        assert not repo.is_whole()
        whole = next(info for info in repo.log("HEAD~1") if repo.is_whole(info.id))
        with Checkpointer(repo, *run.parts, **run.options, every=1) as saving:
            with pytest.raises(
                CorruptionError, match=r"the run cannot continue from commit .*is damaged"
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
        path = next(tmp_path.rglob(f"{own_packs(repo, 'HEAD')[-1]}.pack"))
    data = path.read_bytes()
    path.unlink()
    if fault == "damaged":
        path.write_bytes(data[:-60] + bytes(60))
    run = Run()
    with Repository.open(tmp_path) as repo, Checkpointer(repo, *run.parts, **run.options, every=1) as saving:
        with pytest.raises(CorruptionError, match="the run cannot continue from commit") as raised:
            saving.resume()
        assert f"step 1, commit {before.short}, is the newest before it" in (raised.value.hint or "")
        assert "direct cause" not in "".join(traceback.format_exception(raised.value))


def test_where_nothing_before_is_whole_that_is_said(tmp_path: Path) -> None:
    made(tmp_path, 1)
    break_values(tmp_path, "HEAD")
    assert "no other state of a run is before it" in hint_of(tmp_path)


def test_states_whose_data_were_dropped_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, 4)
    with Repository.open(tmp_path) as repo:
        repo.pin("HEAD~3")
        repo.set_retention(last=1, force=True)
        repo.apply_retention(force=True)
        repo.gc(execute=True, grace_days=0, wait_days=0)
        first = repo.resolve("HEAD~3")
    break_values(tmp_path, "HEAD", apart_from=first.id)
    monkeypatch.setattr(resumption, "TRIED", 1)
    assert f"step 0, commit {first.short}, is the newest before it that is whole" in hint_of(tmp_path)


def test_a_branch_whose_records_are_gone_does_not_begin_anew(tmp_path: Path) -> None:
    made(tmp_path, 2)
    shutil.rmtree(tmp_path / ".mvcs/refs/heads/main")
    assert "copy 'refs/heads/main/" in hint_of(tmp_path)
