"""The processor's time that a commit takes on threads of its own."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Given = TypeVar("Given")
Got = TypeVar("Got")


class PoolTime:
    """Counts the time of work that runs on other threads than the one that made this.

    Attributes:
        seconds: what was counted so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._own = threading.get_ident()
        self._lock = threading.Lock()

    def counted(self, work: Callable[[Given], Got]) -> Callable[[Given], Got]:
        """Return `work` with its time counted wherever it runs elsewhere."""

        def run(given: Given) -> Got:
            if threading.get_ident() == self._own:
                return work(given)
            began = time.thread_time()
            try:
                return work(given)
            finally:
                with self._lock:
                    self.seconds += time.thread_time() - began

        return run
