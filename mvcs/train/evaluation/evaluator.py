"""Evaluating a state in the middle of training, without training noticing."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Literal, Self, get_args

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

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
from mvcs.train.evaluation.live_tensors import (
    OtherWeights,
    Weights,
    live_tensors,
    memory_of,
    names_of,
    tensors_of,
)
from mvcs.train.evaluation.model_swap import ModelLender
from mvcs.train.evaluation.replica import Replica
from mvcs.train.state.host_copies import is_plain
from mvcs.train.state.stateful import ModelProvider, Stateful

OnFailure = Literal["exact", "unchecked"]
_GROUPS: Final = 8  # parts of a model that are looked at by themselves
_MOST: Final = 16  # evaluations that tell which weights are not used
_COPYING: Final = frozenset(
    {"__deepcopy__", "bfloat16", "clone", "contiguous", "copy_", "cpu", "double", "float", "half", "to"}
)
_BAD: Final = 1.0, 4.0  # times the size of the weights; some models mind the first no more than their own


class _InPlace:
    """The model in training itself, lent."""

    def __init__(self, model: nn.Module, evaluate: Evaluate, given: Sequence[nn.Module]) -> None:
        self._lenders = {one: ModelLender(one) for one in given}
        self._model, self._evaluate = model, evaluate

    @contextmanager
    def measuring(
        self, weights: Weights | None, evaluate: Evaluate | None = None
    ) -> Iterator[float | Batches]:
        with ExitStack() as stack:
            for one, lender in self._lenders.items():
                stack.enter_context(lender.lend(weights if one is self._model else None))
            parts = [one.part if isinstance(one, Held) else one for one in self._lenders]
            yield stack.enter_context(called(evaluate or self._evaluate, *parts))

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
        self._opened: _InPlace | Replica | None = None

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
        with self._counted(), self.measuring(step, weights) as measured:
            found = Baseline.measure(measured)
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
        return blindness(
            lambda size: self.judge(step, OtherWeights(weights, size), baseline),
            lambda: self._repeat(step, baseline, own),
            _BAD if weights else (),
        )

    def unused(
        self, step: int, baseline: Baseline, weights: Weights, own: Weights | None = None
    ) -> frozenset[str]:
        """Return the names of weights and buffers that an evaluation does not use; see `look_for_blindness`.

        Those that torch computes something of in the first batch are used. Others are made bad, at first
        together with what stands in the same part of the model, as torch does not tell of all that it does.
        """
        seen = self._seen(baseline, own)
        groups: dict[str, list[str]] = defaultdict(list)
        for name, tensor in self.live.items():
            if name in weights and tensor.untyped_storage().data_ptr() not in seen:
                groups[name.split(".")[0]].append(name)
        several = len(groups) > _GROUPS
        left = deque([[name for group in groups.values() for name in group]] if several else groups.values())
        found = set[str]()
        some_are_seen = sum(map(len, left)) < len(weights)
        tries = _MOST if some_are_seen else len(left)
        while left and tries:
            tries -= 1
            group, is_same = left.popleft(), False
            bad = {**(own or {}), **OtherWeights({name: weights[name] for name in group})}
            with suppress(EvaluationError, UsageError):
                is_same = self.judge(step, bad, baseline).is_same
            found |= {*group} if is_same else set()
            half = 0 if is_same else len(group) // 2
            left += [group[:half], group[half:]] if half else []
        return frozenset(found)

    def _seen(self, baseline: Baseline, own: Weights | None) -> set[int]:
        """Return where the memory begins that torch computes something of in the first batch.

        It is seen here alone, behind evaluations that may have cached something, and not of code that torch
        compiles, which would be compiled again.
        """
        seen, place = _Used(), self._place

        def evaluate(*parts: object) -> float:
            with seen, called(self._evaluate, *parts) as measured:
                deque(() if isinstance(measured, float) else measured.first(1), maxlen=0)
            return 0.0

        if isinstance(place, _InPlace) and not any(
            hasattr(one, "_orig_mod") for one in self.module.modules()
        ):
            with (
                suppress(EvaluationError, UsageError),
                self._counted(1 / len(baseline.batches)),
                self.around(),
                place.measuring(own, evaluate),
            ):
                pass
        return seen.memory

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
    def _place(self) -> _InPlace | Replica:
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


class _Used(TorchFunctionMode):
    """Notes the tensors whose values torch's functions are given; copies count as what they are of.

    Attributes:
        memory: addresses of their storages.
    """

    def __init__(self) -> None:
        super().__init__()
        self.memory = set[int]()
        self._copied = dict[int, set[int]]()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        _: object,
        args: Any = (),  # noqa: ANN401 - any
        kwargs: Any = None,  # noqa: ANN401 - any
    ) -> Any:  # noqa: ANN401 - whatever is computed
        found = func(*args, **(kwargs or {}))
        with suppress(RuntimeError):  # what stands for a tensor, as within vmap, has no storage
            own = [one for one in args if not isinstance(one, Mapping)]  # a memo of copies has all others
            given, made = _storages([own, kwargs]), _storages([found])
            is_view = made <= given
            for one in made - given:  # memory is used again
                self._copied.pop(one, None)
            given = given.union(*(self._copied.get(one, ()) for one in given))
            if getattr(func, "__name__", "") in _COPYING:
                self._copied |= dict.fromkeys(made, given)
            elif not is_view:
                self.memory |= given
        return found


def _storages(value: object) -> set[int]:
    return {one.untyped_storage().data_ptr() for _, one in tensors_of(value, ()) if is_plain(one)}


def blindness(
    judge: Callable[[float], Verdict], repeat: Callable[[], object], sizes: Sequence[float] = _BAD
) -> str | None:
    """Return why no verdict of an evaluation says anything; None where verdicts do.

    Args:
        judge: evaluates weights that are certainly bad, of so many times the magnitude of their own.
        repeat: evaluates the original again, and raises UsageError where it gives something else.
        sizes: what to try.
    """
    for size in sizes:
        try:
            bad = judge(size)
        except (EvaluationError, UsageError):
            return None  # it fails with other weights, or gives other batches
        if not bad.accepted:
            break
        if bad.is_same or size == sizes[-1]:
            told = "exactly what it gives" if bad.is_same else "no worse a value than"
            return (
                f"the evaluation gave for quite other weights {told} for those of the model: "
                "does it use the model that it is given?"
            )
    try:
        repeat()
    except UsageError as error:
        return f"an evaluation depends on those before it: {error.message}"
    return None


def _module_of(model: nn.Module | ModelProvider) -> nn.Module:
    return model if isinstance(model, nn.Module) else model.module()
