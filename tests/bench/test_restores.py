"""A run that is restored from bounded commits goes on, is counted, and is taken up again."""

import argparse
import json
import shutil
from dataclasses import replace

import pytest
import torch

from mvcs.bench.bounded import BoundedTerms
from mvcs.bench.replay import replay_run
from mvcs.bench.runs.run_maker import make_run
from mvcs.bench.runs.tasks import Cosine, Learner
from mvcs.progress import SILENT
from mvcs.repository import Repository
from tests.bench import restores
from tests.bench.runs import Stop, tiny_gpt

AT = [2, 4]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A task, a trained run of four checkpoints, and its bounded history."""
    folder = tmp_path_factory.mktemp("run")
    # Weights that hardly move would all be kept exactly behind a restore.
    task = replace(tiny_gpt(folder / "data"), schedule=Cosine(peak=0.02, floor=1.0, warm=1))
    make_run(task, folder / "run", steps=8, every=2, seed=0, progress=SILENT)
    report = replay_run(task, folder / "run", folder / "out", BoundedTerms(0.05), progress=SILENT)
    return task, folder / "run", report.repository


def ran(run, out, **given):
    task, source, history = run
    options = {
        "source": source,
        "out": out,
        "at": AT,
        "control": None,
        "history": history,
        "moments": "light",
        "hysteresis": 0.5,
        "max_degradation": 0.05,
        "without": [],
    }
    arm = restores.arm(task, argparse.Namespace(**options | given))
    arm.run()
    return json.loads((arm.folder / restores.RESULT).read_text())


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    """The folder and the results of an arm that nobody killed."""
    out = tmp_path_factory.mktemp("whole")
    return out, ran(run, out)


def test_bounded_restores_are_those_of_the_history(whole):
    out, found = whole
    assert [one["step"] for one in found["restores"]] == AT
    assert all(one["before"] != one["after"] for one in found["restores"])
    assert [one["step"] for one in found["commits"]] == [0, 2, 4, 6, 8]
    with Repository.open(out / "2-bounded" / "repository") as repository:
        commits = {commit.step: commit for commit in repository.log()}
    assert commits[2].restored_from is None
    assert commits[4].restored_from == commits[2].id
    assert commits[6].restored_from == commits[4].id
    assert not commits[8].lineage_exact
    assert all(commits[step].exact_bytes == 0 for step in (4, 6, 8))


def test_an_arm_may_leave_a_mechanism_out(run, whole, tmp_path):
    _, all_of_them = whole
    found = ran(run, tmp_path, without=["carried-momentum"])
    assert found["commits"] != all_of_them["commits"]
    assert [arm["arm"] for arm in restores.summary(tmp_path)] == ["2-bounded-without-carried-momentum"]


def test_a_killed_arm_ends_as_if_it_had_not_been(run, whole, tmp_path, monkeypatch):
    _, undisturbed = whole
    steps = []

    def interrupted(task, learner, step, *rest):
        steps.append(step)
        if step == 5:
            raise Stop
        train(task, learner, step, *rest)

    train = restores.train_step
    monkeypatch.setattr(restores, "train_step", interrupted)
    with pytest.raises(Stop):
        ran(run, tmp_path / "parts")
    monkeypatch.setattr(restores, "train_step", train)
    parts = ran(run, tmp_path / "parts")
    assert steps == [2, 3, 4, 5]
    assert parts["final"] == undisturbed["final"]
    assert [one["weights_stored"] for one in parts["commits"]] == [
        one["weights_stored"] for one in undisturbed["commits"]
    ]


def test_a_control_differs_by_noise_alone(run, whole, tmp_path):
    out = shutil.copytree(whole[0], tmp_path / "out")
    undisturbed, noisy = (ran(run, out, control=seed) for seed in (0, 1))
    assert all(one["before"] == one["after"] for one in undisturbed["restores"])
    assert undisturbed["final"] != noisy["final"]
    assert noisy["final"]["loss"] == pytest.approx(undisturbed["final"]["loss"], rel=1e-3)
    told = "\n".join(restores.told(restores.summary(out)))
    assert "2-control-1: restored at [2, 4], loss" in told
    assert "loss against 2 controls" in told


def test_noise_is_one_unit_in_the_last_place():
    model = torch.nn.Linear(4, 4)
    before = model.weight.detach().clone()
    restores.Noise(1).restore(Learner(model, torch.optim.SGD(model.parameters())), 2)
    apart = (model.weight.detach().view(torch.int32) - before.view(torch.int32)).abs()
    assert apart.unique().tolist() == [1]
