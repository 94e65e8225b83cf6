"""The position in the data: what of a loader knows it."""

import logging
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader

from mvcs.train.stateful import Stateful

_logger = logging.getLogger("mvcs.train")

_TORCHDATA = "torchdata.stateful_dataloader"
_GENERATOR = "generator"


class _Loader(Protocol):
    """What is used of torchdata's stateful loader."""

    generator: torch.Generator | None
    num_workers: int

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> object: ...


class TorchdataPosition:
    """The position of torchdata's stateful loader, so that what is drawn after a resume stays the same.

    Its iterator draws from a generator when it is made: from the loader's own, which shuffling may share, or
    from torch's global one. So it is made while a state is being loaded, and generators are put back after.
    """

    def __init__(self, loader: _Loader) -> None:
        self._loader = loader

    def state_dict(self) -> dict[str, Any]:
        """Return the loader's own state, with that of its generator where the loader leaves it out."""
        state = dict(self._loader.state_dict())
        generator = self._loader.generator
        # With workers, the generator is ahead of what was delivered, and the loader sees to it by itself.
        if generator is not None and self._loader.num_workers == 0:
            state[_GENERATOR] = generator.get_state()
        return state

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        """Take over a state, and make the iterator that is to be used next."""
        own = {name: value for name, value in state_dict.items() if name != _GENERATOR}
        self._loader.load_state_dict(own)
        self._loader.state_dict()
        if self._loader.generator is not None and _GENERATOR in state_dict:
            self._loader.generator.set_state(state_dict[_GENERATOR])


def position_of(loader: Any) -> Stateful | None:  # noqa: ANN401 - whatever loads the user's data
    """Return what has the state of a loader: itself, or the sampler of a plain `DataLoader`.

    Says in the log why there is none, and when a resumed run will draw other random numbers.
    """
    if any(kind.__module__.startswith(_TORCHDATA) for kind in type(loader).__mro__):
        return TorchdataPosition(loader)
    return loader if isinstance(loader, Stateful) else _sampler_of(loader)


def _sampler_of(loader: object) -> Stateful | None:
    if not isinstance(loader, DataLoader):
        return None
    parts: list[object] = [loader.sampler, loader.batch_sampler]
    found = next((part for part in parts if isinstance(part, Stateful)), None)
    if found is not None and loader.num_workers > 0:
        _logger.warning(
            "the sampler is ahead of what the loader's %d workers have delivered, so it has no position to "
            "save; use torchdata's StatefulDataLoader",
            loader.num_workers,
        )
        return None
    if found is not None and loader.generator is None:
        _logger.warning(
            "the loader draws from torch's global generator whenever it is iterated, after a resume too: "
            "give it generator=torch.Generator() so that what is drawn later stays the same"
        )
    return found
