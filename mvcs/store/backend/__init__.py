"""Where the bytes of a store lie: the one door to local disks and to every fsspec file system."""

from mvcs.store.backend.base import Backend
from mvcs.store.backend.opening import open_backend

__all__ = ["Backend", "open_backend"]
