"""Evaluating a state in the middle of training, without training noticing."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from itertools import chain
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self, get_args
from weakref import WeakSet

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from mvcs.errors import EvaluationError, UsageError
from mvcs.objects import Path, path_text
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
from mvcs.train.evaluation.call_evaluate import Batches, Evaluate, called
from mvcs.train.evaluation.live_tensors import OtherWeights, Weights, live_tensors
from mvcs.train.evaluation.model_swap import ModelLender
from mvcs.train.evaluation.replica import Replica
from mvcs.train.evaluation.state_names import memory_of, names_of, tensors_of
from mvcs.train.state.stateful import ModelProvider, Stateful

OnFailure = Literal["exact", "unchecked"]
_GROUPS: Final = 8  # parts of a model that are looked at by themselves
_BAD: Final = 1.0, 4.0  # times the size of the weights; some models mind the first no more than their own


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

    def __init__(self, model: nn.Module, evaluate: Evaluate, given: Sequence[nn.Module]) -> None:
        self._lenders = {one: ModelLender(one) for one in given}
        self._model, self._evaluate = model, evaluate

    @contextmanager
    def measuring(self, weights: Weights | None) -> Iterator[float | Batches]:
        with ExitStack() as stack:
            for one, lender in self._lenders.items():
                stack.enter_context(lender.lend(weights if one is self._model else None))
            parts = [one.part if isinstance(one, Held) else one for one in self._lenders]
            yield stack.enter_context(called(self._evaluate, *parts))

    def close(self) -> None:
        for lender in self._lenders.values():
            lender.release()


class Held(nn.Module):
    """A further part of a run that is no module, as one: its buffers are the tensors of the part's state."""

    def __init__(self, extra: Mapping[str, object], name: str) -> None:
        super().__init__()
        self._extra, self._name = extra, name

    @property
    def part(self) -> object:
        """What the run has under that name now."""
        return self._extra[self._name]

    def state_dict(self, *_: object, **__: object) -> Any:  # noqa: ANN401 - as of any part
        """Return the state of the part."""
        return self.part.state_dict() if isinstance(self.part, Stateful) else self.part

    def named_buffers(self, *_: object, **__: object) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the tensors of the state by their paths."""
        return ((path_text(path), tensor) for path, tensor in tensors_of(self.state_dict(), ()))


def held(extra: Mapping[str, object], name: str) -> nn.Module:
    """Return a further part of a run as what can be evaluated."""
    part = extra[name]
    return part if isinstance(part, nn.Module) else Held(extra, name)


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
        given: what `evaluate` is given where that is more than the model, which is one of them.
        on_failure: what becomes of a commit whose evaluation fails: "exact", or "unchecked" (bounded, with a
            degradation that is not measured). Whoever commits looks at it.

    Attributes:
        spent: evaluations so far, in evaluations of the whole sample; baselines and failures count.
        seconds: time they took, swapping weights included.
        around: makes a context for each evaluation.

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
        given: Sequence[nn.Module | ModelProvider] = (),
    ) -> None:
        if on_failure not in get_args(OnFailure):
            raise UsageError(f"on_failure cannot be '{on_failure}'", hint="use 'exact' or 'unchecked'")
        self.bound = bound
        self.on_failure: OnFailure = on_failure
        self.spent = 0.0
        self.seconds = 0.0
        self.around: Callable[[], AbstractContextManager[None]] = nullcontext
        self._check = PairedCheck(bound, stops_early=stops_early, settings=settings)
        self._repeated, self._same = False, settings.same
        self._size = SampleSize(batches, settings)
        self._model, self._evaluate, self._replica = model, evaluate, replica
        self._given = given or [model]
        self._called = WeakSet[nn.Module]()
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

    def baseline(self, step: int, weights: Weights | None = None, *, repeat: int | None = None) -> Baseline:
        """Evaluate the model as it is, or as it would be with other weights that were handed over.

        Args:
            step: the step whose state this is, for messages.
            weights: as for `judge`, such as an average of the model's.
            repeat: evaluate so many batches twice and refuse if they differ; by default one at the first
                baseline of a run, none after it.

        Raises:
            EvaluationError: the evaluation failed, or trains the model.
            UsageError: it gives nothing finite to compare with, or something else the second time.
        """
        noted = register_module_forward_pre_hook(lambda module, _: self._called.add(module))
        try:
            with self._counted(), self.measuring(step, weights) as measured:
                found = Baseline.measure(measured)
        finally:
            noted.remove()
        again = (0 if self._repeated else 1) if repeat is None else repeat
        if again:
            self._repeat(step, found, weights, again)
        self._repeated = True
        return found

    def _repeat(self, step: int, baseline: Baseline, weights: Weights | None, batches: int = 1) -> None:
        with self._counted(batches / len(baseline.batches)), self.measuring(step, weights) as measured:
            check_repeatable(measured, baseline, batches=batches, tolerance=self._same)

    def look_for_blindness(
        self, step: int, baseline: Baseline, weights: Weights, own: Weights | None = None
    ) -> str | None:
        """Evaluate weights that are certainly bad, then those of the baseline again.

        Args:
            step: as for `judge`.
            baseline: of the same step.
            weights: those of a candidate, which are made bad.
            own: those that the baseline was measured of.

        Returns:
            why no verdict says anything: bad weights are told to be as good, or the evaluation remembers
            them. None where verdicts do.
        """
        for size in _BAD if weights else ():
            try:
                bad = self.judge(step, OtherWeights(weights, size), baseline)
            except (EvaluationError, UsageError):
                return None  # it fails with other weights, or gives other batches
            if not bad.accepted:
                break
            if bad.is_same or size == _BAD[-1]:
                told = "exactly what it gives" if bad.is_same else "no worse a value than"
                return (
                    f"the evaluation gave for quite other weights {told} for those of the model: "
                    "does it use the model that it is given?"
                )
        try:
            self._repeat(step, baseline, own)
        except UsageError as error:
            return f"an evaluation depends on those before it: {error.message}"
        return None

    def unused(
        self, step: int, baseline: Baseline, weights: Weights, own: Weights | None = None
    ) -> frozenset[str]:
        """Return the names of weights and buffers that an evaluation does not use; see `look_for_blindness`.

        Those of modules that were called are used. Others are made bad, together with what stands in the same
        part of the model, as a weight may be used without its module.
        """
        groups: dict[str, dict[str, torch.Tensor]] = defaultdict(dict)
        for place, module in self.module.named_modules():
            each = chain(module.named_parameters(recurse=False), module.named_buffers(recurse=False))
            for last, _ in each if module not in self._called else ():
                name = f"{place}.{last}" if place else last
                if name in weights:
                    groups[name.split(".")[0]][name] = weights[name]
        if len(groups) > _GROUPS:
            groups = {"": {name: value for group in groups.values() for name, value in group.items()}}
        found = set[str]()
        for group in groups.values():
            bad = {**(own or {}), **OtherWeights(group)}
            with suppress(EvaluationError, UsageError):
                found |= group.keys() if self.judge(step, bad, baseline).is_same else set()
        return frozenset(found)

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
    def live(self) -> Weights:
        """The parameters and buffers of the model, by name."""
        return live_tensors(self.module)

    def names(self, paths: Iterable[Path]) -> dict[Path, str]:
        """Return the names of parameters and buffers by paths of the model's state; see `names_of`."""
        state = self._model.state_dict  # type: ignore[union-attr]  # a provider is saved as well
        return names_of(self.module, state, paths)

    def copies(self, paths: Iterable[Path]) -> dict[Path, str]:
        """Return those of `names` whose values need not be the model's: some states have an average there."""
        names, live = self.names(paths), self.live
        if self._model is not self.module:  # asking a framework once more may take long
            return names
        state = [(path, one) for path, one in tensors_of(self.module.state_dict(), ()) if path in names]
        return {path: names[path] for path, one in state if memory_of(one) != memory_of(live[names[path]])}

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
            with self.around(), self._place.measuring(weights) as measured:
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
        named = self.module.named_parameters(remove_duplicate=False)
        return frozenset(name for name, parameter in named if not parameter.requires_grad)

    @property
    def module(self) -> nn.Module:
        """The model."""
        return _module_of(self._model)

    @property
    def _place(self) -> _Place:
        if self._opened is None:
            self._opened = (
                _InPlace(self.module, self._evaluate, [_module_of(one) for one in self._given])
                if self._replica is None
                else Replica(self.module, self._replica, self._evaluate)
            )
        return self._opened

    @contextmanager
    def _counted(self, share: float = 1.0) -> Iterator[None]:
        try:
            yield
        finally:
            self.spent += min(share, 1.0)


def _module_of(model: nn.Module | ModelProvider) -> nn.Module:
    return model if isinstance(model, nn.Module) else model.module()
