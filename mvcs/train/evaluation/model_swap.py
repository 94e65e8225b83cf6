"""A model lent to an evaluation, holding other weights, and taken back exactly as it was."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, Self

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from mvcs.errors import EvaluationError, MvcsError
from mvcs.train.evaluation.call_evaluate import described
from mvcs.train.evaluation.live_tensors import Weights, assign, has_bits, live_tensors, memory_of, write
from mvcs.train.state import rng
from mvcs.train.state.host_copies import HostBuffers, is_plain
from mvcs.train.state.side_effects import is_same_state

_TRAINS = "evaluate trains the model"
_EVALUATE_ONLY = "let evaluate compute the metric alone; its changes were undone"
_OR_SWITCHES = ", or the model's own train() changes weights that are trained"
_MODULES: Final = "_modules"
_REGISTRIES: Final = ("_parameters", "_buffers", _MODULES)
_HOOKS: Final = tuple(
    name for name, held in vars(nn.Module()).items() if isinstance(held, dict) and "_hooks" in name
)
_NOTHING: Final[Mapping[Any, Any]] = {}
_MISSING: Final = object()
_PARAMETRIZED: Final = "parametrizations"  # where torch.nn.utils.parametrize registers what computes weights


class ModelLostError(MvcsError):
    """A lent model could not be put back: it holds other weights, which nobody may train on with."""


class ModelLender:
    """Lends one model.

    Whatever an evaluation does to the model is undone in place. Parameters and buffers keep the memory that
    optimizers and graphs refer to, and get back every bit. Train and eval mode, gradients, what requires one,
    which modules, parameters, buffers and hooks there are, what modules give as `get_extra_state`, and the
    global random generators are put back too.
    The mode is put back by the modules' own `train`, and with it what moves with the mode, such as a flag.
    Other attributes are where an evaluation did what it may not. That takes host memory for one copy of the
    model, allocated at the first loan and used again.

    Args:
        model: the model; it may be lent once at a time, by the thread that trains it.
        saves: put values back. A replica, whose values are written anew for each loan, does without the copy.
    """

    def __init__(self, model: nn.Module, *, saves: bool = True) -> None:
        self._model = model
        self._saves = saves
        self._host = HostBuffers()

    @property
    def nbytes(self) -> int:
        """Bytes of host memory held."""
        return self._host.nbytes

    def release(self) -> None:
        """Give the host memory back until the next loan."""
        self._host = HostBuffers()

    @contextmanager
    def lend(self, weights: Weights | None = None) -> Iterator[nn.Module]:
        """Lend the model in eval mode, holding `weights`, without gradients being recorded.

        Args:
            weights: tensors by the names of the model's parameters and buffers; the others keep their values.
                They are asked for one at a time, so a mapping may make them when asked.

        Raises:
            UsageError: a name, shape or dtype is not the model's.
            EvaluationError: a parameter was changed, or an optimizer of one was to step, which was prevented;
                or modules were replaced, added or removed; or there is no memory for the copy.
            ModelLostError: it could not be put back, such as on a device that has failed for good.
        """
        before, modes = _Before.of(self._model), _Modes(self._model)
        saved = self._copied(before.tensors) if self._saves else before.tensors
        generators = rng.capture()
        is_clean = False
        try:
            before.put_gradients_aside()
            write(before.tensors, weights or {})
            modes.begin_evaluation()
            torch.clear_autocast_cache()  # it holds casts of the weights that were there
            with torch.no_grad(), _without_steps(before.parameters) as stepped:
                unchanged = _fingerprint(before.values)
                yield self._model
                moved = before.moved(unchanged)
            trains = stepped or before.trains(moved, may_merge=modes.are_own)
            modes.put_back()
            because = _TRAINS + (_OR_SWITCHES if modes.are_own else "")
            wrong = because if trains else before.restructured() or modes.failure
            is_clean = wrong is None and not any(moved)
        finally:
            undo = partial(_undo, before, saved, generators, modes)
            _put_back_for_sure(lambda: undo(attributes=not is_clean))
        if wrong is not None:
            raise EvaluationError(wrong, hint=_EVALUATE_ONLY)

    def _copied(self, tensors: Weights) -> Weights:
        try:
            return self._host.copy(dict(tensors))  # type: ignore[return-value]  # a dict comes back as one
        except (MemoryError, RuntimeError) as error:
            nbytes = sum(tensor.nbytes for tensor in tensors.values())
            raise EvaluationError(f"no memory to copy the model's {nbytes} bytes: {error}") from error


def _undo(
    before: "_Before", saved: Weights, generators: dict[str, Any], modes: "_Modes", *, attributes: bool
) -> None:
    """Put everything back; what fails does not keep the rest from being tried."""
    with ExitStack() as stack:
        stack.callback(rng.restore, generators)
        stack.callback(torch.clear_autocast_cache)
        stack.callback(before.take_back, saved, attributes=attributes)
        stack.callback(modes.put_back)  # first: what it does to weights is undone behind it


def _put_back_for_sure(undo: Callable[[], None]) -> None:
    """Call `undo`, and once more where it did not get to its end.

    Raises:
        ModelLostError: neither did.
    """
    try:
        undo()
    except BaseException as error:
        try:
            undo()
        except Exception as again:
            raise ModelLostError(
                f"the model could not be put back after an evaluation: {described(again)}",
                hint="its weights are not the run's: end the program, and resume from the newest commit",
            ) from again
        if not isinstance(error, Exception):
            raise


@dataclass(frozen=True)
class _Tensor:
    """One parameter or buffer: the object, its memory, and its gradient."""

    tensor: torch.Tensor
    memory: torch.Tensor
    requires_grad: bool
    gradient: torch.Tensor | None

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "_Tensor":
        gradient = tensor.grad if tensor.is_leaf else None
        return cls(tensor, tensor.data, tensor.requires_grad, gradient)

    def take_back(self) -> None:
        if memory_of(self.tensor) != memory_of(self.memory):
            self.tensor.data = self.memory
        if not self.tensor.is_leaf:
            return
        if self.tensor.requires_grad is not self.requires_grad:
            self.tensor.requires_grad_(self.requires_grad)
        self.tensor.grad = self.gradient


@dataclass(frozen=True)
class _Before:
    """The model before a loan."""

    modules: list["_Module"]
    held: list[_Tensor]
    parameters: list[nn.Parameter]
    tensors: Weights
    values: list[torch.Tensor]
    frozen: list[bool]
    extras: list[tuple[nn.Module, Any]]

    @classmethod
    def of(cls, model: nn.Module) -> "_Before":
        parameters = list(model.parameters())
        held = [_Tensor.of(tensor) for tensor in chain(parameters, model.buffers()) if is_plain(tensor)]
        plain = [parameter for parameter in parameters if is_plain(parameter) and parameter.numel()]
        values = [parameter.data for parameter in plain]
        frozen = [not parameter.requires_grad for parameter in plain]
        none = nn.Module.get_extra_state
        own = (child for child in model.modules() if type(child).get_extra_state is not none)
        extras = [(child, copy.deepcopy(child.get_extra_state())) for child in own]
        modules = [_Module.of(name, module) for name, module in model.named_modules()]
        return cls(modules, held, parameters, live_tensors(model), values, frozen, extras)

    def put_gradients_aside(self) -> None:
        """Leave no gradient in place: whatever an evaluation accumulates or zeroes is its own."""
        for held in self.held:
            if held.gradient is not None:
                held.tensor.grad = None

    def moved(self, unchanged: list[int]) -> list[bool]:
        """Return which of the parameters `values` are others than their fingerprints say."""
        return [now != then for now, then in zip(_fingerprint(self.values), unchanged, strict=True)]

    def trains(self, moved: list[bool], *, may_merge: bool) -> bool:
        """Tell whether an evaluation trained the model.

        Args:
            moved: which parameters changed.
            may_merge: a switch of the mode may have merged an adapter into frozen ones, and taken it out.
        """
        return any(
            own and not (may_merge and is_frozen) for own, is_frozen in zip(moved, self.frozen, strict=True)
        )

    def restructured(self) -> str | None:
        """Return which modules are others now, in words; None where none is."""
        changes = [change for module in self.modules for change in module.changes()]
        if not changes:
            return None
        first, *others = changes
        more = f", and made {len(others)} more change{'s' * (len(others) > 1)} to its modules"
        return f"evaluate {first}{more if others else ''}"

    def take_back(self, saved: Weights, *, attributes: bool) -> None:
        for each in self.modules:
            each.put_back(attributes=attributes)
        for held in self.held:
            held.take_back()
        for name, tensor in self.tensors.items():
            # What holds its bits is not written: memory that is only read may lie behind a buffer.
            if saved[name] is not tensor and not has_bits(tensor, saved[name]):
                assign(tensor, saved[name])
        for module, state in self.extras:
            if not is_same_state(module.get_extra_state(), state, unknown=False):
                module.set_extra_state(copy.deepcopy(state))


@contextmanager
def _without_steps(parameters: Iterable[nn.Parameter]) -> Iterator[list[object]]:
    """Refuse steps of optimizers that hold one of `parameters`, and collect who tried."""
    own = {id(parameter) for parameter in parameters}
    stepped: list[object] = []

    def refuse(optimizer: torch.optim.Optimizer, *_: object) -> None:
        if any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"]):
            stepped.append(optimizer)
            raise EvaluationError(_TRAINS, hint=_EVALUATE_ONLY)

    handle = register_optimizer_step_pre_hook(refuse)
    try:
        yield stepped
    finally:
        handle.remove()


def _fingerprint(tensors: Iterable[torch.Tensor]) -> list[int]:
    """Return a sum of the bits of each tensor, none of them empty, added up where it lies.

    That takes half the time of a copy.
    """
    sums = [_sum(tensor) for tensor in tensors]
    return [int(found) for found in sums]


def _sum(tensor: torch.Tensor) -> torch.Tensor:
    raw = tensor.contiguous().view(-1).view(torch.uint8)
    whole = raw.numel() // 8 * 8
    words = raw[:whole]
    if words.storage_offset() % 8:
        words = words.clone()
    return words.view(torch.int64).sum() + raw[whole:].sum(dtype=torch.int64)


class _Modes:
    """The modes of a model's modules as they are now, and what a change of them moves.

    Attributes:
        are_own: whether a module has a `train` or `eval` of its own.
        failure: why the modes could not be put back by these, in words.
    """

    def __init__(self, model: nn.Module) -> None:
        """Take note of the modes, and of what modules have beside them."""
        self._model = model
        self._modes = [(module, module.training) for module in model.modules()]
        self.are_own = any(map(_has_own, model.modules()))
        self._before = self._attributes()
        self._moved: set[tuple[int, str]] = set()
        self.failure: str | None = None

    def begin_evaluation(self) -> None:
        """Put the model in eval mode."""
        self._model.eval()
        self._moved.update(self._changes(self._before))

    def put_back(self) -> None:
        """Give each module its mode by its own `train`, parents first, which undoes what `eval` did.

        Attributes that move with the modes then are what they were, such as a flag that weights are merged.
        """
        if self.failure is None and self.are_own:
            now = self._attributes()
            try:
                for module, training in self._modes:
                    if module.training is not training:
                        module.train(training)
            except Exception as error:  # noqa: BLE001 - the user's code
                self.failure = f"the model's own train() failed: {described(error)}"
            self._moved.update(self._changes(now))
        for index, name in self._moved:
            self._put_back(index, name)

    def _put_back(self, index: int, name: str) -> None:
        held, before = vars(self._modes[index][0]), self._before[index]
        if name in before:
            held[name] = before[name]
        else:
            held.pop(name, None)

    def _attributes(self) -> list[Mapping[str, Any]]:
        return [dict(vars(module)) for module, _ in self._modes] if self.are_own else []

    def _changes(self, earlier: list[Mapping[str, Any]]) -> Iterator[tuple[int, str]]:
        """Yield the index of each module that has another attribute than earlier, and its name."""
        for index, (before, now) in enumerate(zip(earlier, self._attributes(), strict=True)):
            for name in before.keys() | now.keys():
                if before.get(name, _MISSING) is not now.get(name, _MISSING):
                    yield index, name


def _has_own(module: nn.Module) -> bool:
    kind, own = type(module), vars(module)
    inherits = kind.train is nn.Module.train and kind.eval is nn.Module.eval
    return not inherits or "train" in own or "eval" in own


class _Module(NamedTuple):
    """One module: its mode, its class, what is registered in it, and its other attributes."""

    name: str
    module: nn.Module
    training: bool
    kind: type[nn.Module]
    properties: Mapping[str, property]
    attributes: Mapping[str, Any]
    held: Mapping[str, Any]
    before: Mapping[str, Mapping[Any, Any]]

    @classmethod
    def of(cls, name: str, module: nn.Module) -> Self:
        attributes = dict(vars(module))
        # Read as attributes, since modules of TorchScript have these elsewhere.
        held = {registry: getattr(module, registry) for registry in _REGISTRIES}
        held |= {hooks: attributes[hooks] for hooks in _HOOKS if hooks in attributes}
        before = {registry: dict(inside) for registry, inside in held.items() if inside}
        made = vars(type(module)).items() if _PARAMETRIZED in held[_MODULES] else ()
        properties = {name: one for name, one in made if isinstance(one, property)}
        return cls(name, module, module.training, type(module), properties, attributes, held, before)

    def changes(self) -> Iterator[str]:
        """Yield what training would mind: other submodules, another class, or a hook that is gone.

        A hook that was added is no change: an evaluation that listens to layers may end before it stops.
        """
        children = self.before.get(_MODULES, _NOTHING)
        now = getattr(self.module, _MODULES)
        if not _is_same(now, children):
            yield from self._other_children(dict(now), children)
        if type(self.module) is not self.kind:
            yield f"changed the class of {self._described}"
        hooks = self.before.keys() - _REGISTRIES
        if any(key not in getattr(self.module, name) for name in hooks for key in self.before[name]):
            yield f"removed a hook of {self._described}"

    def _other_children(self, now: Mapping[str, Any], children: Mapping[str, Any]) -> Iterator[str]:
        for key in children:
            if key not in now:
                yield f"removed the module '{self._path(key)}'"
            elif now[key] is not children[key]:
                yield f"replaced the module '{self._path(key)}'"
        yield from (f"added the module '{self._path(key)}'" for key in now if key not in children)

    def put_back(self, *, attributes: bool) -> None:
        if type(self.module) is not self.kind:
            self.module.__class__ = self.kind
        for name, made in self.properties.items():
            # Removing a parametrization takes its property off the class, which is this module's own.
            if name not in vars(self.kind):
                setattr(self.kind, name, made)
        for name, held in self.held.items():
            if getattr(self.module, name) is not held:
                setattr(self.module, name, held)
            _put_back(held, self.before.get(name, _NOTHING))
        if attributes:
            vars(self.module).clear()
            vars(self.module).update(self.attributes)
        if self.module.training is not self.training:
            self.module.training = self.training

    def _path(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key

    @property
    def _described(self) -> str:
        return f"the module '{self.name}'" if self.name else "the model"


def _put_back(held: dict[Any, Any], before: Mapping[Any, Any]) -> None:
    if (held or before) and not _is_same(held, before):
        held.clear()
        held.update(before)


def _is_same(now: Mapping[Any, Any], before: Mapping[Any, Any]) -> bool:
    if len(now) != len(before):
        return False
    pairs = zip(now.items(), before.items(), strict=True)
    return all(here[0] == there[0] and here[1] is there[1] for here, there in pairs)
