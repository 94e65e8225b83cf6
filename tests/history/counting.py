"""A backend that notes what is read through it."""

import pathlib

from mvcs.store.backend.local import LocalBackend


class CountingBackend(LocalBackend):
    """A local backend whose reads are counted.

    Attributes:
        reads: the names that were read, in order.
        listings: the folders that were listed.
    """

    def __init__(self, root: str) -> None:
        super().__init__(pathlib.Path(root))
        self.reads: list[str] = []
        self.listings: list[str] = []

    def head(self, name: str, length: int) -> bytes:
        return self.read(name)[:length]

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Note and read."""
        self.reads.append(name)
        return super().read(name, offset, length)

    def list(self, folder: str) -> list[str]:
        """Note and list."""
        self.listings.append(folder)
        return super().list(folder)
