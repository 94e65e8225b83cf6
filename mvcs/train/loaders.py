"""The position in the data: what of a loader knows it."""

import logging

from torch.utils.data import DataLoader

from mvcs.train.stateful import Stateful

_logger = logging.getLogger("mvcs.train")


def position_of(loader: object | None) -> Stateful | None:
    """Return what has the state of a loader: itself, or the sampler of a plain `DataLoader`.

    Says in the log why there is none, and when iterating draws from torch's global generator: a resumed run
    begins to iterate once more often than an undisturbed one.
    """
    found = loader if isinstance(loader, Stateful) else _sampler_of(loader)
    # torchdata's loader is none of torch's, but has the same attributes.
    if found is not None and getattr(loader, "generator", found) is None:
        _logger.warning(
            "the loader draws from torch's global generator whenever it is iterated, after a resume too: "
            "give it generator=torch.Generator() so that what is drawn later stays the same"
        )
    return found


def _sampler_of(loader: object | None) -> Stateful | None:
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
    return found
