"""Evaluating a state in the middle of training, without training noticing."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter
from types import TracebackType
from typing import Literal, Protocol, Self, get_args

from torch import nn

from mvcs.errors import EvaluationError, UsageError
from mvcs.objects import Path
from mvcs.search import (
    SEARCH_DEFAULTS,
    Baseline,
    Bound,
    PairedCheck,
    SampleSize,
    SearchSettings,
    Verdict,
    check_repeatable,
)
from mvcs.train.evaluation.blindness import Blindness
from mvcs.train.evaluation.call_evaluate import Batches, Evaluate, called
from mvcs.train.evaluation.live_tensors import Weights, live_tensors
from mvcs.train.evaluation.model_swap import ModelLender
from mvcs.train.evaluation.replica import Replica
from mvcs.train.evaluation.state_names import names_of
from mvcs.train.state.stateful import ModelProvider

OnFailure = Literal["exact", "unchecked"]


class _Place(Protocol):
    """Where evaluations run."""

    def measuring(self, weights: Weights | None) -> AbstractContextManager[float | Batches]:
        """Evaluate the model holding `weights`; everything is as before when the context ends."""
        ...

    def close(self) -> None:
        """Give back what evaluations hold."""
        ...


class _InPlace:
    """The model in training itself, lent."""

    def __init__(self, model: nn.Module, evaluate: Evaluate) -> None:
        self._lender = ModelLender(model)
        self._evaluate = evaluate

    @contextmanager
    def measuring(self, weights: Weights | None) -> Iterator[float | Batches]:
        with self._lender.lend(weights) as model, called(self._evaluate, model) as measured:
            yield measured

    def close(self) -> None:
        self._lender.release()


class Evaluator:
    """Measures and judges candidates for one model by the user's own evaluation.

    All evaluations of one commit start from the same state of the global random generators, so an evaluation
    that draws from them sees the same numbers each time.

    Args:
        model: the model in training; one that a framework keeps is asked for when it is first evaluated.
        evaluate: given the model in eval mode, returns a number, or yields (sum, count) for each batch;
            always of the same data in the same order.
        bound: the degradation accepted, and which way is better.
        batches: how many batches of those that `evaluate` yields are taken at first; None for all. More are
            taken once their noise takes too much of the bound.
        stops_early: end an evaluation that yields batches as soon as it is decided.
        replica: makes another model of the same structure; then evaluations run in a child process, and the
            model in training is only read. The child imports both functions, so they stand at the top of a
            module.
        settings: how sure a verdict is.
        on_failure: what becomes of a commit whose evaluation fails: "exact", or "unchecked" (bounded, with a
            degradation that is not measured). Whoever commits looks at it.

    Attributes:
        spent: evaluations so far, in evaluations of the whole sample; baselines and failures count.
        seconds: time they took, swapping weights included.

    Raises:
        UsageError: a setting is none of its values.
    """

    def __init__(
        self,
        model: nn.Module | ModelProvider,
        evaluate: Evaluate,
        bound: Bound,
        *,
        batches: int | None = None,
        stops_early: bool = True,
        replica: Callable[[], nn.Module] | None = None,
        on_failure: OnFailure = "exact",
        settings: SearchSettings = SEARCH_DEFAULTS,
    ) -> None:
        if on_failure not in get_args(OnFailure):
            raise UsageError(f"on_failure cannot be '{on_failure}'", hint="use 'exact' or 'unchecked'")
        self.bound = bound
        self.on_failure: OnFailure = on_failure
        self.spent = 0.0
        self.seconds = 0.0
        self._check = PairedCheck(bound, stops_early=stops_early, settings=settings)
        self._repeated, self._same = False, settings.same
        self._blindness = Blindness(settings)
        self._size = SampleSize(batches, settings)
        self._model, self._evaluate, self._replica = model, evaluate, replica
        self._opened: _Place | None = None

    def __enter__(self) -> Self:
        """Nothing starts before it is needed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give back what is held."""
        self.close()

    def close(self) -> None:
        """Give back host memory and end the child process; what is needed again is made again."""
        if self._opened is not None:
            self._opened.close()

    def baseline(self, step: int, *, repeat: int | None = None) -> Baseline:
        """Evaluate the model as it is.

        Args:
            step: the step whose state this is, for messages.
            repeat: evaluate so many batches twice and refuse if they differ; by default one at the first
                baseline of a run, none after it.

        Raises:
            EvaluationError: the evaluation failed, or trains the model.
            UsageError: it gives nothing finite to compare with, or something else the second time.
        """
        with self._counted(), self.measuring(step) as measured:
            found = Baseline.measure(measured)
        again = (0 if self._repeated else 1) if repeat is None else repeat
        if again:
            with self._counted(again / len(found.batches)), self.measuring(step) as measured:
                check_repeatable(measured, found, batches=again, tolerance=self._same)
        self._repeated = True
        return found

    def judge(self, step: int, weights: Weights, baseline: Baseline, *, whole: bool = False) -> Verdict:
        """Evaluate the model holding `weights` and compare it with the baseline.

        Args:
            step: the step whose state this is, for messages and for bounds that follow a schedule.
            weights: tensors by the names of the model's parameters and buffers; the others keep their values.
                Asked for one at a time.
            baseline: of the same step.
            whole: accept them by the whole sample alone.

        Raises:
            EvaluationError: the evaluation failed, or trains the model.
            UsageError: it gives other batches than for the baseline, or `weights` are not the model's.
        """

        def judged(other: Weights) -> Verdict:
            return self._judged(step, other, baseline, whole=whole)

        verdict = judged(weights)
        self._blindness.judged(verdict, weights, live_tensors(self._module), judged)
        return verdict

    def _judged(self, step: int, weights: Weights, baseline: Baseline, *, whole: bool) -> Verdict:
        epsilon = self.bound.epsilon(step)
        share = 1.0
        try:
            with self.measuring(step, weights) as measured:
                verdict = self._check.judge(measured, baseline, epsilon, whole=whole)
            share = verdict.share
        finally:
            self.spent += share
        return verdict

    @property
    def doubt(self) -> str | None:
        """Why verdicts say nothing, since the evaluation does not see the candidates; None where they do."""
        return self._blindness.doubt

    def names(self, paths: Iterable[Path]) -> dict[Path, str]:
        """Return the names of parameters and buffers by paths of the model's state; see `names_of`."""
        state = self._model.state_dict  # type: ignore[union-attr]  # a provider is saved as well
        return names_of(self._module, state, paths)

    def learn(self, verdicts: Sequence[Verdict], baseline: Baseline, epsilon: float) -> None:
        """Take in how the candidates of a commit fared, for the number of batches of the next one."""
        self._size.learn(verdicts, baseline, epsilon)

    @contextmanager
    def measuring(self, step: int, weights: Weights | None = None) -> Iterator[float | Batches]:
        """Evaluate the model, holding `weights` where given, and give the number or the batches.

        When the block ends, at whichever batch, everything is as it was before.

        Raises:
            EvaluationError: the evaluation failed, or trains the model.
            UsageError: `weights` are not the model's.
        """
        began = perf_counter()
        try:
            with self._place.measuring(weights) as measured:
                yield measured if isinstance(measured, float) else measured.first(self._size.batches)
        except EvaluationError as error:
            raise EvaluationError(
                f"the evaluation of step {step} failed: {error.message}", hint=error.hint
            ) from error
        finally:
            self.seconds += perf_counter() - began

    @property
    def frozen(self) -> frozenset[str]:
        """Names of the model's parameters that are not trained."""
        named = self._module.named_parameters(remove_duplicate=False)
        return frozenset(name for name, parameter in named if not parameter.requires_grad)

    @property
    def _module(self) -> nn.Module:
        return self._model if isinstance(self._model, nn.Module) else self._model.module()

    @property
    def _place(self) -> _Place:
        if self._opened is None:
            self._opened = (
                _InPlace(self._module, self._evaluate)
                if self._replica is None
                else Replica(self._module, self._replica, self._evaluate)
            )
        return self._opened

    @contextmanager
    def _counted(self, share: float = 1.0) -> Iterator[None]:
        try:
            yield
        finally:
            self.spent += min(share, 1.0)
