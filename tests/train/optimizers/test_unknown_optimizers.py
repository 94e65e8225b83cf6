"""An optimizer that is not known keeps its moments, says so once, and can be described."""

import logging
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch

from mvcs import Repository
from mvcs.errors import UsageError
from mvcs.train import Checkpointer
from tests.train.optimizers.nets import committed, compared, net, train
from tests.train.optimizers.own import Own

NAMES = {"exp_avg", "my_v", "buffer", "cache"}
KINDS = {"exp_avg": "first", "my_v": "second", "buffer": "momentum", "cache": "exact"}


def own(model):
    return Own(model.parameters())


def recorded(folder):
    """Return what the newest commit says of its optimizers."""
    with Repository.open(folder) as repo:
        return repo.show("HEAD").provenance["optimizer"]


@pytest.mark.parametrize("moments", ["auto", "resume", "light"])
def test_its_moments_are_kept_and_a_note_says_how_to_describe_it(tmp_path, moments):
    found = committed(tmp_path / "run", own, moments=moments)

    assert (found.rounded, found.kept) == (set(), NAMES)
    [note] = found.commit.notes
    assert "buffer, cache, exp_avg, my_v is not known: its moments are kept exactly" in note
    assert 'moments={"buffer": "momentum", ...}' in note
    assert "first, second, momentum, weight, iterate, exact" in note
    assert recorded(tmp_path / "run") == "unknown (buffer, cache, exp_avg, my_v; kept exactly)"


def test_exact_moments_need_no_note(tmp_path):
    assert committed(tmp_path / "run", own, moments="exact").commit.notes == []


def test_what_is_described_is_rounded(tmp_path):
    found = committed(tmp_path / "run", own, moments=KINDS)

    assert found.tier == ("sign", 2.0)
    assert (found.rounded, found.kept) == ({"exp_avg", "my_v", "buffer"}, {"cache"})
    assert found.commit.notes == []
    assert recorded(tmp_path / "run") == "unknown (buffer, cache, exp_avg, my_v; described)"
    assert found.after[0] == pytest.approx(found.before[0], rel=0.02)


def test_what_is_described_in_part_is_kept_for_the_rest(tmp_path):
    found = committed(tmp_path / "run", own, moments={"buffer": "momentum"})

    assert (found.rounded, found.kept) == ({"buffer"}, NAMES - {"buffer"})
    [note] = found.commit.notes
    assert "cache, exp_avg, my_v is not known" in note


def test_a_described_name_that_no_state_has_is_told_with_those_there_are(tmp_path):
    found = committed(tmp_path / "run", own, moments={**KINDS, "my_w": "second", "step": "exact"})

    assert found.rounded == {"exp_avg", "my_v", "buffer"}
    [note] = found.commit.notes
    assert note == (
        "moments of my_w: no optimizer's state has a tensor of that name; there are"
        " buffer, cache, exp_avg, my_v"
    )


def test_a_run_warns_of_such_a_name_once(tmp_path, caplog):
    model = net()
    optimizer = own(model)
    choices = {"every": 1, "step_size": 0.01, "moments": {**KINDS, "my_w": "second"}, "extra": {"none": 0}}
    with (
        caplog.at_level(logging.WARNING, "mvcs.train"),
        Repository.init(tmp_path / "run") as repo,
        Checkpointer(repo, model, optimizer, **choices) as checkpointer,
    ):
        for step in range(3):
            train(model, optimizer, range(step, step + 1))
            checkpointer.after_step(step)
    [told] = [record.message for record in caplog.records if "my_w" in record.message]
    assert told.startswith(f"commit {repo.resolve('HEAD~2').short}: moments of my_w: no optimizer's state")


def test_a_description_goes_before_what_is_known(tmp_path):
    def adam(model):
        return torch.optim.AdamW(model.parameters())

    found = committed(tmp_path / "run", adam, moments={"exp_avg": "exact"})

    assert (found.rounded, found.kept) == ({"exp_avg_sq"}, {"exp_avg", "step"})


def test_a_run_says_so_once(tmp_path, caplog):
    model = net()
    optimizer = own(model)
    with (
        caplog.at_level(logging.WARNING, "mvcs.train"),
        Repository.init(tmp_path / "run") as repo,
        Checkpointer(repo, model, optimizer, every=1, step_size=0.01, extra={"none": 0}) as checkpointer,
    ):
        for step in range(4):
            train(model, optimizer, range(step, step + 1))
            checkpointer.after_step(step)
        checkpointer.flush()
        summary = checkpointer.summary()
    assert [record.message.count("is not known") for record in caplog.records].count(1) == 1
    assert summary.count("is not known") == 1


def go_on(end: Connection, folder: Path) -> None:
    """Commit one step more, in a process that knows what the repository tells, and say what is noted."""
    model = net()
    optimizer = Own(model.parameters())
    with Repository.open(folder) as repo:
        state = repo.checkout()
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        train(model, optimizer, range(1))
        made = repo.commit(state_of(model, optimizer), step_size=0.01)
        end.send([note for note in made.notes if "not known" in note])


def test_another_process_and_a_clone_go_on_with_the_description(forked, tmp_path):
    model = net()
    optimizer = own(model)
    train(model, optimizer, range(2))
    with Repository.init(tmp_path / "run") as repo:
        repo.commit(state_of(model, optimizer), step_size=0.01, moments=KINDS)
        Repository.clone(str(tmp_path / "run"), tmp_path / "clone").close()
    folder = tmp_path / "clone"
    here, there = forked.Pipe()
    process = forked.Process(target=go_on, args=(there, folder))
    process.start()
    there.close()

    assert here.recv() == []
    process.join()
    with Repository.open(folder) as repo:
        assert repo.show().provenance["moment kinds"] == repo.show("HEAD~1").provenance["moment kinds"]
        rounded, kept = compared(
            repo.checkout(exact=True)["optimizer"]["state"], repo.checkout()["optimizer"]["state"]
        )
        assert (rounded, kept) == ({"exp_avg", "my_v", "buffer"}, {"cache"})
        repo.commit(repo.checkout(), step_size=0.01, moments={"buffer": "momentum"})
        assert repo.show().provenance["moment kinds"] == '{"buffer":"momentum"}'


@pytest.mark.parametrize("kinds", [{"exp_avg": "frist"}, {"exp_avg": 1}, {"exp_avg": None}])
def test_unknown_kinds_are_refused_before_anything_is_stored(tmp_path, kinds):
    model = net()
    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(UsageError, match="the moment 'exp_avg' cannot be") as refused:
            Checkpointer(repo, model, own(model), step_size=0.1, moments=kinds)
        assert "first, second, momentum, weight, iterate, exact" in refused.value.hint
        with pytest.raises(UsageError, match="the moment 'exp_avg' cannot be"):
            repo.commit({"w": torch.ones(3)}, step_size=0.1, moments=kinds)


def state_of(model, optimizer):
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
