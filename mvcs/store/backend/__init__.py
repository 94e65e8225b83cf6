"""Where the bytes of a store lie: the one door to local disks and to every fsspec file system."""

from mvcs.store.backend.base import Backend
from mvcs.store.backend.by_address import check_address, open_backend

__all__ = ["Backend", "check_address", "open_backend"]
