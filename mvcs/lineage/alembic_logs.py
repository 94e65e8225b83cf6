"""What Alembic says of every step it takes: it is kept out of the logs of those who never heard of it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

_NAMES = ("alembic.runtime.plugins", "alembic.runtime.migration")


@contextmanager
def warnings_only() -> Iterator[None]:
    """Let nothing below a warning into the log that Alembic says meanwhile in this thread."""
    thread = get_ident()

    def is_wanted(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or get_ident() != thread

    for name in _NAMES:
        logging.getLogger(name).addFilter(is_wanted)
    try:
        yield
    finally:
        for name in _NAMES:
            logging.getLogger(name).removeFilter(is_wanted)
