"""From a path or a URL to the backend for it."""

import pathlib
from collections.abc import Mapping

from mvcs.store.backend.base import Backend


def open_backend(url: str, options: Mapping[str, object] | None = None) -> Backend:
    """Open the backend for a path or an fsspec URL.

    Args:
        url: a local path, `file://…`, or any URL fsspec knows.
        options: arguments for the fsspec file system, such as `endpoint_url`.

    Raises:
        UsageError: fsspec does not know the protocol.
        StorageError: the file system cannot be opened.
    """
    protocol, separator, rest = url.partition("://")
    if not separator or protocol in ("file", "local"):
        from mvcs.store.backend.local import LocalBackend

        return LocalBackend(pathlib.Path(rest if separator else url))
    from mvcs.store.backend.remote import FsspecBackend

    return FsspecBackend(url, options or {})
