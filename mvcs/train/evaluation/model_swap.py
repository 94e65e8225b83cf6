"""A model lent to an evaluation, holding other weights, and taken back exactly as it was."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import nn

from mvcs.errors import EvaluationError, MvcsError
from mvcs.train.evaluation.call_evaluate import described
from mvcs.train.evaluation.live_tensors import Weights, assign, has_bits, live_tensors, write
from mvcs.train.evaluation.module_modes import ModuleModes
from mvcs.train.evaluation.module_structure import ModuleStructure
from mvcs.train.evaluation.training_attempts import EVALUATE_ONLY, TRAINS, fingerprint, without_steps
from mvcs.train.state import rng
from mvcs.train.state.host_copies import is_plain
from mvcs.train.state.snapshot import HostBuffers

_OR_SWITCHES = ", or the model's own train() changes weights that are trained"


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
        before, modes = _Before.of(self._model), ModuleModes(self._model)
        saved = self._copied(before.tensors) if self._saves else before.tensors
        generators = rng.capture()
        is_clean = False
        try:
            before.put_gradients_aside()
            write(before.tensors, weights or {})
            modes.begin_evaluation()
            torch.clear_autocast_cache()  # it holds casts of the weights that were there
            with torch.no_grad(), without_steps(before.parameters) as stepped:
                unchanged = fingerprint(before.values)
                yield self._model
                moved = before.moved(unchanged)
            trains = stepped or before.trains(moved, may_merge=modes.are_own)
            modes.put_back()
            wrong = _trains(modes) if trains else before.restructured() or modes.failure
            is_clean = wrong is None and not any(moved)
        finally:
            undo = partial(_undo, before, saved, generators, modes)
            _put_back_for_sure(lambda: undo(attributes=not is_clean))
        if wrong is not None:
            raise EvaluationError(wrong, hint=EVALUATE_ONLY)

    def _copied(self, tensors: Weights) -> Weights:
        try:
            return self._host.copy(dict(tensors))  # type: ignore[return-value]  # a dict comes back as one
        except (MemoryError, RuntimeError) as error:
            nbytes = sum(tensor.nbytes for tensor in tensors.values())
            raise EvaluationError(f"no memory to copy the model's {nbytes} bytes: {error}") from error


def _trains(modes: ModuleModes) -> str:
    return TRAINS + (_OR_SWITCHES if modes.are_own else "")


def _undo(
    before: "_Before", saved: Weights, generators: dict[str, Any], modes: ModuleModes, *, attributes: bool
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
        if not _is_same_memory(self.tensor, self.memory):
            self.tensor.data = self.memory
        if not self.tensor.is_leaf:
            return
        if self.tensor.requires_grad is not self.requires_grad:
            self.tensor.requires_grad_(self.requires_grad)
        self.tensor.grad = self.gradient


def _is_same_memory(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    if tensor.dtype != other.dtype or tensor.device != other.device:
        return False
    alike = tensor.shape == other.shape and tensor.stride() == other.stride()
    return alike and tensor.data_ptr() == other.data_ptr()


@dataclass(frozen=True)
class _Before:
    """The model before a loan."""

    modules: ModuleStructure
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
        own = (child for child in model.modules() if _has_extra_state(child))
        extras = [(child, copy.deepcopy(child.get_extra_state())) for child in own]
        return cls(ModuleStructure(model), held, parameters, live_tensors(model), values, frozen, extras)

    def put_gradients_aside(self) -> None:
        """Leave no gradient in place: whatever an evaluation accumulates or zeroes is its own."""
        for held in self.held:
            if held.gradient is not None:
                held.tensor.grad = None

    def moved(self, unchanged: list[int]) -> list[bool]:
        """Return which of the parameters `values` are others than their fingerprints say."""
        return [now != then for now, then in zip(fingerprint(self.values), unchanged, strict=True)]

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
        change = self.modules.change()
        return None if change is None else f"evaluate {change}"

    def take_back(self, saved: Weights, *, attributes: bool) -> None:
        self.modules.put_back(attributes=attributes)
        for held in self.held:
            held.take_back()
        for name, tensor in self.tensors.items():
            # What holds its bits is not written: memory that is only read may lie behind a buffer.
            if saved[name] is not tensor and not has_bits(tensor, saved[name]):
                assign(tensor, saved[name])
        for module, state in self.extras:
            if not _is_alike(module.get_extra_state(), state):
                module.set_extra_state(copy.deepcopy(state))


def _has_extra_state(module: nn.Module) -> bool:
    return type(module).get_extra_state is not nn.Module.get_extra_state


def _is_alike(one: Any, other: Any) -> bool:  # noqa: ANN401 - whatever a module has
    """Tell whether two states are surely the same."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_is_alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_is_alike, one, other))
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return isinstance(one, int | float | str | bytes | None) and one == other
