"""What a repair takes out of a store: kept in `.mvcs/damaged`, where nothing reads it, and never deleted."""

import pathlib
from dataclasses import dataclass, field

from mvcs.errors import NotFoundError, StorageError
from mvcs.objects import checksum
from mvcs.store import MAX_FILE, Backend, LocalBackend

FOLDER = "damaged"


@dataclass
class SetAside:
    """Keeps the bytes of damaged files before others take their place.

    Attributes:
        local: `.mvcs`.
        backend: the store that they lie in.
        kept: where they were kept, below `.mvcs`.
    """

    local: pathlib.Path
    backend: Backend
    kept: list[str] = field(default_factory=list)

    def keep(self, path: str) -> bool:
        """Keep what lies at a path of the store, durably; the same bytes are kept once.

        Returns:
            Whether anything was kept: where nothing lies, or the disk gives no bytes of it, nothing is.

        Raises:
            CorruptionError: more lies there than any mvcs writes.
            StorageError: it cannot be written.
        """
        try:
            data = self.backend.read_small(path, MAX_FILE)
        except (NotFoundError, StorageError):
            return False
        name = f"{FOLDER}/{path}.{checksum(data).hex()}"
        aside = LocalBackend(self.local)
        if aside.size(name) != len(data):
            aside.replace(name, data)
        self.kept.append(name)
        return True
