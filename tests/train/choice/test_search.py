"""Commits chosen by measured quality: bounded where the bound is kept, exact where it is not, never lost."""

import json
import logging
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from mvcs import Repository
from mvcs.errors import UsageError
from mvcs.objects import STEPS_PER_OCTAVE
from mvcs.quantize import KMeansConfig, LatticeConfig
from mvcs.reports import CommitInfo
from mvcs.train import Checkpointer
from mvcs.train.evaluation.call_evaluate import Evaluate
from tests.repository.models import bits, tensors
from tests.train import evaluations
from tests.train.evaluations import Run, measured, undisturbed

BOUND = 0.02


def values(repo: Repository, rev: str) -> dict[str, torch.Tensor]:
    """The value layer: what the commit restores once its exact layer is gone."""
    return tensors(repo.checkout(rev)["model"])


def train(repo: Repository, run: Run, steps: int, **settings) -> Checkpointer:
    return evaluations.train(repo, run, steps, **{"max_degradation": BOUND, **settings})


def test_every_commit_keeps_the_bound_and_says_so(repo: Repository) -> None:
    repo.config_set("retention.exact_layers", "1000")
    run = Run()
    checkpointer = train(repo, run, 40)
    assert run.bits() == undisturbed(40)
    commits = list(repo.log())
    bounded = [commit for commit in commits if commit.bounded]
    assert len(bounded) >= 6
    for commit in bounded:
        told = commit.errors["evaluation"]
        assert commit.degradation + 2 * told["standard_error"] <= told["bound"] == BOUND
        before = measured(run.model, repo.checkout(commit.id, exact=True)["model"])
        after = measured(run.model, values(repo, commit.id))
        assert told["baseline"] == pytest.approx(before)
        # A check that ended early saw some of the batches.
        assert (after - before) / before <= 1.5 * BOUND
    assert all(timing.search_ms > 0 and timing.evaluations >= 1 for timing in checkpointer.timings)
    assert sum(timing.evaluations for timing in checkpointer.timings) / len(commits) < 4
    assert sum(commit.stored_bytes for commit in bounded) < sum(commit.raw_bytes for commit in bounded) / 1.5


def test_nearest_codes_are_taken_where_weights_move_far(repo: Repository) -> None:
    run = Run()
    run.optimizer.param_groups[0]["lr"] = 0.05
    train(repo, run, 40)
    taken = [repo.show(commit.id).quantizer["hysteresis"] for commit in repo.log() if commit.bounded]
    assert taken[:-1].count(0.0) >= 2
    assert taken[:-1].count(0.5) >= 2


def test_layer_types_without_moments_get_steps_by_what_an_evaluation_of_each_tells(repo: Repository) -> None:
    model = nn.ModuleDict({"loud": nn.Linear(64, 64, bias=False), "soft": nn.Linear(64, 64, bias=False)})
    before = {name: part.weight.detach().clone() for name, part in model.items()}
    cost = {"loud": 100.0, "soft": 0.01}  # of a squared error

    def evaluate(model: nn.Module) -> Iterator[tuple[float, int]]:
        moved = {name: part.weight - before[name] for name, part in model.items()}
        for row in range(64):
            yield 1 + sum(w * float(moved[name][row].square().sum()) for name, w in cost.items()), 1

    with Checkpointer(repo, model, None, evaluate=evaluate, max_degradation=BOUND) as checkpointer:
        checkpointer.save(0)
    steps = json.loads(repo.show("HEAD").quantizer["steps"])
    assert steps["model.soft.weight"] >= steps["model.loud.weight"] + 3 * STEPS_PER_OCTAVE


def of_unit(unit: float, goal: str) -> Evaluate:
    """The same loss in another unit, negative where higher is better."""

    def evaluate(model: nn.Module) -> Iterator[tuple[float, int]]:
        for total, count in evaluations.batches(model):
            yield (-unit if goal == "max" else unit) * total, count

    return evaluate


@pytest.mark.parametrize("goal", ["min", "max"])
@pytest.mark.parametrize("unit", [1e-9, 1e-200])
def test_the_unit_of_a_metric_changes_nothing(tmp_path: Path, unit: float, goal: str) -> None:
    told = []
    for each in (1.0, unit):
        with Repository.init(tmp_path / f"{each}") as repo:
            train(repo, Run(), 10, evaluate=of_unit(each, goal), goal=goal)
            told.append([(one.exactness, one.degradation) for one in repo.log()])
    assert told[1] == [(exactness, pytest.approx(worse, rel=1e-6)) for exactness, worse in told[0]]
    assert told[0][0][0] == "bounded"


@pytest.mark.parametrize("goal", ["min", "max"])
def test_of_a_metric_of_zero_nothing_is_a_share(
    repo: Repository, goal: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "mvcs"):
        checkpointer = train(repo, Run(), 5, evaluate=of_unit(0.0, goal), goal=goal)
    assert next(iter(repo.log())).exactness == "exact"
    assert "the evaluation gives 0 for the original, of which no degradation is a share" in caplog.text
    assert checkpointer.timings[0].evaluations <= 2


def test_what_was_evaluated_is_what_is_restored(repo: Repository) -> None:
    """Near a parent, with hysteresis, other steps, and a copy in half precision."""
    run = Run()
    for step in range(3):
        for _ in range(4):
            run.step()
        state = {"model": dict(run.model.state_dict()), "optimizer": run.optimizer.state_dict()}
        state["model"]["copy"] = run.model[0].weight.to(torch.bfloat16)
        trial = repo.trial(state, LatticeConfig(step_size=0.3))
        steps = {kind: byte + 2 * index - 1 for index, (kind, byte) in enumerate(trial.starts.items())}
        settings = trial.steps(steps, hysteresis=0.25 if step else 0.0)
        expected = trial.values(settings)
        info = repo.commit(state, step=step, quantizer=settings)
        found = values(repo, info.id)
        assert len(expected) == len([1 for path in expected if path[0] == "model"]) > 5
        for path, restored in expected.items():
            tensor = found[path[1]]
            assert torch.equal(torch.from_numpy(restored).reshape(tensor.shape).to(tensor.dtype), tensor)
        weights = next(item for item in repo.show(info.id).classes if item.name == "weight")
        tried = sum(trial.tried(kind, byte, settings.hysteresis).stored for kind, byte in steps.items())
        assert tried == pytest.approx(weights.stored_bytes, rel=0.2, abs=400)


@pytest.mark.slow
def test_more_tensors_of_a_type_than_share_an_entry(repo: Repository) -> None:
    """Their codes are priced in several entries, as they are written."""
    generator = torch.Generator().manual_seed(0)
    first = {f"steps.{index}": torch.randn(8, 4, generator=generator) for index in range(4200)}
    moved = {name: value + 0.01 for name, value in first.items()}
    for model in (first, moved):
        trial = repo.trial({"model": model}, LatticeConfig(step_size=0.3))
        assert [len(leaves) for leaves in trial.kinds.values()] == [4200]
        info = repo.commit({"model": model}, quantizer=trial.steps(trial.starts, hysteresis=0.0))
        weights = next(item for item in repo.show(info.id).classes if item.name == "weight")
        tried = sum(trial.tried(kind, byte, 0.0).stored for kind, byte in trial.starts.items())
        # The header of an entry has some bytes for each of its tensors beside their codes.
        assert 0 < tried < weights.stored_bytes


def fails(_: nn.Module) -> float:
    raise RuntimeError("the validation set is gone")


def fails_later(model: nn.Module):
    yield from list(evaluations.batches(model))[:3]
    raise RuntimeError("the connection was lost")


def is_nan(_: nn.Module) -> float:
    return math.nan


def is_random(_: nn.Module) -> float:
    is_random.calls += 1
    return 1.0 + is_random.calls


is_random.calls = 0


def trains(model: nn.Module) -> float:
    with torch.no_grad():
        next(model.parameters()).mul_(0.5)
    return 1.0


def is_text(_: nn.Module) -> str:
    return "good"


def has_no_memory(_: nn.Module) -> float:
    raise MemoryError


@pytest.mark.parametrize(
    ("evaluate", "why"),
    [
        (fails, "the validation set is gone"),
        (fails_later, "the connection was lost"),
        (is_nan, "nan for the original state"),
        (is_random, "the evaluation is random"),
        (trains, "evaluate trains the model"),
        (is_text, "returned a 'str'"),
        (has_no_memory, "MemoryError"),
    ],
)
def test_an_evaluation_that_fails_costs_only_ratio(repo: Repository, evaluate, why: str, caplog) -> None:
    run = Run()
    with caplog.at_level(logging.WARNING, "mvcs.train"):
        train(repo, run, 10, evaluate=evaluate)
    assert run.bits() == undisturbed(10)
    assert [commit.exactness for commit in repo.log()] == ["exact", "exact"]
    assert why in caplog.text
    assert "exact, since" in caplog.text


def test_unchecked_goes_on_with_the_last_settings(repo: Repository, caplog) -> None:
    run = Run()
    train(repo, run, 5)
    checked = repo.show().quantizer
    with caplog.at_level(logging.WARNING, "mvcs.train"):
        train(repo, run, 5, evaluate=fails, on_evaluation_failure="unchecked")
    commit, quantizer = repo.head(), repo.show().quantizer
    assert (commit.exactness, commit.degradation) == ("bounded", "not measured")
    assert "evaluation" not in commit.errors
    assert quantizer["steps"] is None
    assert checked["steps"]
    assert "bounded without being checked, since the evaluation of step 9 failed" in caplog.text


def rounded(model: nn.Module) -> float:
    """Return the share of weights that end in six zero bits, as steps do, and a bit of their size."""
    weights = torch.cat([weight.detach().reshape(-1) for weight in model.parameters()])
    bits = weights.view(torch.int32)
    return float((bits % 64 == 0).double().mean() + 0.1 * weights.abs().mean())


def test_a_bound_that_nothing_keeps_means_exact_commits(repo: Repository) -> None:
    train(repo, Run(), 10, max_degradation=0.01, evaluate=rounded)
    commit = repo.head()
    assert (commit.exactness, commit.degradation) == ("exact", None)
    assert "evaluation" in commit.errors


def test_commits_that_nothing_bounds_are_told_once_and_counted(repo: Repository, caplog) -> None:
    run, refused = Run(), {0, 1, 2, 4, 5}
    done = 0

    def evaluate(model: nn.Module) -> float:
        return rounded(model) if done in refused else model(run.x).square().mean().item()

    with (
        caplog.at_level(logging.INFO, "mvcs.train"),
        Checkpointer(repo, run.model, run.optimizer, evaluate=evaluate) as checkpointer,
    ):
        for done in range(6):
            run.step()
            checkpointer.save(done)
            checkpointer.flush()
    kinds = [commit.exactness for commit in reversed(list(repo.log()))]
    assert kinds == ["exact"] * 3 + ["bounded"] + ["exact"] * 2
    told = [
        (record.levelname, record.getMessage().partition(": ")[2])
        for record in caplog.records
        if record.getMessage().startswith("commit ")
    ]
    about = [(level, text) for level, text in told if "no candidate" in text or "bounded again" in text]
    first, *later = about
    assert first[0] == "WARNING"
    assert first[1].startswith("exact, since no candidate kept the bound: breaks ")
    assert later == [
        ("INFO", "exact, since no candidate kept the bound, as 1 before it"),
        ("INFO", "exact, since no candidate kept the bound, as 2 before it"),
        ("INFO", "bounded again, after 3 exact ones"),
        ("INFO", "exact, since no candidate kept the bound, as 3 before it"),
        ("INFO", "exact, since no candidate kept the bound, as 4 before it"),
    ]
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert ("WARNING", "5 of 6 commits are exact, since no candidate kept the bound") in said
    assert "6 committed, 0 failed, 0 skipped, 5 exact, since no candidate" in checkpointer.summary()


def few_batches(model: nn.Module):
    """Three batches of four examples each: too few to tell a hundredth."""
    for x, y in map(evaluations.data, range(3)):
        yield float((model.eval()(x[:4]) - y[:4]).square().sum()), 4


def test_an_evaluation_that_is_too_noisy_says_how_many_batches_would_do(repo: Repository, caplog) -> None:
    with caplog.at_level(logging.WARNING, "mvcs.train"):
        train(repo, Run(), 30, evaluate=few_batches, max_degradation=0.005)
    said = [record.message for record in caplog.records if "such batches" in record.message]
    assert 1 <= len(said) <= 3  # again only where it is twice as much
    assert "the evaluation's 3 batches tell a degradation to ±" in said[0]


@pytest.mark.usefixtures("forked_replicas")
@pytest.mark.parametrize("place", [{}, {"replica": evaluations.make}], ids=["here", "replica"])
def test_more_batches_are_taken_where_few_are_too_noisy(repo: Repository, place) -> None:
    repo.config_set("retention.exact_layers", "9")
    train(repo, Run(), 20, evaluate=evaluations.low_bits, search_batches=3, **place)
    taken = [batches_of(repo, commit) for commit in reversed(list(repo.log()))]
    assert taken == [3, 12, 20, 20]


def batches_of(repo: Repository, commit: CommitInfo) -> int:
    """Return how many batches gave the metric that a commit has."""
    model = evaluations.make()
    model.load_state_dict(repo.restore(commit.id).state["model"])
    with torch.no_grad():
        sums, counts = zip(*evaluations.low_bits(model), strict=True)
    means = np.cumsum(sums) / np.cumsum(counts)
    (found,) = np.flatnonzero(np.isclose(means, commit.metrics["evaluation"], rtol=1e-6))
    return int(found) + 1


def test_codes_are_not_kept_where_the_settings_rule_that_out(repo: Repository) -> None:
    train(repo, Run(), 30, step_size=0.5, hysteresis=0.0)
    searched = [commit for commit in repo.log() if commit.bounded]
    assert len(searched) >= 4
    assert {repo.show(commit.id).quantizer["hysteresis"] for commit in searched} == {0.0}


def test_a_bound_may_follow_a_schedule(repo: Repository) -> None:
    train(repo, Run(), 8, every=2, max_degradation=lambda step: 0.1 if step < 4 else 0.01)
    bounds = {commit.step: commit.errors["evaluation"]["bound"] for commit in repo.log()}
    assert bounds == {1: 0.1, 3: 0.1, 5: 0.01, 7: 0.01}


def test_a_metric_may_be_better_when_higher(repo: Repository) -> None:
    def fit(model: nn.Module) -> float:
        return 10 - float(evaluations.number(model))

    train(repo, Run(), 15, evaluate=fit, goal="max", max_degradation=0.01)
    commit = repo.head()
    assert commit.bounded
    assert commit.degradation <= 0.01
    assert math.isnan(commit.errors["evaluation"]["standard_error"])


def test_budgets_are_kept(repo: Repository) -> None:
    train(repo, Run(), 10, search_evaluations=1, search_seconds=60)
    assert {commit.errors["evaluation"]["candidates"] for commit in repo.log()} == {1}
    train(repo, Run(), 10, search_seconds=1e-9, branch="quick")
    assert {commit.exactness for commit in list(repo.log("quick"))[:2]} == {"exact"}


@pytest.mark.parametrize("steps", [20, pytest.param(40, marks=pytest.mark.slow)])
def test_fewer_evaluations_on_average_are_a_budget_too(repo: Repository, steps: int) -> None:
    """One candidate is looked for at every commit; none is evaluated to save bytes, but at the first."""
    train(repo, Run(), steps, evaluate=evaluations.easy, search_mean=1, branch="few")
    newest = list(repo.log("few"))[: steps // 5 - 1]
    assert {commit.errors["evaluation"]["candidates"] for commit in newest} == {1}


def test_a_model_that_is_not_finite_is_kept_exactly(repo: Repository) -> None:
    run = Run()
    train(repo, run, 5)
    with torch.no_grad():
        run.model[0].weight[3, 4] = math.nan
    with Checkpointer(repo, run.model, run.optimizer, evaluate=evaluations.batches) as checkpointer:
        checkpointer.save(6)
    assert repo.head().exactness == "exact"
    assert bits(repo.checkout()["model"]) == bits(run.model.state_dict())


def test_parameters_may_come_and_go(repo: Repository) -> None:
    model = evaluations.make()

    def save(step: int) -> None:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        with Checkpointer(repo, model, optimizer, evaluate=evaluations.batches, max_degradation=0.1) as run:
            run.save(step)
        assert repo.head().bounded

    save(0)
    model[0] = nn.Linear(12, 32).requires_grad_(False)  # another one of the same shape
    model[6] = nn.Sequential(nn.Linear(32, 40), nn.ReLU(), nn.Linear(40, 1))
    save(1)
    model[6] = nn.Sequential(nn.Linear(32, 24, dtype=torch.float64), nn.Linear(24, 1, dtype=torch.float64))
    model.insert(6, Doubles())
    save(2)
    restored = evaluations.make()
    restored[6] = model[7]
    restored.insert(6, Doubles())
    restored.load_state_dict(repo.checkout()["model"])


class Doubles(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.double()


def test_a_resumed_run_searches_on(repo: Repository) -> None:
    train(repo, Run(), 10)
    run = Run()
    resumed = train(repo, run, 10)
    assert not resumed.restored.lossy
    assert run.bits()[0] == undisturbed(20)[0]


def test_a_run_from_a_lossy_state_is_checked_too(repo: Repository) -> None:
    repo.config_set("retention.exact_layers", "0")
    train(repo, Run(), 10)
    resumed = train(repo, Run(), 10)
    assert resumed.restored.lossy
    commit = list(repo.log())[1]
    assert commit.errors["snap-back"]["retained"] >= 0.9
    assert "evaluation" in commit.errors


def test_weights_alone_are_checked_too(repo: Repository) -> None:
    train(repo, Run(), 20, every=10, weights_every=5)
    assert [(commit.weights_only, commit.bounded) for commit in repo.log()] == [
        (False, True),
        (True, True),
    ] * 2


def test_a_full_queue_leaves_out_or_waits(repo: Repository) -> None:
    checkpointer = train(repo, Run(), 8, every=1, queue=2, on_full="skip")
    assert len(checkpointer.timings) + len(checkpointer.skipped) == 8
    assert all(commit.bounded for commit in repo.log())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_degradation": 0.1}, "max_degradation needs evaluate"),
        ({"evaluate": fails, "max_degradation": -1}, "max_degradation cannot be -1"),
        ({"evaluate": fails, "goal": "best"}, "goal cannot be 'best'"),
        ({"evaluate": fails, "search_evaluations": 0}, "search_evaluations cannot be 0"),
        ({"evaluate": fails, "search_mean": 0.5}, "search_mean cannot be 0.5"),
        ({"evaluate": fails, "search_seconds": 0}, "search_seconds cannot be 0"),
        ({"evaluate": fails, "bins": 16}, "evaluate chooses the steps"),
        ({"evaluate": fails, "quantizer": KMeansConfig(bins=16)}, "evaluate chooses the steps"),
        ({"evaluate": fails, "share": "tensor", "step_size": 0.5}, "evaluate chooses the steps"),
        ({"evaluate": fails, "on_evaluation_failure": "stop"}, "on_evaluation_failure cannot be 'stop'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(repo: Repository, settings, message: str) -> None:
    run = Run()
    with pytest.raises(UsageError, match=message):
        Checkpointer(repo, run.model, run.optimizer, **settings)


def test_evaluate_needs_a_module(repo: Repository) -> None:
    run = Run()
    with pytest.raises(UsageError, match="evaluate needs a torch module"):
        Checkpointer(repo, run.optimizer, run.optimizer, evaluate=fails)


def test_a_model_without_weights_of_two_dimensions_is_committed(repo: Repository) -> None:
    model = nn.Sequential(nn.BatchNorm1d(12), nn.Linear(12, 1))
    model[1].weight.data.zero_()
    with Checkpointer(
        repo, model, torch.optim.SGD(model.parameters(), 0.1), evaluate=evaluations.batches
    ) as checkpointer:
        checkpointer.save(0)
    assert checkpointer.failures == []
    assert np.isfinite(repo.head().errors["evaluation"]["baseline"])


def test_small_tensors_that_alone_break_the_bound_get_finer_steps(repo: Repository) -> None:
    torch.manual_seed(0)
    model = nn.Linear(64, 64)
    exact = model.bias.detach().clone()
    power = exact.square().mean()

    def evaluate(model: nn.Module) -> float:
        # Rounding to 1/128 of its size costs the bias 8 %, that of weights nothing.
        return 1.0 + float(1.6e4 * (model.bias - exact).square().mean() / power + model.weight.mean())

    with Checkpointer(repo, model, None, every=1, evaluate=evaluate, max_degradation=BOUND) as checkpointer:
        checkpointer.after_step(0)
        with torch.no_grad():
            model.weight += 1e-3
        checkpointer.after_step(1)
    newest, first = repo.log()
    assert (first.exactness, newest.exactness) == ("bounded", "bounded")
    assert newest.errors["evaluation"]["candidates"] < first.errors["evaluation"]["candidates"]
