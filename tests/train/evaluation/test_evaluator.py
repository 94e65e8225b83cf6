"""Evaluating in the middle of training: judged right, and training never notices."""

import contextlib
import math
from itertools import chain

import pytest
import torch

from mvcs import Checkpointer, Repository
from mvcs.errors import EvaluationError, MvcsError, UsageError
from mvcs.search import Bound
from mvcs.train import Evaluator
from tests.train import evaluations
from tests.train.evaluations import Run

BOUND = Bound(0.05)


def coarse(model, step):
    """The model's weights, rounded; its running statistics too."""
    return {
        name: (tensor / step).round() * step if tensor.is_floating_point() else tensor.clone()
        for name, tensor in model.state_dict().items()
    }


@pytest.fixture(scope="module")
def undisturbed():
    torch.set_num_threads(1)
    run, seen = Run(), []
    for _ in range(12):
        run.step()
        seen.append(run.bits())
    return seen


def judged(evaluator, run, step):
    baseline = evaluator.baseline(step)
    broken = {"6.bias": run.model[6].bias + 10}
    return [evaluator.judge(step, weights, baseline) for weights in (coarse(run.model, 1e-5), broken)]


def test_the_model_is_evaluated_in_eval_mode_and_gets_its_modes_back(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(2).eval())
    modes, seen = [module.training for module in model.modules()], []

    def evaluate(lent):
        seen.append([module.training for module in lent.modules()])
        return lent(torch.ones(3, 2)).sum().item()

    with (
        Repository.init(tmp_path) as repo,
        Checkpointer(
            repo,
            model,
            torch.optim.SGD(model.parameters()),
            every=1,
            evaluate=evaluate,
            max_degradation=0.1,
        ) as saving,
    ):
        saving.after_step(0)
    assert seen
    assert not any(chain.from_iterable(seen))
    assert [module.training for module in model.modules()] == modes == [True, True, True, False]


def test_an_evaluation_that_no_weights_move_is_blind():
    run = Run()
    with Evaluator(run.model, lambda _: 2.5, BOUND) as evaluator:
        doubt = evaluator.look_for_blindness(0, evaluator.baseline(0), run.model.state_dict())
    assert doubt.endswith(
        "exactly what it gives for those of the model: does it use the model that it is given?"
    )


@pytest.mark.parametrize(
    "evaluate",
    [
        evaluations.number,
        evaluations.batches,
        evaluations.in_training_mode,
        evaluations.with_gradients,
        evaluations.in_half,
    ],
)
def test_training_is_bit_for_bit_what_it_is_without(evaluate, undisturbed):
    run = Run()
    memory = [value.data_ptr() for value in run.model.state_dict().values()]
    evaluator = Evaluator(run.model, evaluate, BOUND)
    for step, expected in enumerate(undisturbed):
        run.step()
        fine, broken = judged(evaluator, run, step)
        assert run.bits() == expected
        assert fine.accepted
        assert not broken.accepted
    assert [value.data_ptr() for value in run.model.state_dict().values()] == memory
    assert all(parameter.requires_grad for parameter in run.model.parameters())
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        (
            evaluations.raises,
            r"the evaluation of step 3 failed: ValueError: no such file \(evaluations.py:\d+, in raises\)",
        ),
        (evaluations.raises_later, "failed: OSError: the data is gone"),
        (evaluations.gives_nan, "nan for the original state"),
        (evaluations.gives_nothing, "evaluate returned a 'NoneType'"),
        (evaluations.is_random, "the evaluation is random"),
        (evaluations.trains, "failed: evaluate trains the model"),
        (evaluations.trains_by_hand, "failed: evaluate trains the model"),
        (evaluations.trains_and_hides_it, "failed: evaluate trains the model"),
    ],
)
def test_a_bad_evaluation_is_named_and_training_never_notices(evaluate, message, undisturbed):
    run = Run()
    evaluator = Evaluator(run.model, evaluate, BOUND)
    for expected in undisturbed:
        run.step()
        with pytest.raises(MvcsError, match=message):
            evaluator.baseline(3)
        with contextlib.suppress(MvcsError), evaluator.measuring(3, coarse(run.model, 0.5)) as measured:
            assert isinstance(measured, float) or list(measured)
        assert run.bits() == expected


def test_generators_that_stop_early_are_closed_before_the_weights_return():
    run, seen = Run(), []
    run.step()
    weights = coarse(run.model, 0.5)

    def evaluate(model):
        try:
            yield from evaluations.batches(model)
        finally:
            seen.append(torch.equal(model[0].weight, weights["0.weight"]))

    evaluator = Evaluator(run.model, evaluate, BOUND)
    baseline = evaluator.baseline(0, repeat=0)
    verdict = evaluator.judge(0, weights, baseline)
    assert verdict.is_early
    assert seen == [False, True]
    assert evaluator.spent == pytest.approx(1 + verdict.share)
    assert evaluator.seconds > 0


def test_evaluations_are_counted():
    run = Run()
    evaluator = Evaluator(run.model, evaluations.number, BOUND)
    baseline = evaluator.baseline(0)
    assert evaluator.spent == 2  # the first baseline is evaluated twice
    evaluator.judge(0, {}, baseline)
    evaluator.baseline(1)
    assert evaluator.spent == 4
    in_batches = Evaluator(run.model, evaluations.batches, BOUND)
    in_batches.baseline(0)
    assert in_batches.spent == pytest.approx(1.05)


def test_the_bound_follows_its_schedule():
    run = Run()
    evaluator = Evaluator(run.model, evaluations.number, Bound(lambda step: 10.0 if step < 5 else 1e-9))
    baseline = evaluator.baseline(0)
    rounded = coarse(run.model, 0.05)
    assert (
        evaluator.judge(4, rounded, baseline).accepted is not evaluator.judge(5, rounded, baseline).accepted
    )


def test_weights_are_asked_for_one_at_a_time():
    run, alive = Run(), []

    class Made(dict):
        def items(self):
            for name, value in super().items():
                alive.append(name)
                yield name, value + 1

    weights = Made(run.model.named_parameters())
    with Evaluator(run.model, evaluations.number, BOUND).measuring(0, weights):
        assert alive == list(weights)
        assert torch.equal(run.model[0].bias, weights["0.bias"])


def test_tied_and_overlapping_tensors_come_back():
    flat = torch.arange(24, dtype=torch.float32)

    class Flat(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.whole = torch.nn.Parameter(flat)
            self.part = torch.nn.Parameter(flat[4:16].view(3, 4).t())
            self.again = self.part
            self.register_buffer("odd", torch.tensor([True, False, True]), persistent=False)
            self.register_buffer("empty", torch.empty(0))
            self.register_buffer("nothing", None)

    model = Flat()
    other = {name: torch.zeros_like(value) for name, value in model.named_parameters(remove_duplicate=False)}
    evaluate = lambda model: float(model.whole.sum() + model.again.sum())  # noqa: E731 - shorter
    with Evaluator(model, evaluate, BOUND).measuring(0, other) as measured:
        assert measured == 0
    assert flat.tolist() == list(range(24))
    assert model.part.data_ptr() == flat[4:].data_ptr()


def test_a_graph_that_waits_for_its_backward_pass_still_has_it():
    run = Run()
    loss = (run.model(run.x[:8]) - run.y[:8]).square().mean()
    Evaluator(run.model, evaluations.number, BOUND).baseline(0)
    loss.backward()
    assert all(parameter.grad is not None for parameter in run.model.parameters())


def test_casts_of_the_weights_are_not_kept():
    model, x = torch.nn.Linear(8, 1), torch.ones(1, 8)
    zeros = {name: torch.zeros_like(value) for name, value in model.named_parameters()}
    with torch.autocast("cpu", torch.bfloat16):
        before = model(x).item()
        with Evaluator(model, lambda model: model(x).item(), BOUND).measuring(0, zeros) as measured:
            assert measured == 0
        assert model(x).item() == before


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"0.weigth": torch.ones(32, 12)}, "no ordinary parameter or buffer '0.weigth'"),
        ({"0.weight": torch.ones(12, 32)}, r"float32 \[32, 12\] in the model and float32 \[12, 32\]"),
        ({"0.bias": torch.ones(32, dtype=torch.float64)}, "float64"),
    ],
)
def test_weights_of_another_model_are_refused_and_undone(weights, message):
    run = Run()
    run.step()
    before = run.bits()
    evaluator = Evaluator(run.model, evaluations.number, BOUND)
    with (
        pytest.raises(UsageError, match=message),
        evaluator.measuring(0, {"0.bias": torch.ones(32), **weights}),
    ):
        pass
    assert run.bits() == before


def test_what_interrupts_an_evaluation_goes_on_as_it_is():
    run = Run()
    run.step()
    before = run.bits()

    def interrupted(model):
        model.eval()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Evaluator(run.model, interrupted, BOUND).baseline(0)
    assert run.bits() == before


def test_an_optimizer_of_something_else_may_step():
    """Such as a linear probe that is fitted on the model's features."""
    run = Run()
    run.step()
    before = run.bits()

    def probe(model):
        head = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        x, y = evaluations.data(0)
        with torch.enable_grad():
            (head(model.eval()(x)) - y).square().mean().backward()
        optimizer.step()
        return float((head(model(x)) - y).square().mean())

    assert math.isfinite(Evaluator(run.model, probe, BOUND).baseline(0).value)
    assert run.bits() == before


@pytest.mark.parametrize("hides", [False, True])
def test_the_optimizer_of_the_run_is_not_stepped(hides):
    run = Run()
    run.step()
    before = run.bits()

    def evaluate(_model):
        run.optimizer.zero_grad(set_to_none=False)
        with contextlib.suppress(EvaluationError if hides else KeyError), torch.enable_grad():
            run.step()
        return 1.0

    with pytest.raises(EvaluationError, match="evaluate trains the model"):
        Evaluator(run.model, evaluate, BOUND).baseline(0)
    assert run.bits() == before


def test_what_shall_become_of_the_commit_is_known():
    assert Evaluator(Run().model, evaluations.raises, BOUND, on_failure="unchecked").on_failure == "unchecked"
    with pytest.raises(UsageError, match="on_failure cannot be 'never'"):
        Evaluator(Run().model, evaluations.raises, BOUND, on_failure="never")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
def test_on_a_device():
    run = Run()
    run.model.cuda()
    run.x = run.x.cuda()
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    state = torch.cuda.get_rng_state()

    def evaluate(model):
        torch.rand(3, device="cuda")
        return 1 / (0.01 + model.train()(run.x).square().mean())  # coarse weights are almost zero

    evaluator = Evaluator(run.model, evaluate, BOUND)
    baseline = evaluator.baseline(0)
    assert not evaluator.judge(0, coarse(run.model, 0.5), baseline).accepted
    assert all(torch.equal(value, before[name]) for name, value in run.model.state_dict().items())
    assert torch.equal(torch.cuda.get_rng_state(), state)
