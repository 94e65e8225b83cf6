"""How long work reports itself: the library speaks to a `Progress`, never to a terminal."""

from typing import Protocol


class Progress(Protocol):
    """Receives what a long operation has done; an implementation may draw it, log it or drop it.

    Methods may be called from several threads and must return quickly.
    """

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Begin a stage of `total` units (bytes or items); None when the total is not known."""

    def advance(self, amount: int) -> None:
        """Count `amount` more units as done in the current stage."""

    def finish(self) -> None:
        """End the current stage."""

    def note(self, message: str) -> None:
        """Say something a person should see that is not an error."""


class Silent:
    """The default: reports nothing."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Ignore the stage."""

    def advance(self, amount: int) -> None:
        """Ignore the amount."""

    def finish(self) -> None:
        """Ignore the end."""

    def note(self, message: str) -> None:
        """Ignore the message."""


SILENT = Silent()
