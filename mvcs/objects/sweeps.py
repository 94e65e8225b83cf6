"""Python's search for cycles, put off while a great many values are made among which there is none."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unswept() -> Iterator[None]:
    """Have no search for cycles until the end, which takes a third of the time of decoding a large tree."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
