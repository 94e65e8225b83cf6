"""A commit that would say nothing is not made on the command line, unless that is asked for."""

import json

import pytest

from mvcs.errors import NothingToCommitError
from mvcs.repository import Repository

STEP_5 = ("-m", "again", "--step", 5, "--metric", "loss=2")


def everything(console):
    """All bytes there are, but for what looking at a state remembers of it."""
    paths = [path for path in console.folder.rglob("*") if path.is_file() and path.name != "lineage.json"]
    return {path: path.read_bytes() for path in paths}


@pytest.mark.parametrize("bounded", [(), ("--step-size", 0.5)])
def test_a_commit_of_what_is_committed_is_refused_and_leaves_nothing(mvcs, bounded):
    mvcs.commit("first", "--step", 5, "--metric", "loss=2", *bounded)
    mvcs("status")
    before = everything(mvcs)
    for words in (STEP_5, ("-m", "again"), ("model.safetensors", "-m", "again")):
        result = mvcs("commit", *words, *bounded, code=1)
        assert result.raw == b""
        assert "nothing to commit" in result.err
        assert "--allow-empty" in result.err
        assert everything(mvcs) == before
    assert mvcs("commit", *STEP_5, *bounded, "--json", code=1).error["kind"] == "nothing_to_commit"
    mvcs("commit", *STEP_5, *bounded, "--allow-empty")
    assert len(mvcs.json("log")) == 2


@pytest.mark.parametrize(
    "words",
    [
        ("--step", 6),
        ("--metric", "loss=1"),
        ("--metric", "loss=nan"),
        ("--metric", "score=2"),
        ("--step-size", 0.5),
    ],
)
def test_a_new_step_metric_or_rounding_is_something(mvcs, words):
    mvcs.commit("first", "--step", 5, "--metric", "loss=2")
    mvcs("commit", "-m", "again", *words)


def test_new_content_in_a_file_or_without_one_is_something(mvcs):
    mvcs.commit("first")
    mvcs.commit("second", shift=0.5)
    mvcs.model("other.safetensors", seed=2)
    mvcs("commit", "other.safetensors", "-m", "third")
    mvcs("commit", "other.safetensors", "--only", "-m", "fourth")
    assert "nothing to commit" in mvcs("commit", "--only", "other.safetensors", "-m", "fifth", code=1).err


def test_what_a_bounded_commit_restored_is_nothing_new_until_it_is_changed(mvcs):
    for shift in (0, 0.5):
        mvcs.commit("first", "--step-size", 0.5, shift=shift)
    mvcs("checkout", "main~1", "--force")
    mvcs("switch", "main")
    for words in ((), ("--step-size", 0.5), ("model.safetensors",)):
        assert "nothing to commit" in mvcs("commit", "-m", "restored", *words, code=1).err
    (mvcs.folder / "model.safetensors").touch()
    mvcs("commit", "-m", "restored", code=1)
    mvcs("commit", "-m", "coarser", "--step-size", 1)
    mvcs.commit("changed", shift=0.25)


def test_the_python_call_refuses_only_when_it_is_told_to(mvcs):
    path = mvcs.model()
    mvcs.commit("first")
    with Repository.open(mvcs.folder) as repo:
        repo.commit_files([path], message="")
        with pytest.raises(NothingToCommitError):
            repo.commit_files([path], message="", allow_empty=False)
        repo.commit({"a": 1.0})
        repo.commit({"a": 1.0})


def test_an_empty_message_has_to_be_asked_for(mvcs):
    mvcs.commit("first")
    mvcs.model(shift=0.5)
    for message in ("", " \n"):
        result = mvcs("commit", "-m", message, code=2)
        assert "the message is empty" in result.err
        assert "--allow-empty-message" in result.err
    mvcs("commit", "-m", "", "--allow-empty-message")
    for words in (
        ("commit", "--amend"),
        ("mv", "model.safetensors", "x.safetensors"),
        ("rm", "model.safetensors"),
    ):
        assert "the message is empty" in mvcs(*words, "-m", "", code=2).err
    mvcs("mv", "model.safetensors", "x.safetensors", "--allow-empty-message", "-m", "")
    messages = [commit["message"] for commit in mvcs.json("log")]
    assert messages == ["", "", "first"]
    assert json.loads(mvcs("tag", "v1", "-m", "", "--json", code=2).err)["error"]["kind"] == "usage"
