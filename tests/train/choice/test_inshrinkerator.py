"""The published method on a small run: searched, committed, recorded, resumed."""

import numpy as np
import pytest
import torch

from mvcs import Repository
from mvcs.errors import UsageError
from mvcs.quantize import KMeansConfig
from mvcs.train import Checkpointer
from mvcs.train.callbacks import Handed, HandedModel
from tests.repository.models import tensors
from tests.train import evaluations
from tests.train.evaluations import Run, measured, undisturbed

BOUND = 0.05


def train(repo: Repository, run: Run, steps: int, **settings) -> Checkpointer:
    return evaluations.train(
        repo, run, steps, **{"method": "inshrinkerator", "max_degradation": BOUND, **settings}
    )


def test_commits_keep_the_bound_with_published_settings(repo: Repository):
    repo.config_set("retention.exact_layers", "1000")
    run = Run()
    checkpointer = train(repo, run, 15)
    assert run.bits() == undisturbed(15)
    commits = list(repo.log())
    bounded = [commit for commit in commits if commit.bounded]
    assert len(bounded) >= 2
    for commit in bounded:
        settings = repo.show(commit.id).quantizer
        assert settings["method"] == "kmeans"
        assert settings["bins"] in (4, 6, 8, 12, 16, 32)
        assert settings["protect"] in (0.0005, 0.005, 0.01)
        assert settings["protect_metric"] == "sensitivity"
        assert settings["sigma"] == 0.2
        told = commit.errors["evaluation"]
        assert commit.degradation + 2 * told["standard_error"] <= told["bound"] == BOUND
        before = measured(run.model, repo.checkout(commit.id, exact=True)["model"])
        after = measured(run.model, tensors(repo.checkout(commit.id)["model"]))
        assert (after - before) / before <= 1.5 * BOUND
    first, *later = [timing.evaluations for timing in checkpointer.timings]
    assert first > 3
    assert min(later) <= 4


def test_what_was_evaluated_is_what_is_restored(repo: Repository):
    run = Run()
    rng = np.random.default_rng(0)
    for step in range(3):
        for _ in range(3):
            run.step()
        state = {"model": run.model.state_dict(), "optimizer": run.optimizer.state_dict()}
        scores = {name: rng.random(p.shape) for name, p in run.model.named_parameters()}
        config = KMeansConfig(8 + step, 0.2, 0.01, sigma=0.2, metric="sensitivity")
        trial = repo.table_trial(state, importance=scores)
        assert (trial.before is None) == (step == 0)
        expected, stored = trial.values(config), trial.stored(config)
        info = repo.commit(state, step=step, quantizer=config, importance=scores)
        found = tensors(repo.restore(info.id, prefer_exact=False).state["model"])
        for path, restored in expected.items():
            if path[0] == "model":
                assert torch.equal(torch.from_numpy(restored).reshape(found[path[1]].shape), found[path[1]])
        weights = next(item for item in repo.show(info.id).classes if item.name == "weight")
        assert stored == pytest.approx(weights.stored_bytes, rel=0.2, abs=500)


def test_a_resumed_run_goes_on_from_its_setting(repo: Repository):
    train(repo, Run(), 10)
    before = next(iter(repo.log())).id
    run = Run()
    checkpointer = train(repo, run, 5)
    assert checkpointer.restored is not None
    (timing,) = checkpointer.timings
    assert timing.commit != before
    assert timing.evaluations < 12


def test_without_hooks_and_outside_the_window_moments_count(repo: Repository):
    run = Run()
    options = {"max_degradation": BOUND, "every": 100, "evaluate": evaluations.batches}
    with Checkpointer(repo, run.model, run.optimizer, method="inshrinkerator", **options) as checkpointer:
        for step in range(10):
            run.step()
            if step in (3, 9):
                checkpointer.save(step)
    assert checkpointer.failures == []
    for commit in repo.log():
        settings = repo.show(commit.id).quantizer
        assert settings is None or settings["protect_metric"] == "momentum"


def test_a_model_that_a_framework_keeps_is_watched_once_training_has_begun(repo: Repository):
    run = Run()
    model = HandedModel(run.model.state_dict, run.model.load_state_dict, lambda: run.model)
    optimizers = Handed(
        run.optimizer.state_dict, run.optimizer.load_state_dict, lambda: {"Adam": run.optimizer}
    )
    options = {"max_degradation": BOUND, "every": 5, "evaluate": evaluations.batches}
    with Checkpointer(repo, model, optimizers, method="inshrinkerator", **options) as checkpointer:
        for step in range(15):
            run.step()
            checkpointer.after_step(step)
    assert checkpointer.failures == []
    scores = [repo.show(commit.id).quantizer["protect_metric"] for commit in repo.log() if commit.bounded]
    assert scores[0] == "sensitivity"
    assert run.bits() == undisturbed(15)


def test_evaluations_are_a_budget(repo: Repository):
    checkpointer = train(repo, Run(), 10, search_evaluations=2)
    assert all(timing.evaluations <= 3.1 for timing in checkpointer.timings)


@pytest.mark.parametrize(
    "options", [{"bins": 16}, {"step_size": 0.5}, {"search_evaluations": 0}, {"search_mean": 2}]
)
def test_what_is_searched_is_not_given(repo: Repository, options):
    run = Run()
    with pytest.raises(UsageError):
        train(repo, run, 1, **options)


def test_a_method_needs_an_evaluation(repo: Repository):
    run = Run()
    with pytest.raises(UsageError, match="needs evaluate"):
        train(repo, run, 1, evaluate=None)
    with pytest.raises(UsageError, match="method cannot be"):
        Checkpointer(repo, run.model, run.optimizer, evaluate=evaluations.batches, method="other")
