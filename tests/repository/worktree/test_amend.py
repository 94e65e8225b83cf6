"""A commit in the place of the last one: what is not said stays, and the reflog keeps the one before."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mvcs import Repository
from mvcs.errors import ConflictError, NotFoundError
from mvcs.repository.amending import Amendment
from tests.repository.states import write_model

WEIGHTS = {"model": {"w": np.random.default_rng(0).normal(size=(96, 64)).astype(np.float32)}, "step": 7}


@pytest.fixture
def repo(tmp_path: Path) -> Any:
    """Two commits of two files; the second has a step and a metric, and is bounded."""
    with Repository.init(tmp_path / "run") as repository:
        top = repository.top
        for number, name in enumerate(("a", "b")):
            write_model(top / f"{name}.safetensors", number)
        repository.commit_files([top / "a.safetensors", top / "b.safetensors"], message="one")
        write_model(top / "a.safetensors", 7)
        repository.commit_files(
            [top / "a.safetensors"], message="tow", step=7, metrics={"loss": 2.0}, author="Ada", step_size=0.5
        )
        yield repository


def test_without_files_only_the_words_change(repo: Repository) -> None:
    old, before = repo.head(), repo.show()
    repo.note("HEAD", {"score": 3.0})
    info = repo.amend(message="two", metrics={"loss": 1.5})
    assert (info.message, info.step, info.author) == ("two", 7, "Ada")
    assert (info.metrics, info.parents) == ({"loss": 1.5, "score": 3.0}, old.parents)
    assert (info.errors, info.worst, info.exact_layer) == (old.errors, old.worst, "kept")
    assert [item.value_id for item in repo.show().tensors] == [item.value_id for item in before.tensors]
    assert repo.show().quantizer == before.quantizer
    assert [entry.state for entry in repo.status().entries] == ["unmodified", "unmodified"]
    assert ([info.message for info in repo.log()], info.kept) == (["two", "one"], [])
    assert [entry.action for entry in repo.reflog()][:2] == ["commit (amend): two", "commit: tow"]
    assert repo.resolve("main@{1}").id == old.id
    assert repo.fsck().ok


def test_files_that_are_named_are_recorded_anew(repo: Repository) -> None:
    data = write_model(repo.top / "b.safetensors", 9)
    info = repo.amend([repo.top / "b.safetensors"])
    assert (info.message, info.step, info.kept) == ("tow", 7, ["a.safetensors"])
    (repo.top / "b.safetensors").unlink()
    repo.restore_files([repo.top / "b.safetensors"])
    assert (repo.top / "b.safetensors").read_bytes() == data
    exact = repo.amend(bins=16)
    assert (exact.bounded, exact.parents, len(list(repo.log()))) == (True, info.parents, 2)
    assert repo.fsck().ok


def test_a_state_is_said_anew_in_both_its_layers(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        with pytest.raises(NotFoundError, match="none to amend"):
            repo.amend(message="x")
        old = repo.commit(WEIGHTS, message="tpyo", step_size=0.5, provenance={"gpu": "none"})
        value = repo.checkout(numpy=True)["model"]["w"]
        info = repo.amend(message="typo")
        assert (info.parents, info.bounded, info.errors) == ([], True, old.errors)
        assert repo.show().provenance == repo.show(old.id).provenance
        assert np.array_equal(repo.checkout(numpy=True)["model"]["w"], value)
        assert np.array_equal(repo.checkout(numpy=True, exact=True)["model"]["w"], WEIGHTS["model"]["w"])
        after = repo.commit(WEIGHTS, message="next", step_size=0.5)
        assert (after.parents, len(list(repo.log())), repo.fsck().ok) == ([info.id], 2, True)


def test_what_was_continued_lossily_stays_known(repo: Repository) -> None:
    tip, path = repo.head().id, repo.top / "a.safetensors"
    path.unlink()
    repo.restore_files([path])
    lossy = repo.commit_files([path], message="continued")
    assert (lossy.lineage_exact, lossy.restored_from) == (False, tip)
    for info in (repo.amend(message="still"), repo.amend([repo.top / "b.safetensors"])):
        assert (info.lineage_exact, info.restored_from) == (False, tip)


def test_it_is_said_where_the_old_one_was_pushed(repo: Repository, tmp_path: Path) -> None:
    repo.add_remote("lab", str(tmp_path / "lab"))
    assert repo.amend(message="alone").notes == []
    repo.push("lab")
    (note,) = repo.amend(message="late").notes
    assert "lab/main" in note
    assert "mvcs push lab --force" in note
    assert repo.amend(message="later").notes == []


def test_who_is_late_keeps_a_branch_of_its_own(repo: Repository) -> None:
    begun = Amendment.of(repo._session, repo._position())
    with Repository.open(repo.top) as other:
        other.amend(message="first")
    with pytest.raises(ConflictError) as caught:
        repo._reworded(begun, begun.asked("second", None, None))
    assert repo.resolve(caught.value.branch).message == "second"  # type: ignore[attr-defined]
    assert [info.message for info in repo.log()] == ["first", "one"]
