"""From a path or a URL to the backend for it."""

import pathlib
import shlex
from collections.abc import Callable, Mapping

from mvcs.addresses import without_secrets
from mvcs.errors import UsageError
from mvcs.store.backend.base import Backend

LOCAL = ("file", "local")
# These speak to one service each. Others read through a second address, unpack archives or fill templates.
OPENED = frozenset(
    {"abfs", "abfss", "adl", "az", "gcs", "gs", "memory", "s3", "s3a", "sftp", "ssh"}
)  # and LOCAL


def _nothing(protocol: str) -> bool:  # noqa: ARG001 - the form of what the user allows
    return False


def open_backend(
    url: str, options: Mapping[str, object] | None = None, also: Callable[[str], bool] = _nothing
) -> Backend:
    """Open the backend for a path or an fsspec URL.

    Args:
        url: a local path, `file://…`, or a URL of a kind that is opened.
        options: arguments for the fsspec file system, such as `endpoint_url`.
        also: tells whether the user allowed a kind of store that is not opened by default.

    Raises:
        UsageError: the protocol is not opened, or fsspec does not know it.
        StorageError: the file system cannot be opened.
    """
    protocol, separator, rest = url.partition("://")
    if not separator or protocol in LOCAL:
        from mvcs.store.backend.local import LocalBackend

        return LocalBackend(pathlib.Path(rest if separator else url))
    _refuse_unsafe(url, protocol, also)
    from mvcs.store.backend.remote import FsspecBackend

    return FsspecBackend(url, options or {})


def _refuse_unsafe(url: str, protocol: str, also: Callable[[str], bool]) -> None:
    if "::" in url:
        raise UsageError(
            f"cannot open '{without_secrets(url)}': it chains file systems",
            hint="give the address of the store itself, without '::'",
        )
    if protocol not in OPENED and not also(protocol):
        kinds = ", ".join(sorted({*OPENED, *LOCAL}))
        raise UsageError(
            f"cannot open '{without_secrets(url)}': '{protocol}' is not opened by default",
            hint=f"opened are {kinds}; if you trust this kind: "
            f"mvcs config --global --add safe.protocol {shlex.quote(protocol)}",
        )
