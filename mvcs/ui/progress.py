"""Progress of long work: a bar on a terminal once a stage has run for a second, nothing before."""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from mvcs.ui.text import size

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

DELAY = 1.0
"""Seconds a stage may run before it is shown: most commands are over by then."""

EVERY = 10.0
"""Seconds between lines where stderr is no terminal."""


class NotesOnly:
    """Progress where nobody watches: passes on notes and draws nothing."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Pass notes to `tell`."""
        self._tell = tell

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Draw nothing."""

    def advance(self, amount: int) -> None:
        """Draw nothing."""

    def finish(self) -> None:
        """Draw nothing."""

    def note(self, message: str) -> None:
        """Pass the note on."""
        self._tell(message)


class LineProgress(NotesOnly):
    """Progress where stderr is no terminal: a line now and then while something long is under way.

    The clock is looked at as work goes on: a step that takes long is told when it is over.
    """

    def __init__(self, stream: TextIO, tell: Callable[[str], None], every: float = EVERY) -> None:
        """Write on `stream` every so many seconds, pass notes to `tell`."""
        super().__init__(tell)
        self._stream = stream
        self._every = every
        self._said = time.monotonic()
        self._lock = threading.Lock()
        self._stage: tuple[str, int | None, str] = ("", None, "items")
        self._done = 0

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Begin a stage."""
        with self._lock:
            self._stage, self._done = (stage, total, unit), 0

    def advance(self, amount: int) -> None:
        """Say how far the stage is, if nothing was said for a while."""
        with self._lock:
            self._done += amount
            if time.monotonic() - self._said >= self._every:
                self._said = time.monotonic()
                self._stream.write(self._line())
                self._stream.flush()

    def _line(self) -> str:
        stage, total, unit = self._stage
        done, *whole = (
            size(amount) if unit == "bytes" else f"{amount:,}"
            for amount in (self._done, total)
            if amount is not None
        )
        counted = "" if unit == "bytes" else f" {unit}"
        return f"{stage}: {' of '.join([done, *whole])}{counted}\n"


class TerminalProgress:
    """Progress on a terminal: one bar, brought up by a timer, so that a stage without steps shows too."""

    def __init__(self, stream: TextIO, tell: Callable[[str], None], delay: float = DELAY) -> None:
        """Draw on `stream`, pass notes to `tell`, wait `delay` seconds before a stage shows."""
        self._stream = stream
        self._tell = tell
        self._delay = delay
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._bars: Bars | None = None
        self._stage: tuple[str, int | None, str] = ("", None, "items")
        self._done = 0

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Begin a stage; its bar appears when it has run for a while."""
        with self._lock:
            self.finish()
            self._stage, self._done = (stage, total, unit), 0
            self._timer = threading.Timer(self._delay, self._show)
            self._timer.daemon = True
            self._timer.start()

    def advance(self, amount: int) -> None:
        """Move the bar."""
        with self._lock:
            self._done += amount
            if self._bars is not None:
                self._bars.update(self._bars.task_ids[0], completed=self._done)

    def finish(self) -> None:
        """Take the bar away."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._hide()

    def note(self, message: str) -> None:
        """Say something above the bar."""
        with self._lock:
            shown = self._bars is not None
            self._hide()
            self._tell(message)
            if shown:
                self._draw()

    def _hide(self) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def _show(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer = None
                self._draw()

    def _draw(self) -> None:
        stage, total, unit = self._stage
        self._bars = _bars(self._stream, unit)
        self._bars.add_task(stage, total=total, completed=self._done)
        self._bars.start()


def _bars(stream: TextIO, unit: str) -> "Bars":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    amounts = (DownloadColumn(), TransferSpeedColumn()) if unit == "bytes" else (MofNCompleteColumn(),)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        *amounts,
        TimeRemainingColumn(),
        console=Console(file=stream),
        transient=True,
    )
