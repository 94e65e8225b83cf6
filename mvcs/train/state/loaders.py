"""The position in the data: what of a loader knows it."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, cast

import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler, WeightedRandomSampler

from mvcs.train.state.stateful import Stateful

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
    if loader is not None or not any(map(_knows_position, others)):
        _tell_other(loader)
    return None


def _knows_position(part: object) -> bool:
    return isinstance(part, Stateful) and isinstance(part, Iterable) and not isinstance(part, nn.Module)


def _is_torchdatas(part: object) -> bool:
    return any(kind.__module__.startswith(_TORCHDATA) for kind in type(part).__mro__)


def _tell_other(loader: object | None) -> None:
    if loader is None:
        _tell_unsaved(_NONE_GIVEN, _DRAWN)
    else:
        _tell_unsaved(_STATELESS.format(type(loader).__name__))


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
