"""The parts of a training run: gathered into one nested state, and loaded back from it."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler, WeightedRandomSampler

from mvcs.checkpoint import GRADIENTS
from mvcs.errors import UsageError
from mvcs.train.state import rng
from mvcs.train.state.gradients import Accumulations, UnusedGradients
from mvcs.train.state.host_copies import HostBuffers
from mvcs.train.state.loading import (
    check_fit,
    check_own_state,
    is_checked,
    load,
    load_others,
    placed_like,
    starts_anew,
)
from mvcs.train.state.optimizers import PARAMETERS, Optimizers, part_of
from mvcs.train.state.stateful import ModelProvider, PartHolder, Stateful

_logger = logging.getLogger("mvcs.train")

_TORCHDATA = "torchdata.stateful_dataloader"
_GENERATOR, _ORDER = "generator", "order"

_STATEFUL = "StatefulDataLoader (pip install torchdata), which takes a DataLoader's arguments"
_OTHERS = "so a resumed run sees other batches"
# Whether batches are drawn from the global generators, which are saved, cannot be seen from here.
_DRAWN = "so a resumed run sees the same batches only where they are drawn from the global random generators"
_NONE_GIVEN = (
    f"no loader was given; for other batches pass loader=, such as torchdata's {_STATEFUL}, or restore the "
    "position by what is in extra="
)
_PLAIN = f"a plain DataLoader cannot tell where it is; use torchdata's {_STATEFUL}"
_AHEAD = f"the sampler is ahead of what the loader's {{}} workers have delivered; use torchdata's {_STATEFUL}"
_SHARED = (
    "the loader's {} draws its order from a generator that others draw from too; give it one of its own, "
    "generator=torch.Generator(), or use shuffle=True"
)
_STATELESS = (
    "the loader is a '{}' without state_dict and load_state_dict; "
    f"give it both, or use torchdata's {_STATEFUL}"
)


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
        self._loaded: tuple[object, str] = None, ""

    @property
    def live(self) -> dict[str, object]:
        """All parts by their places in the state, and what is in those of a framework instead of these."""
        found = dict[str, object]()
        for name, part in {
            **self._named,
            **{f"extra.{name}": part for name, part in self.extra.items()},
        }.items():
            inside = part.parts_inside() if isinstance(part, PartHolder) else {"": part}
            found |= {f"{name}.{place}" if place else name: one for place, one in inside.items()}
        return found

    def beside(self) -> dict[str, object]:
        """Return all of these but the model and the loader."""
        return {name: part for name, part in self.live.items() if name not in {"model", "loader"}}

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

    def copied(self, step: int, buffers: HostBuffers) -> object:
        """Return a copy of the state after `step`."""
        # Looking for strides takes its time where tensors are many. A copy of tensors that had none to tell
        # looks whether they still have none.
        strides = not buffers.row_by_row
        state = buffers.copy(self.gather(step, strides=strides))
        return state if strides or buffers.row_by_row else self.copied(step, buffers)

    def gather(self, step: int, *, strides: bool = True) -> dict[str, object]:
        """Return the state after `step`; its tensors are the live ones.

        Args:
            step: which step.
            strides: say how the tensors of optimizers lie that do not lie row by row.
        """
        state: dict[str, object] = {
            name: None if part is None else part.state_dict() for name, part in self._named.items()
        }
        state["rng"] = rng.capture() if self._use_rng else None
        state["extra"] = {name: _gathered(value) for name, value in self.extra.items()}
        parameters = Optimizers(self.live).gather(state, strides=strides)
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
        self._loaded = state.get(PARAMETERS), source
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

    def load_inside(self, states: Mapping[str, Any]) -> None:
        """Load what is in the parts of a framework, once it is there; `load` was called before.

        Args:
            states: of those parts that are to be loaded so, by their names.

        Raises:
            UsageError: a state does not fit; nothing that is in these parts is changed.
        """
        parameters, source = self._loaded
        parts = {
            name: part
            for name, part in self.live.items()
            if name == "model" or name.partition(".")[0] in states
        }
        optimizers = Optimizers(parts)
        try:
            state = optimizers.arrange({**states, PARAMETERS: parameters}, GRADIENTS, source)
            del parts["model"]
            found = [(name, part, part_of(state, name)) for name, part in parts.items()]
            there = [named for named in found if not starts_anew(*named[1:])]
            for named in there:
                check_fit(*named, source)
            load_others(there, source)
        except BaseException:
            optimizers.undo()
            raise
        for name, part, saved in found:
            self._load_part(name, part, saved, source)
        optimizers.settle(state, source)
        optimizers.train_added()

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

    def _load_part(self, name: str, part: Any, saved: dict[str, Any] | None, source: str) -> None:  # noqa: ANN401 - or None
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


class _Loader(Protocol):
    """What is used of torchdata's stateful loader."""

    generator: torch.Generator | None
    num_workers: int
    sampler: Any
    batch_sampler: Any

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> object: ...


class TorchdataPosition:
    """The position of torchdata's stateful loader, so that what is drawn after a resume stays the same.

    Its iterator draws from a generator when it is made: from the loader's own, which shuffling may share, or
    from torch's global one. So it is made while a state is being loaded, and generators are put back after.

    A sampler without a state is asked again for its order, of which a part is passed over. So that it draws
    the same one, a generator of its own is put back to where that was when the epoch began.
    """

    def __init__(self, loader: _Loader) -> None:
        self._loader = loader
        self._begun: torch.Tensor | None = None
        self._own: torch.Generator | None = None
        indices = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
        sampler = getattr(indices, "sampler", indices)
        generator = getattr(sampler, "generator", None)
        if isinstance(sampler, Stateful) or _is_torchdatas(sampler):
            return
        if isinstance(generator, torch.Generator) and generator is not loader.generator:
            self._watch(indices, generator)
        elif isinstance(sampler, RandomSampler | SubsetRandomSampler | WeightedRandomSampler):
            _tell_unsaved(_SHARED.format(type(sampler).__name__))

    def _watch(self, indices: Any, generator: torch.Generator) -> None:  # noqa: ANN401 - whatever has an order
        """Note at the begin of each epoch the state of the generator that its order is drawn from."""
        kind, self._own = type(indices), generator

        def begin(of: Any) -> Iterator[Any]:  # noqa: ANN401 - as above
            self._begun = generator.get_state()
            return cast("Iterator[Any]", kind.__iter__(of))

        indices.__class__ = type(kind.__name__, (kind,), {"__iter__": begin, "__module__": kind.__module__})

    def state_dict(self) -> dict[str, Any]:
        """Return the loader's own state, with that of its generator where the loader leaves it out."""
        state = dict(self._loader.state_dict())
        generator = self._loader.generator
        # With workers, the generator is ahead of what was delivered, and the loader sees to it by itself.
        if generator is not None and self._loader.num_workers == 0:
            state[_GENERATOR] = generator.get_state()
        return state if self._begun is None else {**state, _ORDER: self._begun}

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        """Take over a state, and make the iterator that is to be used next."""
        own = {name: value for name, value in state_dict.items() if name not in (_GENERATOR, _ORDER)}
        if self._own is not None and _ORDER in state_dict:
            self._own.set_state(state_dict[_ORDER])
        self._loader.load_state_dict(own)
        self._loader.state_dict()
        if self._loader.generator is not None and _GENERATOR in state_dict:
            self._loader.generator.set_state(state_dict[_GENERATOR])


def position_of(loader: object | None, others: Iterable[object] = ()) -> Stateful | None:
    """Return what has the state of a loader: itself, or the sampler of a plain `DataLoader`.

    Says in the log why there is none, and when a resumed run will draw other random numbers.

    Args:
        loader: whatever loads the user's data; None where nothing was given.
        others: further parts, one of which may be a loader, a sampler or a data set that knows its position.
    """
    if _is_torchdatas(loader):
        return TorchdataPosition(cast("_Loader", loader))
    if isinstance(loader, Stateful):
        return loader
    if isinstance(loader, DataLoader):
        return _sampler_of(loader)
    if loader is not None:
        _tell_unsaved(_STATELESS.format(type(loader).__name__))
    elif not any(
        isinstance(part, Stateful) and isinstance(part, Iterable) and not isinstance(part, nn.Module)
        for part in others
    ):
        _tell_unsaved(_NONE_GIVEN, _DRAWN)
    return None


def _is_torchdatas(part: object) -> bool:
    return any(kind.__module__.startswith(_TORCHDATA) for kind in type(part).__mro__)


def _sampler_of(loader: "DataLoader[Any]") -> Stateful | None:
    parts: list[object] = [loader.sampler, loader.batch_sampler]
    found = next((part for part in parts if isinstance(part, Stateful)), None)
    if found is None:
        _tell_unsaved(_PLAIN)
    elif loader.num_workers > 0:
        _tell_unsaved(_AHEAD.format(loader.num_workers))
        return None
    elif loader.generator is None:
        _logger.warning(
            "the loader draws from torch's global generator whenever it is iterated, after a resume too: "
            "give it generator=torch.Generator() so that what is drawn later stays the same"
        )
    return found


def _tell_unsaved(reason: str, follows: str = _OTHERS) -> None:
    _logger.warning("the position in the data is not saved, %s: %s", follows, reason)
