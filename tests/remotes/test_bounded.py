"""Bounded histories travel: second moments, offsets and masters that others refer to by id come along."""

from pathlib import Path

import pytest
import torch

from mvcs import Repository
from mvcs.errors import NotFoundError
from tests.remotes.conftest import Remote
from tests.repository.models import Run, bits, odd

SETTINGS = [
    {"step_size": 0.5},
    {"step_size": 0.5, "moments": "light"},
    {"step_size": 0.5},
    {},
    {"bins": 16},
    {"step_size": 0.25},
]


def commit_all(repo: Repository, run: Run, settings=SETTINGS) -> dict[str, object]:
    """What each commit restores, by id."""
    found = {}
    for number, each in enumerate(settings):
        state = run.step().state()
        # Offsets and derived tensors of a state that comes back later are in the packs of an older commit.
        state |= {"low": {name: value.bfloat16() for name, value in state["model"]["lookup"].items()}}
        state |= {"odd": odd(number % 2)}
        made = repo.commit(state, **each)
        found[made.id] = bits(repo.checkout(made.id))
    return found


@pytest.fixture
def shared(tmp_path: Path, remote: Remote) -> tuple[Repository, dict[str, object]]:
    url, options = remote
    repo = Repository.init(tmp_path / "ada")
    found = commit_all(repo, Run(torch.optim.AdamW))
    repo.add_remote("origin", url, options=options)
    repo.push()
    return repo, found


def restored(repo: Repository) -> dict[str, object]:
    return {commit.id: bits(repo.checkout(commit.id)) for commit in repo.log()}


@pytest.mark.parametrize(
    "remote",
    ["local", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("memory", "s3"))],
    indirect=True,
)
def test_clone_fetch_and_pull_restore_the_same_values(
    shared: tuple[Repository, dict[str, object]], remote: Remote, tmp_path: Path
) -> None:
    ada, found = shared
    url, options = remote
    with ada, Repository.clone(url, tmp_path / "bob", options=options) as bob:
        assert restored(bob) == found
        assert bob.fsck().problems == []
        with pytest.raises(NotFoundError, match="exact layer"):
            bob.checkout("HEAD", exact=True)
        found |= commit_all(ada, Run(torch.optim.AdamW, seed=1), SETTINGS[:2])
        ada.push()
        bob.fetch()
        bob.pull()
        assert restored(bob) == found
        # Without exact layers a clone still stores its own commits near those values.
        again = Run(torch.optim.AdamW).load(bob.checkout()).step()
        made = bob.commit(again.state(), step_size=0.5, restored_from="HEAD")
        assert not made.lineage_exact
        assert bits(bob.checkout(exact=True)) == bits(again.state())
        assert bob.fsck().problems == []
        bob.push()
        ada.pull()
        assert bits(ada.checkout()) == bits(bob.checkout())
        assert ada.fsck().problems == []


@pytest.mark.parametrize("again", ["fetch", "push", "push --exact"])
def test_what_gc_deleted_comes_again_without_its_exact_layer(tmp_path: Path, again: str) -> None:
    """A clone has the values alone of a conflict branch that was deleted and collected here."""
    with Repository.init(tmp_path / "ada") as ada:
        ada.commit({"a": torch.arange(999.0)})
        made = ada.commit({"a": torch.arange(999.0) / 7}, bins=16, branch="main.conflict-12345678")
        with Repository.clone(str(tmp_path / "ada"), tmp_path / "bob") as bob:
            bob.create_branch("keep", "origin/main.conflict-12345678")
            ada.delete_branch("main.conflict-12345678", force=True)
            if again == "fetch":
                ada.add_remote("bob", str(tmp_path / "bob"))
            assert len(ada.gc(grace_days=0, wait_days=0, execute=True).garbage) == 3
            for _ in range(2):
                if again == "fetch":
                    ada.fetch("bob")
                else:
                    bob.push("origin", ["keep"], exact=again != "push")
            assert bits(ada.checkout(made.id)) == bits(bob.checkout(made.id))
            assert ada.fsck().ok
