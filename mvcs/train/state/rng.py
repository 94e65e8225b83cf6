"""The random generators that a training run draws from: Python's, numpy's, torch's on the CPU and on CUDA."""

import logging
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from mvcs.checkpoint import check_positions

_logger = logging.getLogger("mvcs.train")


def capture() -> dict[str, object]:
    """Return the states of the global generators; drawing nothing.

    The words of Python's generator are an array (uint32, shape [625]: 624 words and the position), so that a
    run that never draws from it stores them once.
    """
    version, words, gauss = random.getstate()
    initialized = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch gives it no types
    cuda = torch.cuda.get_rng_state_all() if initialized else []
    return {
        "python": {"version": version, "words": np.array(words, dtype=np.uint32), "gauss": gauss},
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 - the generator users' old code draws from
        "torch": torch.get_rng_state(),
        "cuda": cuda,
    }


@contextmanager
def kept() -> Iterator[None]:
    """Let the global generators be in the end as they were before."""
    before = capture()
    try:
        yield
    finally:
        restore(before)


def restore(saved: Mapping[str, Any]) -> None:
    """Put the global generators back to what `capture` returned.

    Says so in the log when this machine has fewer CUDA devices than were saved.
    """
    python = saved["python"]
    random.setstate((python["version"], tuple(int(word) for word in python["words"]), python["gauss"]))
    np.random.set_state(check_positions(saved["numpy"]))  # noqa: NPY002 - see capture
    torch.set_rng_state(saved["torch"])
    devices = torch.cuda.device_count()
    for index, state in enumerate(saved["cuda"][:devices]):
        torch.cuda.set_rng_state(state, index)
    if len(saved["cuda"]) > devices:
        missing = len(saved["cuda"]) - devices
        _logger.warning("random generators of %d CUDA devices are not restored: no such device", missing)
