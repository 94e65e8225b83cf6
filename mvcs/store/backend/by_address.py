"""From a path or a URL to the backend for it."""

import pathlib
import re
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
_OF_ALL = frozenset({"memory"})  # needs no bucket and no host
_OF_A_HOST = re.compile(r"(?:[\w.-]+@)[\w.-]+:|[a-z0-9]+:/")  # as other tools write what lies elsewhere

_OF_GIT = re.compile(
    r"git@[\w.-]+:|git://|https?://(?:[^/]*@)?(?:github|gitlab)\.|(?:https?://|[\w.-]+@[\w.-]+:).*\.git/?$"
)
_PLACES = "write s3://BUCKET/FOLDER or sftp://USER@HOST/FOLDER"


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
        UsageError: it is no address, the protocol is not opened, or fsspec does not know it.
        StorageError: the file system cannot be opened.
    """
    check_address(url, also)
    protocol, separator, rest = url.partition("://")
    if not separator or protocol in LOCAL:
        from mvcs.store.backend.local import LocalBackend

        return LocalBackend(pathlib.Path(rest if separator else url))
    from mvcs.store.backend.fsspec_backend import FsspecBackend

    return FsspecBackend(url, options or {})


def check_address(url: str, also: Callable[[str], bool] = _nothing) -> None:
    """Check what can be known of the address of a store without asking anybody.

    Raises:
        UsageError: it names no place, its protocol is not opened, or the package for that is missing.
    """
    if _OF_GIT.match(url) and not pathlib.Path(url).exists():
        raise UsageError(
            f"'{without_secrets(url)}' is an address of git, and mvcs reads stores of its own",
            hint=f"for a store {_PLACES}, or a folder of this machine",
        )
    protocol, separator, rest = url.partition("://")
    if not separator:
        _check_path(url)
    elif protocol in LOCAL:
        _check_file(url, rest)
    else:
        _refuse_unsafe(url, protocol, also)
        _check_distant(url, protocol, rest)


def _check_path(url: str) -> None:
    if not url or "\0" in url:
        raise UsageError(f"{url!r} names no store", hint="give a folder, or a URL such as s3://bucket/folder")
    if not _OF_A_HOST.match(url) or pathlib.Path(url).exists():
        return
    raise UsageError(
        f"'{without_secrets(url)}' would be a folder here",
        hint=f"for another place {_PLACES}; for a folder of that name begin with ./",
    )


def _check_file(url: str, rest: str) -> None:
    if not rest.startswith("/") or "\0" in rest:
        raise UsageError(
            f"'{url}' names no folder from the root on", hint="write file:///FOLDER, or the path alone"
        )


def _check_distant(url: str, protocol: str, rest: str) -> None:
    if protocol in OPENED - _OF_ALL and (not rest or rest.startswith("/")):
        raise UsageError(
            f"'{without_secrets(url)}' names no bucket or host", hint=f"write {protocol}://NAME/FOLDER"
        )
    from mvcs.store.backend.fsspec_backend import check_known

    check_known(url, protocol)


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
