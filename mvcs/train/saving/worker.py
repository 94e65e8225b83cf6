"""A bounded queue of snapshots and the one thread that commits them."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue

from mvcs.train.state.snapshot import HostBuffers


class CommitQueue:
    """Hands out host buffers, and runs the work on each in order, beside the caller.

    There are as many buffers as places in the queue, so no more snapshots than that ever exist. One thread
    takes buffers and submits; the work runs on another.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._free: SimpleQueue[HostBuffers] = SimpleQueue()
        for _ in range(places):
            self._free.put(HostBuffers())
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mvcs-commit")

    def take(self, *, wait: bool) -> HostBuffers | None:
        """Return buffers that nobody uses; None when all are in use and `wait` is false."""
        try:
            return self._free.get(block=wait)
        except Empty:
            return None

    def give_back(self, buffers: HostBuffers) -> None:
        """Return buffers that were taken and not submitted."""
        self._free.put(buffers)

    def submit(
        self, buffers: HostBuffers, work: Callable[[], None], failed: Callable[[BaseException], None]
    ) -> None:
        """Run `work` after all that was submitted before, then free `buffers`.

        Args:
            buffers: what `work` reads; not to be touched by the caller any more.
            work: runs on the other thread.
            failed: is called there with whatever `work` raised.
        """
        future = self._pool.submit(work)
        future.add_done_callback(partial(self._done, buffers, failed))

    def drain(self, *, taken: int = 0) -> None:
        """Wait until nothing is queued or running, reports of failures included.

        Args:
            taken: how many buffers the caller holds itself.
        """
        held: list[HostBuffers] = []
        try:
            # Whoever holds every buffer knows that nobody else works on one.
            held.extend(self._free.get() for _ in range(self._places - taken))
        finally:
            for buffers in held:
                self._free.put(buffers)

    def close(self) -> None:
        """Wait for everything, then end the thread."""
        self._pool.shutdown(wait=True)

    def _done(
        self, buffers: HostBuffers, failed: Callable[[BaseException], None], future: Future[None]
    ) -> None:
        error = future.exception()
        try:
            if error is not None:
                failed(error)
        finally:
            self._free.put(buffers)
