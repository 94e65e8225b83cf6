"""Any fsspec file system as a backend: S3, memory, and the others through the same door."""

import contextlib
import datetime as dt
import threading
from collections.abc import Mapping
from typing import Any

import fsspec

from mvcs.addresses import secret_values, without_secrets
from mvcs.errors import ConflictError, NotFoundError, StorageError, UsageError
from mvcs.store.backend.base import Backend, Names
from mvcs.store.backend.fsspec_errors import FsspecErrors, status

_NO_SUCH_RANGE = 416
# Some servers answer a range with the checksum of the whole file; every read is hashed by the store anyway.
_S3_CLIENT = {"response_checksum_validation": "when_required"}
_OPTIONS: Mapping[str, dict[str, object]] = {
    "s3": {"use_listings_cache": False, "default_fill_cache": False, "config_kwargs": _S3_CLIENT}
}
_TIMES = ("LastModified", "mtime", "modified", "created")  # as file systems call it
_IN_PROCESS = frozenset({"memory"})
_IN_PROCESS_LOCK = threading.Lock()


def check_known(url: str, protocol: str) -> None:
    """Check that fsspec knows a protocol, and that the package for it is there.

    Raises:
        UsageError: neither is so.
    """
    try:
        fsspec.get_filesystem_class(protocol)
    except ImportError as error:
        raise UsageError(
            f"cannot open '{without_secrets(url)}': {error}",
            hint="install that package where mvcs is installed, and try again",
        ) from error
    except ValueError as error:
        raise UsageError(
            f"cannot open '{without_secrets(url)}': {error}",
            hint="the URL needs a protocol that fsspec knows, such as s3://",
        ) from error


class FsspecBackend(Backend):
    """Files below the root of an fsspec URL."""

    def __init__(self, url: str, options: Mapping[str, object]) -> None:
        """Open the file system of `url`; nothing is sent yet.

        Raises:
            UsageError: the protocol is unknown, its package is missing, or an option will not do.
        """
        self._errors = FsspecErrors(without_secrets(url), secret_values(url, options), frozenset(options))
        protocol = url.partition("://")[0]
        check_known(url, protocol)
        settings: dict[str, Any] = {**_OPTIONS.get(protocol, {}), **options}
        try:
            self._fs, root = fsspec.core.url_to_fs(url, **settings)
        except (ValueError, ImportError, TypeError) as error:
            self._errors.check_option(error)
            raise UsageError(
                f"cannot open '{without_secrets(url)}': {self._errors.quoted(str(error))}",
                hint="look at the address and at what was given with --option",
            ) from error
        self.url = without_secrets(url)
        self._root = root.rstrip("/")
        self._in_process = protocol in _IN_PROCESS
        self._lists_one = hasattr(self._fs, "call_s3")

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """See `Backend.read`."""
        end = None if length is None else offset + length
        with self._translated("read", name):
            data = self._cat(self._path(name), offset, end)
        if length is not None and len(data) != length:
            raise StorageError(f"'{name}' ended after {len(data)} of {length} bytes")
        return data

    def head(self, name: str, length: int) -> bytes:
        """See `Backend.head`."""
        with self._translated("read", name):
            return self._cat(self._path(name), 0, length)[:length]

    def create(self, name: str, data: bytes) -> None:
        """See `Backend.create`."""
        try:
            with self._translated("write", name):
                self._create(self._path(name), data)
        except (ConflictError, StorageError):
            if self._holds(name, data):
                return
            raise

    def put(self, name: str, data: bytes) -> None:
        """See `Backend.put`."""
        with self._translated("write", name):
            self._fs.pipe_file(self._path(name), data)

    def size(self, name: str) -> int | None:
        """See `Backend.size`."""
        try:
            with self._translated("look at", name):
                return int(self._fs.info(self._path(name))["size"])
        except NotFoundError:
            return None

    def list(self, folder: str) -> Names:
        """See `Backend.list`."""
        return list(self.sizes(folder))

    def sizes(self, folder: str) -> dict[str, int]:
        """See `Backend.sizes`."""
        return {name: size for name, (size, _) in self.stamps(folder).items()}

    def stamps(self, folder: str) -> dict[str, tuple[int, float]]:
        """See `Backend.stamps`."""
        found = self._found(folder).items()
        return {name: (int(info.get("size") or 0), _stamp(info)) for name, info in found}

    def _found(self, folder: str) -> dict[str, dict[str, Any]]:
        """Return what a listing says of every file below a folder, by name."""
        try:
            with self._translated("list", folder):
                found = self._fs.find(self._path(folder), detail=True)
        except NotFoundError:
            return {}
        names = {path.removeprefix(self._root).lstrip("/"): info for path, info in found.items()}
        # Servers that keep folders name an emptied one as if it were a file.
        return {name: names[name] for name in sorted(names) if name and name != folder}

    def children(self, folder: str) -> Names:
        """See `Backend.children`."""
        try:
            with self._translated("list", folder):
                found = self._fs.ls(self._path(folder), detail=False)
        except NotFoundError:
            return []
        # Some servers list a folder in itself, where a file without content stands for it.
        inside = {path.rstrip("/") for path in found} - {self._path(folder).rstrip("/")}
        return sorted({path.rpartition("/")[2] for path in inside})

    def newest(self, folder: str) -> str | None:
        """See `Backend.newest`."""
        if self._lists_one:
            return self._first_key(folder)
        names = (name for name in self.list(folder) if name[len(folder) + 1 :][:1].isdigit())
        return next(names, None)

    def delete(self, name: str) -> None:
        """See `Backend.delete`."""
        with contextlib.suppress(NotFoundError), self._translated("delete", name):
            self._fs.rm_file(self._path(name))

    def modified(self, name: str) -> float | None:
        """See `Backend.modified`."""
        try:
            with self._translated("look at", name):
                return self._modified(self._path(name))
        except NotFoundError:
            return None

    def _modified(self, path: str) -> float | None:
        try:
            return _seconds(self._fs.modified(path))
        except NotImplementedError:
            return None

    def _first_key(self, folder: str) -> str | None:
        """Ask S3 for one key, since the newest record is the first one listed."""
        bucket, _, prefix = self._path(folder).partition("/")
        # After whatever starts with a dot, and so before the digits. SeaweedFS answers a place that ends in
        # two slashes with keys that have two slashes themselves.
        after = f"{prefix}/.~"
        with self._translated("list", folder):
            answer = self._fs.call_s3(
                "list_objects_v2", Bucket=bucket, Prefix=f"{prefix}/", StartAfter=after, MaxKeys=1
            )
        keys = [item["Key"] for item in answer.get("Contents", ())]
        names = [f"{folder}/{key[len(prefix) + 1 :]}" for key in keys]
        return next((name for name in names if name[len(folder) + 1 :][:1].isdigit()), None)

    def _cat(self, path: str, start: int, end: int | None) -> bytes:
        try:
            return bytes(self._fs.cat_file(path, start=start or None, end=end))
        except OSError as error:
            # Some servers refuse the last 64 KiB of a shorter file instead of giving all of it, and the first
            # bytes of an empty one.
            if start > 0 or status(error) != _NO_SUCH_RANGE:
                raise
            return bytes(self._fs.cat_file(path))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _translated(self, verb: str, name: str) -> contextlib.AbstractContextManager[None]:
        return self._errors.translated(verb, name, self._root.partition("/")[0])

    def _create(self, path: str, data: bytes) -> None:
        # fsspec's own in-process stores check and then write, so this process holds a lock around both.
        with _IN_PROCESS_LOCK if self._in_process else contextlib.nullcontext():
            if not self.exclusive and self._fs.exists(path):
                raise FileExistsError(path)
            self._fs.pipe_file(path, data, mode="create")

    def _holds(self, name: str, data: bytes) -> bool:
        try:
            return self.read(name) == data
        except (NotFoundError, StorageError):
            return False


def _stamp(info: Mapping[str, Any]) -> float:
    """Return when a file was written, as a listing says; NaN where it does not."""
    when = next((info[key] for key in _TIMES if info.get(key) is not None), None)
    if isinstance(when, dt.datetime):
        return _seconds(when)
    return float(when) if isinstance(when, int | float) else float("nan")


def _seconds(when: dt.datetime) -> float:
    # File systems that leave out the zone mean UTC.
    return (when if when.tzinfo else when.replace(tzinfo=dt.UTC)).timestamp()
