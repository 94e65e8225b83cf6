"""Training runs come out the same, bit for bit, however often they are interrupted."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from mvcs.bench.runs.run_maker import make_run
from mvcs.bench.runs.tasks import Constant, Cosine
from mvcs.errors import ConflictError, FileFormatError, NotFoundError, UsageError
from mvcs.progress import SILENT
from tests.bench.runs import (
    TASKS,
    Stop,
    StopAfter,
    contents,
    idx,
    tiny_cnn,
    tiny_gpt,
    tiny_mixer,
    write_pictures,
)


@pytest.fixture(params=TASKS)
def task(request, tmp_path):
    return TASKS[request.param](tmp_path / "data")


def train(task, folder, *, steps=6, every=2, seed=0, progress=SILENT):
    return make_run(task, folder, steps=steps, every=every, seed=seed, progress=progress)


def test_checkpoints_hold_model_optimizer_step_and_metrics(task, tmp_path):
    report = train(task, tmp_path / "run")
    names = [f"step_{step:06d}.pt" for step in (0, 2, 4, 6)]
    assert [one.file for one in report.checkpoints] == names == list(contents(tmp_path / "run"))
    state = torch.load(tmp_path / "run" / names[-1], weights_only=True)
    assert state["step"] == 6
    assert state["metrics"] == report.checkpoints[-1].metrics
    assert np.isfinite(state["metrics"]["val_loss"])
    task.learner(task.model()).load_state_dict(state)


def test_an_interrupted_run_goes_on_bit_for_bit(task, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(task, whole)
    with pytest.raises(Stop):
        train(task, parts, progress=StopAfter(3))
    (parts / "step_000004.part").write_bytes(b"half of a checkpoint")
    report = train(task, parts)
    assert report.resumed == 2
    assert [one.step for one in report.checkpoints] == [4, 6]
    assert contents(parts) == contents(whole)
    again = train(task, parts)
    assert (again.resumed, again.checkpoints) == (6, []), "a finished run is left alone"
    assert contents(parts) == contents(whole)


def test_the_seed_decides(task, tmp_path):
    train(task, tmp_path / "one", steps=2)
    train(task, tmp_path / "two", steps=2, seed=1)
    shutil.rmtree(tmp_path / "data")
    assert contents(tmp_path / "one") != contents(tmp_path / "two")


def test_the_callers_torch_is_as_before(task, tmp_path):
    before = torch.get_rng_state()
    train(task, tmp_path / "run", steps=2)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("changed", [{"seed": 1}, {"every": 3}, {"steps": 8}])
def test_another_run_is_not_continued(tmp_path, changed):
    task = tiny_gpt(tmp_path / "data")
    train(task, tmp_path / "run")
    with pytest.raises(ConflictError, match="belongs to another run"):
        train(task, tmp_path / "run", **changed)


def test_a_damaged_checkpoint_is_named(tmp_path):
    task = tiny_gpt(tmp_path / "data")
    train(task, tmp_path / "run", steps=2)
    last = tmp_path / "run" / "step_000002.pt"
    last.write_bytes(last.read_bytes()[:1000])
    with pytest.raises(FileFormatError, match="step_000002"):
        train(task, tmp_path / "run", steps=2)


def test_the_last_step_is_a_checkpoint(tmp_path):
    with pytest.raises(UsageError, match="do not end at step 5"):
        train(tiny_gpt(tmp_path / "data"), tmp_path / "run", steps=5)


def test_the_learning_rate_rises_and_falls():
    schedule = Cosine(peak=1.0, floor=0.1, warm=10)
    rates = [schedule.rate(step, 110) for step in range(111)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[10] == 1.0
    assert rates[60] == pytest.approx(0.55)
    assert rates[110] == pytest.approx(0.1)


def test_a_constant_rate_rises_and_stays():
    schedule = Constant(peak=1.0, warm=10)
    rates = [schedule.rate(step, 100) for step in range(100)]
    assert rates[:9] == pytest.approx(np.arange(0.1, 0.95, 0.1))
    assert set(rates[9:]) == {1.0}


def test_pictures_that_are_not_there_are_asked_for(tmp_path):
    with pytest.raises(NotFoundError, match="train-images") as caught:
        tiny_cnn_without(tmp_path, "train-images-idx3-ubyte.gz")
    assert "dataset-fashion-mnist" in caught.value.hint


def tiny_cnn_without(folder, name):
    from mvcs.bench.data.images import fashion_mnist

    write_pictures(folder)
    (folder / name).unlink()
    return fashion_mnist(folder)


@pytest.mark.parametrize("content", [b"", b"\0\0\x08\x01", idx(np.zeros(40, np.uint8))[:-1], b"\x1f\x8b"])
def test_files_that_are_no_pictures_are_refused(tmp_path, content):
    from mvcs.bench.data.images import fashion_mnist

    write_pictures(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(content)
    with pytest.raises(FileFormatError, match="train-labels"):
        fashion_mnist(tmp_path)


def test_averaged_weights_follow_the_weights(tmp_path):
    train(tiny_mixer(tmp_path / "data"), tmp_path / "run", steps=4)
    states = [torch.load(tmp_path / "run" / f"step_00000{step}.pt", weights_only=True) for step in (0, 2, 4)]
    assert [int(state["ema"]["n_averaged"]) for state in states] == [0, 2, 4]
    before, average, after = (
        states[0]["model"]["head.weight"],
        states[2]["ema"]["module.head.weight"],
        states[2]["model"]["head.weight"],
    )
    assert 0 < (average - before).norm() < (after - before).norm()


def trained_states(name, folder):
    """Return the first and the last checkpoint of a run."""
    train(TASKS[name](folder / "data"), folder / "run")
    return [torch.load(folder / "run" / f"step_00000{step}.pt", weights_only=True) for step in (0, 6)]


def moved(states):
    """Return the names of weights that training has changed."""
    first, last = (state["model"] for state in states)
    return {name for name in first if not torch.equal(first[name], last[name])}


@pytest.mark.parametrize("name", ["finetune", "lora"])
def test_a_run_goes_on_from_the_last_checkpoint_of_another(name, tmp_path):
    first, _ = trained_states(name, tmp_path)
    base = torch.load(tmp_path / "data" / "base" / "step_000002.pt", weights_only=True)["model"]
    begun = {key.replace("base_layer.", ""): tensor for key, tensor in first["model"].items()}
    assert all(torch.equal(begun[key], base[key]) for key in base)


def test_adapters_alone_learn(tmp_path):
    states = trained_states("lora", tmp_path)
    learned = moved(states)
    assert learned == {name for name in states[0]["model"] if "lora_" in name}
    assert len(states[1]["optimizer"]["state"]) == len(learned) == 2 * 4 * 2


def test_another_base_is_another_run(tmp_path):
    task = TASKS["finetune"](tmp_path / "data")
    train(task, tmp_path / "run", steps=2)
    make_run(tiny_gpt(tmp_path / "data"), tmp_path / "other", steps=1, every=1, seed=2, progress=SILENT)
    with pytest.raises(ConflictError, match="belongs to another run"):
        train(replace(task, base=tmp_path / "other"), tmp_path / "run", steps=2)


def test_a_base_that_is_none_is_refused(tmp_path):
    task = replace(TASKS["finetune"](tmp_path / "data"), base=tmp_path / "nowhere")
    with pytest.raises(NotFoundError, match="no checkpoint of a run") as caught:
        task.model()
    assert "mvcs bench make gpt" in caught.value.hint
    base = tmp_path / "data" / "base"
    (base / "step_000002.pt").unlink()
    with pytest.raises(ConflictError, match="stands at step 1 of 2"):
        replace(task, base=base).model()
    train(tiny_cnn(tmp_path / "pictures"), tmp_path / "cnn", steps=1, every=1)
    with pytest.raises(FileFormatError, match="not one of gpt"):
        replace(task, base=tmp_path / "cnn").model()
    torch.save({"model": {}}, tmp_path / "cnn" / "step_000009.pt")
    with pytest.raises(FileFormatError, match="step_000009"):
        replace(task, base=tmp_path / "cnn").model()


def test_bfloat16_weights_are_rounded_masters(tmp_path):
    _, last = trained_states("bf16", tmp_path)
    assert {tensor.dtype for tensor in last["model"].values()} == {torch.bfloat16}
    assert {tensor.dtype for tensor in last["masters"].values()} == {torch.float32}
    assert all(torch.equal(last["masters"][name].bfloat16(), last["model"][name]) for name in last["model"])
    assert any((last["masters"][name] != last["model"][name]).any() for name in last["model"])


def test_nothing_but_bfloat16_is_kept_without_masters(tmp_path):
    states = trained_states("bf16-pure", tmp_path)
    found = [states[1]["model"], *states[1]["optimizer"]["state"].values()]
    assert {one.dtype for part in found for one in part.values() if one.dim()} == {torch.bfloat16}
    assert "masters" not in states[1]
    assert moved(states)


def test_two_optimizers_share_the_weights(tmp_path):
    states = trained_states("muon", tmp_path)
    held = [states[1][name]["state"] for name in ("optimizer", "adamw")]
    assert {tuple(one) for one in held[0].values()} == {("momentum_buffer",)}
    assert len(held[0]) == 2 * 4
    assert len(held[0]) + len(held[1]) == len(states[0]["model"]) == len(moved(states))
