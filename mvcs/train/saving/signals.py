"""SIGTERM as a wish that the loop grants at its next boundary."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

_Handler = Callable[[int, FrameType | None], object] | int | None


class Termination:
    """Notes a SIGTERM; whoever asks decides when it takes effect.

    The handler only sets a flag. It is installed in the main thread alone: Python allows no other. The
    handler that was there before is put back, and called at the end.

    Attributes:
        requested: a SIGTERM has arrived.
    """

    def __init__(self) -> None:
        self.requested = False
        self._owner = os.getpid()
        self._installed = False
        self._previous: _Handler = None

    def install(self) -> None:
        """Listen, when this is the main thread."""
        if threading.current_thread() is threading.main_thread():
            self._owner = os.getpid()
            self._previous = signal.signal(signal.SIGTERM, self._note)
            self._installed = True

    def remove(self) -> None:
        """Put the previous handler back, unless somebody has replaced ours since."""
        if self._installed and signal.getsignal(signal.SIGTERM) == self._note:
            signal.signal(signal.SIGTERM, self._inherited())
        self._installed = False

    def deliver(self) -> None:
        """Let the SIGTERM take effect now.

        A previous handler in Python is called, and training goes on if it returns; a signal that was ignored
        before stays ignored.

        Raises:
            SystemExit: 143, when nobody handled SIGTERM before.
        """
        self.requested = False
        previous = self._inherited()
        if callable(previous):
            previous(signal.SIGTERM, None)
        elif previous != signal.SIG_IGN:
            raise SystemExit(128 + signal.SIGTERM)

    def _inherited(self) -> Callable[[int, FrameType | None], object] | int:
        # None stands for a handler that was not installed from Python, which Python cannot put back.
        return signal.SIG_DFL if self._previous is None else self._previous

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() == self._owner:
            self.requested = True
            return
        # A forked worker of a data loader inherits this handler but not the loop that would look at the flag.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
