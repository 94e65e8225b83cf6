"""Training with restores through methods: what is restored, and what an arm comes to, killed or not."""

from dataclasses import replace

import numpy as np
import pytest

from mvcs.bench import restarts
from mvcs.bench.comparison import Terms
from mvcs.bench.experiments import Options, run_experiment
from mvcs.bench.judges import TaskJudge
from mvcs.bench.ledger import Ledger
from mvcs.bench.methods.catalog import METHODS
from mvcs.bench.restarts import Payloads, Plan, train_arm
from mvcs.bench.results import ComparisonReport
from mvcs.bench.runs.tasks import Cosine
from mvcs.errors import NotFoundError, UsageError
from mvcs.progress import SILENT
from tests.bench.runs import Stop, StopAfter, tiny_gpt

PLAN = Plan(steps=8, checkpoints=4, restores=2, max_degradation=0.05, seed=0, evaluations=2)


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return TaskJudge(replace(tiny_gpt(folder), schedule=Cosine(peak=0.02, floor=1.0, warm=1)))


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """One output folder for arms that nobody killed."""
    return tmp_path_factory.mktemp("out")


def arm(judge, out, name, progress=SILENT, **changed):
    return train_arm(judge, METHODS.get(name, name), out, replace(PLAN, **changed), progress=progress)


def numbers(found):
    """Without seconds, and what counts the few bytes of metadata that tell when a commit was made."""
    sizes = ("everything", "weights", "peak") if found.method == "lattice" else ("everything",)
    return replace(found, training=0.0, spent=0.0, **dict.fromkeys(sizes))


@pytest.mark.parametrize(
    ("restores", "places"), [(5, [2, 6, 10, 14, 18]), (10, list(range(1, 20, 2))), (20, list(range(1, 21)))]
)
def test_restores_are_as_far_apart_as_they_can_be(restores, places):
    assert Plan(800, 20, restores, 0.05, 0).at == [40 * place for place in places]


def test_more_restores_than_checkpoints_are_refused():
    with pytest.raises(UsageError, match="there are 4 in 8 steps"):
        replace(PLAN, restores=5)


@pytest.mark.parametrize("name", ["inshrinkerator", "excp"])
def test_an_arm_continues_from_what_its_payloads_decode_to(judge, tmp_path, name):
    learner = judge.task.learner(judge.task.model())
    ledger = Ledger.of(tmp_path, "", "", PLAN.saved, judge.identity)
    arms = Payloads(judge, METHODS[name], ledger, Terms(0.05, 0, 2))
    for done in PLAN.saved[:2]:
        arms.listen(learner, 2)
        for step in range(done - 2, done):
            restarts.train_step(judge.task, learner, step, PLAN.steps, 0)
        arms.commit(learner, done)
    trained = {name: value.clone() for name, value in learner.model.state_dict().items()}
    arms.restore(learner, 4)
    method, state = METHODS[name], None
    for path in sorted(tmp_path.rglob("*.payload")):
        tensors, state = method.decode(path.read_bytes(), state)
    found = learner.model.state_dict()
    assert all(np.array_equal(found[name.removeprefix("model.")], each) for name, each in tensors.items())
    assert any((found[name] != trained[name]).any() for name in trained)


@pytest.mark.parametrize("name", ["none", "ulp", "inshrinkerator", "lattice"])
@pytest.mark.parametrize("place", [1, 3])
def test_a_killed_arm_ends_as_if_it_had_not_been(judge, out, tmp_path, name, place):
    with pytest.raises(Stop):
        arm(judge, tmp_path, name, StopAfter(place))
    assert numbers(arm(judge, tmp_path, name)) == numbers(arm(judge, out, name))


def test_an_arm_that_ended_is_not_trained_again(judge, out):
    assert arm(judge, out, "inshrinkerator") == arm(judge, out, "inshrinkerator")


def test_arms_are_in_no_report_of_methods(judge, out):
    arm(judge, out, "inshrinkerator")
    with pytest.raises(NotFoundError, match="has no results"):
        ComparisonReport.of(out)


def test_one_ulp_makes_little_of_a_difference(judge, out):
    plain, moved = (arm(judge, out, name) for name in ("none", "ulp"))
    assert plain.loss != moved.loss
    assert moved.loss == pytest.approx(plain.loss, rel=1e-3)


def test_a_fixed_setting_is_refused(judge, tmp_path):
    with pytest.raises(UsageError, match="cannot be restored from"):
        arm(judge, tmp_path, "qd:4-8")


def test_excess_ratio_and_overhead_stand_beside_the_papers(judge, out):
    options = Options(evaluations=1, steps=4, restores=(2,), methods=("cnr", "lattice"))
    rows = {
        row.what: row for row in run_experiment("table5", None, judge, out, options, progress=SILENT).rows
    }
    assert rows["cnr, 2 restores: CR-w"].measured > 1
    assert rows["lattice, 2 restores: overhead"].measured > 0
    assert {"exact and one ulp, 2 restores: excess", "lattice, 2 restores: excess"} <= rows.keys()


def test_an_experiment_on_checkpoints_asks_for_them(judge, out):
    with pytest.raises(UsageError, match="needs checkpoints"):
        run_experiment("qd1", None, judge, out, Options(), progress=SILENT)
