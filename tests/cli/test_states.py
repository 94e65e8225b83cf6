"""A repository whose commits hold states, as the training hook makes them: there are no files to speak of."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from mvcs import Checkpointer
from mvcs.errors import ConflictError
from mvcs.repository import Repository
from tests.cli.conftest import Console


def train(folder, steps, run=None, **bounding):
    """Train on with the hook for some steps; every second one is committed."""
    with Repository.open(folder) as repo:
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 4)
        optimizer = torch.optim.AdamW(model.parameters())
        with Checkpointer(
            repo, model, optimizer, loader=None, every=2, rng=False, **bounding
        ) as checkpointer:
            start = checkpointer.resume(run)
            for step in range(start, start + steps):
                optimizer.zero_grad()
                model(torch.ones(8)).square().sum().backward()
                optimizer.step()
                checkpointer.after_step(step, metrics={"loss": 9.0 - step})
    return start


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    Repository.init(folder).close()
    train(folder, 6)
    return folder


@pytest.fixture
def hook(console, trained):
    """A repository with three commits of a training hook, of the steps 1, 3 and 5."""
    shutil.copytree(trained, console.folder, dirs_exist_ok=True)
    return console


def test_conflict_branches_are_told_of_with_what_can_be_done(hook):
    """What the line says to do is done: both ways to go on with one, and the way to drop it."""
    assert "conflict" not in hook("status").out
    assert hook.json("status")["conflicts"] == []
    steps = {}
    with Repository.open(hook.folder) as repo:
        for step in range(10, 14):
            state = repo.checkout("main~1", exact=True) | {"step": step}
            with pytest.raises(ConflictError) as caught:
                repo.commit(state, step=step, branch="main", continues="main~1")
            steps[caught.value.branch] = step
    names = sorted(steps)
    assert hook.json("status")["conflicts"] == names
    [line] = [line for line in hook("status").out.splitlines() if "conflict" in line]
    shown = f"4 conflict branches: {', '.join(names[:3])} and 1 more"
    todo = "'mvcs switch NAME' or resume(run='NAME') continues there, 'mvcs branch -D NAME' drops it"
    assert line == f"{shown} ({todo})"
    for name in names[1:]:
        hook("branch", "-D", name)
    assert hook("status").out.splitlines()[1].startswith(f"1 conflict branch: {names[0]} ('mvcs")
    assert train(hook.folder, 0, run=names[0]) == steps[names[0]] + 1
    hook("switch", names[0])
    assert hook.json("status")["conflicts"] == []  # of this one there are none
    assert train(hook.folder, 0) == steps[names[0]] + 1
    hook("switch", "main")
    hook("branch", "-d", names[0], code=4)


def test_a_part_is_shown(hook):
    text = hook("show", "HEAD:model").out
    assert "model  part, 144 B" in text
    assert "model.weight" in text
    assert "optimizer" not in text
    found = hook.json("show", "HEAD:optimizer")
    assert (found["format"], found["files"]) == ("part", [])
    assert {tensor["role"] for tensor in found["tensors"]} == {"moment", "other"}
    assert "optimizer.param_groups.0.lr" in found["values"]
    assert hook("show", "HEAD:step").out.endswith("step: 5\n")


def test_a_part_is_written_as_a_model_is_loaded(hook):
    hook("checkout", "HEAD:model", "-o", "model.safetensors")
    assert {name: found.shape for name, found in load_file(hook.folder / "model.safetensors").items()} == {
        "weight": (4, 8),
        "bias": (4,),
    }
    with Repository.open(hook.folder) as repo:
        torch.nn.Linear(8, 4).load_state_dict(repo.checkout("HEAD:model"))
        assert repo.checkout("HEAD:step") == 5


@pytest.fixture
def wrapped(console):
    """A commit of a model within a model, as DDP and torch.compile wrap them."""
    torch.manual_seed(0)
    inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    outer = torch.nn.ModuleDict({"module": torch.nn.ModuleDict({"_orig_mod": inner})})
    with Repository.init(console.folder) as repo:
        repo.commit({"model": outer.state_dict(), "step": 3})
    return console, inner


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "pt"])
@pytest.mark.parametrize(
    ("rev", "prefix"), [("HEAD:model", "module._orig_mod."), ("HEAD", "model.module._orig_mod.")]
)
def test_a_prefix_is_taken_off_the_names_of_tensors(wrapped, rev, prefix, suffix):
    console, inner = wrapped
    target = console.folder / f"m.{suffix}"
    result = console("checkout", rev, "-o", str(target), "--strip-prefix", prefix)
    assert "note:" not in result.err
    loaders = {"safetensors": load_file, "npz": np.load, "pt": torch.load}
    state = {name: torch.as_tensor(value) for name, value in loaders[suffix](target).items()}
    inner.load_state_dict(state, strict=True)


def test_a_prefix_that_no_tensor_has_or_that_has_no_file_is_refused(wrapped):
    console, _ = wrapped
    result = console("checkout", "HEAD:model", "-o", "m.pt", "--strip-prefix", "ddp.", code=3)
    assert "no tensor begins with 'ddp.'" in result.err
    assert "--strip-prefix needs -o" in console("checkout", "HEAD", "--strip-prefix", "a", code=2).err


def test_the_versions_of_modules_are_no_news(wrapped):
    console, _ = wrapped
    assert "note:" not in console("checkout", "HEAD:model", "-o", "m.safetensors").err
    assert console.json("checkout", "HEAD:model", "-o", "m.safetensors")["left_out"] == ["_metadata"]
    assert "1 value, step" in console("checkout", "HEAD", "-o", "s.safetensors").err


def test_a_value_alone_is_left_out_by_its_name(hook):
    assert "the value itself" in hook("checkout", "HEAD:step", "-o", "step.npz").err


@pytest.mark.parametrize(
    "words",
    [
        ("restore", "model"),
        ("checkout", "HEAD", "model"),
        ("checkout", "HEAD:model"),
        ("rm", "model", "-m", "x"),
        ("mv", "model", "x", "-m", "x"),
    ],
)
def test_a_part_is_no_file(hook, words):
    result = hook(*words, code=3)
    assert "'model' is a part of the state" in result.err
    assert ":model -o model.safetensors' writes that part to a file" in result.err
    hint = result.err.rpartition("'mvcs ")[2].partition("'")[0]
    hook(*hint.split())
    assert (hook.folder / "model.safetensors").exists()


@pytest.mark.parametrize("words", [("restore", "."), ("show", "HEAD:x.pt"), ("rm", "x", "-m", "x")])
def test_a_file_that_a_state_lacks(hook, words):
    result = hook(*words, code=3)
    assert "holds a state, committed from Python, and no file" in result.err
    assert "its parts are model, optimizer" in result.err
    assert ":model -o model.safetensors' writes its model to a file" in result.err


def test_a_state_without_a_model(mvcs):
    with Repository.open(mvcs.folder) as repo:
        repo.commit({"w": np.ones(4), "b": np.ones(4)})
    hint = mvcs("restore", "x", code=3).err.rpartition("'mvcs ")[2].partition("'")[0]
    mvcs(*hint.split())
    assert set(load_file(mvcs.folder / "state.safetensors")) == {"w", "b"}


def test_a_difference_of_a_part(hook):
    found = hook.json("diff", "HEAD~1", "HEAD", "model")
    assert {tensor["path"] for tensor in found["tensors"]} == {"model.weight", "model.bias"}
    assert [part["path"] for part in hook.json("diff", "--stat", "HEAD~1", "HEAD", "step")] == ["step"]
    assert len(hook.json("log", "step")) == 3
    assert len(hook.json("log", "scheduler")) == 1


def test_a_state_is_not_compared_with_the_folder(hook):
    for words in ((), ("HEAD",), ("main",), ("--stat",)):
        result = hook("diff", *words, code=2)
        assert "HEAD holds a state, committed from Python, and no files" in result.err
        assert "'mvcs diff HEAD~1 HEAD'" in result.err
    assert "'mvcs diff HEAD~1 HEAD'" in hook("diff", "--json", code=2).error["hint"]


def test_one_commit_is_compared_with_the_newest_state(hook):
    assert hook("diff", "HEAD~1").out == hook("diff", "HEAD~1", "HEAD").out
    assert hook.json("diff", "HEAD~2", "--stat") == hook.json("diff", "HEAD~2", "HEAD", "--stat")
    assert hook.json("diff", "HEAD~1")["right"]["step"] == 5


def test_the_first_state_has_nothing_before_it(mvcs):
    with Repository.open(mvcs.folder) as repo:
        repo.commit({"w": np.ones(4)})
    assert "'mvcs show' tells of it" in mvcs("diff", code=2).err


def test_files_are_compared_also_where_the_last_commit_has_none(mvcs):
    mvcs.commit("a state")
    mvcs("rm", "--cached", "model.safetensors", "-m", "none")
    assert "no difference" in mvcs("diff").out
    assert [change["state"] for change in mvcs.json("diff", "HEAD~1", "--stat")] == ["removed"]


def test_a_commit_without_a_file_says_what_head_holds(hook):
    for words in (("-m", "x"), ("--amend", "--step-size", 0.5)):
        result = hook("commit", *words, code=2)
        assert "no file is named, and HEAD holds no files but a state, committed from Python" in result.err
        assert "repo.commit(state)" in result.err


@pytest.mark.parametrize(
    "words",
    [
        ("switch", "-c", "other"),
        ("checkout", "best:loss"),
        ("checkout", "HEAD~1"),
        ("checkout", "-b", "other", "HEAD~1"),
        ("reset", "HEAD~1"),
        ("reset", "--hard", "HEAD~1"),
        ("reset", "--hard"),
    ],
)
def test_where_head_is_and_that_no_file_was_written(hook, words):
    text = hook(*words).out
    assert "  it holds a state, and no files: resume() continues from it" in text
    assert "'mvcs checkout HEAD:model -o model.safetensors' writes its model to a file" in text
    assert "files were left" not in text
    assert [path.name for path in hook.folder.iterdir()] == [".mvcs"]
    hook("checkout", "main")
    assert hook.json("checkout", "HEAD")["parts"][:2] == ["model", "optimizer"]
    assert hook.json("reset")["parts"][:2] == ["model", "optimizer"]
    assert hook.json("switch", "main")["parts"][:2] == ["model", "optimizer"]


def test_resume_continues_from_where_head_is(hook):
    hook("reset", "--hard", "HEAD~1")
    assert train(hook.folder, 2) == 4


def test_a_clone_says_that_no_file_was_written(hook, elsewhere):
    text = elsewhere("clone", hook.folder).out
    assert "it holds a state, and no files: resume() continues from it" in text
    assert elsewhere.json("clone", hook.folder, "again")["parts"][:2] == ["model", "optimizer"]


def test_a_state_by_hand_says_nothing_of_resume(mvcs):
    with Repository.open(mvcs.folder) as repo:
        repo.commit({"w": np.ones(4)})
    text = mvcs("switch", "-c", "other").out
    assert "it holds a state, and no files\n" in text
    assert "resume" not in text
    mvcs.commit("a file")
    assert mvcs.json("checkout", "HEAD")["parts"] is None
    assert "state" not in mvcs("checkout", "HEAD").out.splitlines()[2]
    assert mvcs.json("status")["parts"] is None


def test_status_and_listing_say_what_there_is_instead_of_files(hook):
    assert "The commit holds a state, committed from Python, and no files to compare" in hook("status").out
    assert hook.json("status")["parts"][:2] == ["model", "optimizer"]
    result = hook("ls-files")
    assert result.out == ""
    assert "HEAD holds a state, and no files; its parts are model, optimizer" in result.err
    assert hook.json("ls-files") == []


@pytest.mark.parametrize(
    "words", [("show", "main", "--json"), ("show", "main:a"), ("diff", "main~1", "main")]
)
def test_an_integer_of_thousands_of_digits_is_shown(tmp_path, words):
    with Repository.init(tmp_path) as repo:
        repo.commit({"a": {"b": 1}})
        repo.commit({"a": {"b": 1 << 20_000}})
    assert "0x1000" in Console(tmp_path)(*words).out


def test_parts_are_counted_as_parts(hook):
    assert " 3 parts differ" in hook("log", "--stat", "-1").out
    assert {part["kind"] for part in hook.json("log", "--stat", "-1")[0]["stat"]} == {"part"}
    hook.commit("files instead")
    assert hook("diff", "--stat", "HEAD~1", "HEAD").out.endswith(" 9 parts and 1 file differ\n")
    found = {change["path"]: change["kind"] for change in hook.json("log", "--stat", "-1")[0]["stat"]}
    assert (found["model"], found["model.safetensors"]) == ("part", "file")


@pytest.fixture
def dropped(mvcs):
    """A repository whose first commit has quantized values alone."""
    mvcs("config", "retention.exact_layers", 1)
    for step in range(2):
        mvcs.commit(f"step {step}", "--step", step, "--step-size", 0.5, shift=step)
    return mvcs


def test_a_name_for_quantized_values_says_so(dropped):
    for words in (("tag", "v1"), ("branch", "side")):
        result = dropped(*words, "HEAD~1")
        assert f"is not stored here: '{words[1]}' names its quantized values" in result.err
        assert dropped(words[0], f"{words[1]}-kept").err == ""
    told = dropped("tag", "v2", "HEAD~1", "--json").err
    assert "names its quantized values" in told
    for words in (("checkout", "v1"), ("switch", "side")):
        dropped("switch", "main")
        assert "its exact layer is not stored here" in dropped(*words).out


def test_a_name_for_a_quantized_state_says_so(mvcs):
    mvcs("config", "retention.exact_layers", 1)
    train(mvcs.folder, 4, step_size=0.5)
    assert "names its quantized values" in mvcs("tag", "v1", "HEAD~1").err
    text = mvcs("checkout", "v1").out
    assert "as quantized values; its exact layer is not stored here" in text
    assert "These are" not in text
    assert "as quantized values; --exact writes exact ones" in mvcs("switch", "main").out


def test_the_reflog_names_the_step_of_a_commit_without_a_message(hook):
    actions = [entry["action"] for entry in hook.json("reflog")]
    assert actions[0].startswith("commit: step ")


def test_what_stands_deeper_in_a_state_is_a_part_too(mvcs):
    averaged = {"weight": torch.ones(4, 3), "bias": torch.zeros(4)}
    state = {
        "model": {"weight": torch.zeros(4, 3)},
        "extra": {"ema": averaged, "a.b": {"c": torch.ones(2)}, "n": 3},
    }
    with Repository.open(mvcs.folder) as repo:
        repo.commit(state, step=1, metrics={"loss": 1.0})
        repo.create_branch("best")
        assert torch.equal(repo.checkout("HEAD:extra.ema")["weight"], averaged["weight"])
    for rev in ("HEAD", "best", "best:loss"):
        if rev == "best:loss":
            mvcs("branch", "-D", "best")
        mvcs("checkout", f"{rev}:extra.ema", "-o", "ema.safetensors", "--force")
        assert load_file(mvcs.folder / "ema.safetensors").keys() == averaged.keys()
    mvcs("checkout", "best:loss:extra.a.b", "-o", "ab.pt")
    assert torch.equal(torch.load(mvcs.folder / "ab.pt")["c"], torch.ones(2))
    shown = mvcs.json("show", "best:loss:extra")
    assert [tensor["path"] for tensor in shown["tensors"]] == [
        "extra.ema.weight",
        "extra.ema.bias",
        "extra.a.b.c",
    ]
    assert shown["values"] == {"extra.n": 3}
    assert "extra.ema.weight" in mvcs("show", "HEAD:extra.ema").out
    error = mvcs("checkout", "best:loss:extra.nothing", "-o", "x.pt", "--json", code=3).error
    assert "extra.nothing" in error["message"]
    assert (
        "--tensor" in mvcs("checkout", "HEAD:extra.ema.weight", "-o", "x.pt", "--json", code=3).error["hint"]
    )
