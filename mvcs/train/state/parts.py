"""The parts of a training run: gathered into one nested state, and loaded back from it."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from mvcs.checkpoint import GRADIENTS
from mvcs.errors import UsageError
from mvcs.train.state import rng
from mvcs.train.state.fit_check import check_fit, check_own_state, starts_anew
from mvcs.train.state.gradients import Accumulations, UnusedGradients
from mvcs.train.state.loaders import position_of
from mvcs.train.state.loading import is_checked, load, load_others, placed_like
from mvcs.train.state.optimizers import PARAMETERS, Optimizers
from mvcs.train.state.stateful import ModelProvider, Stateful

_logger = logging.getLogger("mvcs.train")


@dataclass(frozen=True)
class Loaded:
    """What became of a state.

    Attributes:
        step: the step after which it was taken.
        parts: names of the parts that took over their state.
        anew: names of the parts that it has no state for.
    """

    step: int
    parts: tuple[str, ...]
    anew: tuple[str, ...]


class Parts:
    """Everything of a run that a commit holds.

    The state is `{"model", "optimizer", "scheduler", "scaler", "loader", "rng", "extra", "step"}`, in this
    order; a part that was not given is None, and `extra` is a dict by name. Between a backward pass and the
    optimizer's step, "optimizer_gradients" stands before "step", and before both "optimizer_parameters", with
    what torch leaves out of the states of optimizers.

    Attributes:
        extra: further parts by name: objects with a state, torch generators, or plain values. Loading a state
            replaces plain values here.
    """

    def __init__(
        self, named: Mapping[str, object | None], extra: Mapping[str, object] | None = None, *, use_rng: bool
    ) -> None:
        """Take the parts.

        Raises:
            StateError: a part holds what cannot be stored; the message names its path.
            UsageError: a part has no state_dict and load_state_dict, or a model does not load its own state.
        """
        for name, part in named.items():
            # A loader without a state is common; the log says so.
            if part is not None and name != "loader" and not isinstance(part, Stateful):
                raise _without_state(name, part)
        stateful = {name: part for name, part in named.items() if isinstance(part, Stateful)}
        self._named = {name: stateful.get(name) for name in named}
        self.extra = dict(extra or {})
        model: object = named.get("model")
        in_framework = isinstance(model, ModelProvider) and not isinstance(model, nn.Module)
        if "loader" in named and not (in_framework and named["loader"] is None):
            self._named["loader"] = position_of(named["loader"], self.extra.values())
        if not in_framework:
            self._check()
        self._use_rng = use_rng
        further = {f"extra.{name}": part for name, part in self.extra.items()}
        self._accumulations = Accumulations({**stateful, **further})
        self._optimizers = Optimizers({**stateful, **further})
        self._unused = UnusedGradients()
        self._noted = 0

    @property
    def beside(self) -> dict[str, object]:
        """All parts but the model and the loader, by their places in the state."""
        named = {name: part for name, part in self._named.items() if name not in {"model", "loader"}}
        return named | {f"extra.{name}": part for name, part in self.extra.items()}

    def close(self) -> None:
        """Let go of the optimizers."""
        self._accumulations.close()

    def _check(self) -> None:
        """Refuse parts of which a commit, or a resume, is bound to fail.

        A loader is not asked, since that may start its processes.
        """
        named = [((name,), part) for name, part in self._named.items() if name != "loader"]
        for path, part in (*named, *((("extra", name), part) for name, part in self.extra.items())):
            try:
                state = _gathered(part)
            except Exception:  # noqa: BLE001, S112 - others' code: a commit says what is wrong with it
                continue
            check_own_state(path, part, state)

    def gather_model(self, step: int) -> dict[str, object]:
        """Return the state of the model alone after `step`; its tensors are the live ones."""
        model = self._named["model"]
        return {"model": None if model is None else model.state_dict(), "step": step}

    def gather(self, step: int) -> dict[str, object]:
        """Return the state after `step`; its tensors are the live ones."""
        state: dict[str, object] = {
            name: None if part is None else part.state_dict() for name, part in self._named.items()
        }
        state["rng"] = rng.capture() if self._use_rng else None
        state["extra"] = {name: _gathered(value) for name, value in self.extra.items()}
        parameters = self._optimizers.gather(state)
        if parameters:
            state[PARAMETERS] = parameters
        gradients = self._accumulations.gather()
        if gradients:
            state[GRADIENTS] = gradients
        state["step"] = step
        return state

    def notes(self, state: object) -> tuple[str, ...]:
        """Return what there is to tell of a copy of a state that was gathered, once in a run."""
        saved = state.get(GRADIENTS, {}) if isinstance(state, dict) else {}
        seen = self._accumulations.seen
        told = self._unused.notes({name: gradients for name, gradients in saved.items() if name in seen})
        self._noted += 1
        return told if self._noted != 2 else (*told, *map(_never_stepped, self._accumulations.idle))

    def load(self, state: dict[str, Any], source: str) -> Loaded:
        """Load a state that `gather` returned.

        Parts that only one side has are left alone, and named in the log.

        Args:
            state: what a commit of a run restored.
            source: what to call it in messages.

        Raises:
            UsageError: it does not fit the parts; nothing is changed.
        """
        try:
            state = self._checked(state, source)
        except BaseException:
            self._optimizers.undo()
            raise
        for name, part in self._named.items():
            self._load_part(name, part, state.get(name), source)
        self._load_extra(state.get("extra") or {}, source)
        self._optimizers.settle(state, source)
        self._optimizers.train_added()
        self._accumulations.load(state.get(GRADIENTS) or {})
        # Last: loading the others may draw random numbers.
        if self._use_rng and state.get("rng") is not None:
            rng.restore(state["rng"])
        return Loaded(int(state["step"]), *self._told(state))

    def _checked(self, state: dict[str, Any], source: str) -> dict[str, Any]:
        """Find out whether a state fits, all parts of it, and load those that judge it.

        Returns it with the states of optimizers in the order of the parameters here.
        """
        for name, part, saved in self._pairs(state):
            if isinstance(part, nn.Module):
                check_fit(name, part, saved, source)
        state = self._optimizers.arrange(state, GRADIENTS, source)
        pairs = self._pairs(state)
        for name, part, saved in pairs:
            check_fit(name, part, saved, source)
        self._accumulations.check(state.get(GRADIENTS) or {}, source)
        load_others(pairs, source)
        return state

    def _pairs(self, state: dict[str, Any]) -> list[tuple[str, object, Any]]:
        """Return what to call each part, the part, and the state that it is to take over, if there is one."""
        extra = state.get("extra") or {}
        found: list[tuple[str, object, Any]]
        found = [(name, part, state.get(name)) for name, part in self._named.items()]
        found += [(f"extra '{name}'", part, extra.get(name)) for name, part in self.extra.items()]
        return [(name, part, saved) for name, part, saved in found if not starts_anew(part, saved)]

    def _told(self, state: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        used = {name: part is not None for name, part in self._named.items()}
        used |= {"rng": self._use_rng, "extra": bool(self.extra), GRADIENTS: bool(state.get(GRADIENTS))}
        wanted = [name for name, is_used in used.items() if is_used]
        anew = {name for name in wanted if starts_anew(self._named.get(name), state.get(name))}
        return (
            tuple(name for name in wanted if name not in anew),
            tuple(name for name in wanted if name in anew),
        )

    def _load_part(self, name: str, part: Stateful | None, saved: dict[str, Any] | None, source: str) -> None:
        if part is not None and saved is not None and not starts_anew(part, saved):
            if is_checked(part):
                load(name, part, saved, source)
        elif part is not None:
            _logger.warning("%s holds no %s state: the %s starts from the beginning", source, name, name)
        elif saved is not None:
            _logger.warning("%s holds a %s state that nothing here takes over", source, name)

    def _load_extra(self, saved: Mapping[str, Any], source: str) -> None:
        for name in saved:
            if name not in self.extra:
                _logger.warning("%s holds an extra '%s' that nothing here takes over", source, name)
        for name, current in self.extra.items():
            if name in saved and not isinstance(current, Stateful | torch.Generator):
                self.extra[name] = placed_like(saved[name], current)
            elif starts_anew(current, saved.get(name)):
                _logger.warning("%s holds no extra '%s': it starts from the beginning", source, name)
            elif isinstance(current, torch.Generator):
                current.set_state(saved[name])
            elif isinstance(current, Stateful) and is_checked(current):
                load(f"extra '{name}'", current, saved[name], source)


def _never_stepped(name: str) -> str:
    return (
        f"{name}: it has made no step and has no state: hand over the optimizer that is stepped, such as "
        "what prepare() returned; where it rests on purpose, all is well"
    )


def _gathered(value: object) -> object:
    if isinstance(value, Stateful):
        return value.state_dict()
    return value.get_state() if isinstance(value, torch.Generator) else value


def _without_state(name: str, part: object) -> UsageError:
    several = isinstance(part, Sequence) and bool(part) and all(isinstance(one, Stateful) for one in part)
    return UsageError(
        f"the {name} is a '{type(part).__name__}' without state_dict and load_state_dict",
        hint=f"pass one as the {name} and each other one by a name of its own: extra={{'second': ...}}"
        if several
        else "wrap it in a class that has both, or pass plain values as extra=",
    )
