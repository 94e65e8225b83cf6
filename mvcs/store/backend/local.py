"""A folder on a local disk: full temporary file, fsync, then `link` or `rename` to the name."""

import contextlib
import errno
import os
import pathlib
import re
import stat
from collections.abc import Iterator

from mvcs.delta import Buffer
from mvcs.errors import ConflictError, NotFoundError, StorageError
from mvcs.local_files import permission_hint, sweep, sweep_begun, sync_folder, temporary_name
from mvcs.store.backend.base import TEMPORARY_FOLDER, Backend, Names
from mvcs.store.backend.begun_folder import begin_folder
from mvcs.store.backend.odd_files import ODD_HINT
from mvcs.store.backend.staged import Staged, TemporaryFile

_HINTS = {
    errno.ENOSPC: "free some space and run the command again; nothing that was stored is lost",
    errno.EDQUOT: "the quota is used up; free some space and run the command again",
    errno.EROFS: "the file system is read-only: mount it for writing, or work in a clone elsewhere",
    errno.EEXIST: ODD_HINT,
    errno.EISDIR: ODD_HINT,
    errno.ENOTDIR: ODD_HINT,
    errno.EPERM: "the file system refused; hard links are needed for safe ref updates",
}
_FANNED_OUT = re.compile(r"[a-z]+/[0-9a-f]{2}/[^/]+")  # files whose folder is one of many that are alike
_HEX = re.compile(r"[0-9a-f]{2}")
_TRIES = 64
_FOLDERS = 4096  # that are remembered as durable; each note of a commit has one


class LocalBackend(Backend):
    """Files below a folder. Readers never see a partly written file, also after a power cut."""

    near = True

    def __init__(self, root: pathlib.Path) -> None:
        """Use `root`; it is created by the first write."""
        self.root = root
        self.url = str(root)
        self._durable: set[pathlib.Path] = set()

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """See `Backend.read`."""
        path = self.root / name
        with _translated("read", path):
            descriptor, size = _opened(path)
            try:
                start = offset if offset >= 0 else max(0, size + offset)
                available = max(0, size - start)
                if length is not None and length > available:
                    raise StorageError(f"'{name}' ended after {available} of {length} bytes")
                data = _bytes_at(descriptor, start, available if length is None else length)
            finally:
                os.close(descriptor)
        if length is not None and len(data) != length:
            raise StorageError(f"'{name}' ended after {len(data)} of {length} bytes")
        return data

    def head(self, name: str, length: int) -> bytes:
        """See `Backend.head`."""
        with _translated("read", self.root / name):
            descriptor, _ = _opened(self.root / name)
            try:
                return _bytes_at(descriptor, 0, length)
            finally:
                os.close(descriptor)

    def create(self, name: str, data: bytes) -> None:
        """See `Backend.create`."""
        with _translated("write", self.root / name), self._temporary(data) as temporary:
            if self._begun(temporary, name):
                return
            target = self._parent_of(name)
            try:
                os.link(temporary, target)
            except FileExistsError:
                if self.head(name, len(data) + 1) != data:
                    raise ConflictError(f"'{name}' exists already") from None
            sync_folder(target.parent)

    def put(self, name: str, data: bytes) -> None:
        """See `Backend.put`."""
        if self.size(name) != len(data):
            self.replace(name, data)
            return
        with _translated("write", self.root / name):
            self.keep(name)

    def stage(self) -> Staged:
        """See `Backend.stage`."""
        with _translated("write", self.root):
            return _StagedFile(self)

    def replace(self, name: str, data: bytes) -> None:
        """Write a file in the place of another; a reader sees the old bytes or the new ones.

        Raises:
            StorageError: it could not be written; the old file is untouched.
        """
        with _translated("write", self.root / name), self._temporary(data) as temporary:
            self.move(temporary, name)

    def adopt(self, file: pathlib.Path, name: str) -> None:
        """See `Backend.adopt`."""
        with _translated("write", self.root / name):
            try:
                self.move(file, name)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                super().adopt(file, name)  # the file lies on another disk

    def size(self, name: str) -> int | None:
        """See `Backend.size`."""
        with _translated("look at", self.root / name):
            try:
                return (self.root / name).stat().st_size
            except (FileNotFoundError, NotADirectoryError):
                return None

    def list(self, folder: str) -> Names:
        """See `Backend.list`."""
        with _translated("list", self.root / folder):
            return sorted(self._named(path) for path in self._walk(folder))

    def sizes(self, folder: str) -> dict[str, int]:
        """See `Backend.sizes`."""
        return {name: size for name, (size, _) in self.stamps(folder).items()}

    def stamps(self, folder: str) -> dict[str, tuple[int, float]]:
        """See `Backend.stamps`."""
        found = {}
        with _translated("list", self.root / folder):
            for path in self._walk(folder):
                with contextlib.suppress(FileNotFoundError):  # it went while we looked
                    told = path.stat()
                    found[self._named(path)] = told.st_size, told.st_mtime
        return dict(sorted(found.items()))

    def _walk(self, folder: str) -> Iterator[pathlib.Path]:
        for parent, _, names in os.walk(self.root / folder, onerror=_unless_missing):
            yield from (pathlib.Path(parent) / name for name in names)

    def _named(self, path: pathlib.Path) -> str:
        return path.relative_to(self.root).as_posix()

    def children(self, folder: str) -> Names:
        """See `Backend.children`."""
        with _translated("list", self.root / folder):
            try:
                return sorted(entry.name for entry in os.scandir(self.root / folder))
            except (FileNotFoundError, NotADirectoryError):
                return []

    def newest(self, folder: str) -> str | None:
        """See `Backend.newest`."""
        with _translated("list", self.root / folder):
            try:
                first = min(
                    (entry.name for entry in os.scandir(self.root / folder) if _is_numbered(entry.name)),
                    default=None,
                )
            except (FileNotFoundError, NotADirectoryError):
                return None
        return None if first is None else f"{folder}/{first}"

    def delete(self, name: str) -> None:
        """See `Backend.delete`."""
        with _translated("delete", self.root / name):
            self._refuse_links(name)
            (self.root / name).unlink(missing_ok=True)
        if _FANNED_OUT.fullmatch(name):
            with contextlib.suppress(OSError):  # mostly others are in it; and whoever needs it makes it again
                (self.root / name).parent.rmdir()

    def inside(self, name: str) -> bool:
        """See `Backend.inside`."""
        return self._link_above(name) is None

    def _link_above(self, name: str) -> pathlib.Path | None:
        """Return a folder of a file's path that is a link: the root may be one, what lies in it may not."""
        folder = self.root
        for part in pathlib.PurePosixPath(name).parent.parts:
            folder /= part
            if folder.is_symlink():
                return folder
        return None

    def _refuse_links(self, name: str) -> None:
        """Leave alone what is somebody else's: a folder of a store that was copied may lead anywhere.

        Raises:
            StorageError: a folder of the store is a link.
        """
        link = self._link_above(name)
        if link is not None:
            raise StorageError(
                f"'{link}' is a link, and what it leads to is not changed",
                hint="put the folder itself in its place; the store as a whole may be a link",
            )

    def modified(self, name: str) -> float | None:
        """See `Backend.modified`."""
        with _translated("look at", self.root / name):
            try:
                return (self.root / name).lstat().st_mtime
            except (FileNotFoundError, NotADirectoryError):
                return None

    def sweep(self) -> None:
        """Remove what writers that are gone had begun, as far as the disk lets us."""
        sweep(self.root / TEMPORARY_FOLDER)
        sweep_begun(self.root / TEMPORARY_FOLDER)

    @contextlib.contextmanager
    def _temporary(self, data: bytes) -> Iterator[pathlib.Path]:
        file = self.temporary()
        try:
            file.write(data)
            file.sync()
            yield file.path
        finally:
            file.discard()

    def temporary(self) -> TemporaryFile:
        """Begin a file without a name.

        Raises:
            OSError: it cannot be made.
            StorageError: the folder for it is a link.
        """
        name = f"{TEMPORARY_FOLDER}/{temporary_name()}"
        self._refuse_links(name)
        make_folder(self.root / TEMPORARY_FOLDER)
        return TemporaryFile(self.root / name)

    def move(self, temporary: pathlib.Path, name: str) -> None:
        """Give a durable file its name, for good.

        Raises:
            OSError: it cannot be moved.
            StorageError: a folder of its path is a link.
        """
        sync_folder(self._moved(temporary, name).parent)

    def _moved(self, temporary: pathlib.Path, name: str) -> pathlib.Path:
        for _ in range(_TRIES):
            # Who deletes the last pack of a folder takes the folder too, maybe just now.
            with contextlib.suppress(FileNotFoundError, FileExistsError):
                target = self._parent_of(name)
                temporary.replace(target)
                return target
            if not temporary.exists():
                break
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(temporary))

    def keep(self, name: str) -> None:
        """See that a file outlives a power cut that another writer gave its name, and may not have come to.

        Raises:
            OSError: its folder cannot be synchronised.
            StorageError: a folder of its path is a link.
        """
        sync_folder(self._parent_of(name).parent)

    def _begun(self, temporary: pathlib.Path, name: str) -> bool:
        """Give a durable file its name together with folders that are missing; tell whether that was done.

        Of a folder without a record nobody could tell what it held, so none is ever left so by a writer.
        """
        self._refuse_links(name)
        target = self.root / name
        for _ in range(_TRIES):
            missing = [folder for folder in target.parents if not folder.is_dir()]
            if not missing:
                return False
            self._make_durable(missing[-1].parent)
            if begin_folder(temporary, target, missing[-1], temporary.parent):
                return True
            if not missing[-1].is_dir():
                return False  # not for another writer's sake
        return False

    def _parent_of(self, name: str) -> pathlib.Path:
        target = self.root / name
        self._refuse_links(name)
        self._make_durable(target.parent)
        return target

    def _make_durable(self, folder: pathlib.Path) -> None:
        """Make a folder and see that it outlives a power cut, also when another process made it just now."""
        if folder == self.root:
            make_folder(folder)
        elif folder not in self._durable or not folder.is_dir():
            self._make_durable(folder.parent)
            folder.mkdir(exist_ok=True)
            sync_folder(folder.parent)
            if len(self._durable) >= _FOLDERS:
                self._durable.clear()
            # Folders of two digits go with their last file, and may be another's next time.
            if not _HEX.fullmatch(folder.name):
                self._durable.add(folder)


class _StagedFile(Staged):
    """A temporary file that is moved to its name."""

    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend
        self._file = backend.temporary()

    def write(self, data: Buffer) -> None:
        with self._or_nothing("a pack"):
            self._file.write(data)

    def publish(self, name: str) -> None:
        with self._or_nothing(name):
            # Also in the place of a file of the same size: that may be the damaged one that this makes good.
            self._file.sync()
            self._backend.move(self._file.path, name)
            self._file.discard()

    def discard(self) -> None:
        self._file.discard()

    @contextlib.contextmanager
    def _or_nothing(self, name: str) -> Iterator[None]:
        try:
            with _translated("write", self._backend.root / name):
                yield
        except StorageError:
            self._file.discard()
            raise


def _opened(path: pathlib.Path) -> tuple[int, int]:
    """Open a file to read; return its descriptor and size.

    A pipe or a device in its place would make us wait for ever.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        odd = OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        raise StorageError(f"'{path}' is not a file", hint=ODD_HINT) from odd
    return descriptor, found.st_size


def _bytes_at(descriptor: int, start: int, count: int) -> bytes:
    """Return `count` bytes of a file from `start` on, fewer where it ends; a file object takes longer."""
    data = os.pread(descriptor, count, start)
    while 0 < len(data) < count and (more := os.pread(descriptor, count - len(data), start + len(data))):
        data += more
    return data


def make_folder(folder: pathlib.Path) -> None:
    """Make a folder and those above it that are missing; each outlives a power cut.

    Raises:
        OSError: one of them cannot be made.
    """
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for fresh in reversed(missing):
        fresh.mkdir(exist_ok=True)
        sync_folder(fresh.parent)


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _is_numbered(name: str) -> bool:
    return name[:1].isdigit()


@contextlib.contextmanager
def _translated(verb: str, path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except FileNotFoundError as error:
        raise NotFoundError(f"cannot {verb} '{path}': no such file") from error
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        hint = permission_hint(path) if error.errno == errno.EACCES else _HINTS.get(error.errno or 0)
        raise StorageError(f"cannot {verb} '{path}': {reason.lower()}", hint=hint) from error
