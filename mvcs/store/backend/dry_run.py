"""A store as it is, of which what is written is forgotten: to learn what a commit would take."""

from mvcs.delta import Buffer
from mvcs.store.backend.staged import Staged
from mvcs.store.backend.unchanged import Unchanged


class DryRun(Unchanged):
    """Reads from another backend; content-named files that are written are kept nowhere.

    It is for one writer that reads back nothing of its own. Whatever would change the other is refused.
    """

    why = "in a dry run"

    def put(self, name: str, data: bytes) -> None:
        """Forget a content-named file."""

    def create(self, name: str, data: bytes) -> None:
        """Forget a manifest; all else is refused."""
        if not name.startswith("manifests/"):
            super().create(name, data)

    def stage(self) -> Staged:
        """Begin a file that is forgotten as it is written."""
        return _Forgotten()


class _Forgotten(Staged):
    def write(self, data: Buffer) -> None:
        """Forget some bytes."""

    def publish(self, name: str) -> None:
        """Forget the file."""

    def discard(self) -> None:
        """There is nothing to leave behind."""
