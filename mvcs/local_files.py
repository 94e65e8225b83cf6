"""Small files of one machine: replaced whole, changed by one process at a time, and swept when it died."""

import contextlib
import errno
import fcntl
import os
import pathlib
import pwd
import re
import secrets
import shlex
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

from mvcs.errors import StorageError
from mvcs.processes import Process

GRACE_SECONDS = 24 * 3600
LOCK_SECONDS = 20.0  # what is done under a lock takes milliseconds
TEMPORARY, JOURNAL, FOLDER, SCRATCH = "tmp", "journal", "folder", "scratch"
# One machine at a time has such a disk: what its earlier boots began there has ended.
_OWN_DISKS = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "zfs", "overlay", "tmpfs"}
)
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_held_long: set[pathlib.Path] = set()
_NAME = re.compile(r"\.mvcs-([0-9a-f-]{1,64})-[0-9a-f]{16}\.(tmp|journal|folder|scratch)")


class HeldError(StorageError):
    """Another process has a lock.

    Attributes:
        holder: says which, as far as the system tells.
    """

    def __init__(self, message: str, holder: str, *, hint: str) -> None:
        """Say what cannot be locked."""
        super().__init__(message, hint=hint)
        self.holder = holder


def temporary_name(kind: str = TEMPORARY) -> str:
    """Return a fresh name for a file that only its maker needs; it says who that is."""
    return f".mvcs-{Process.current()}-{secrets.token_hex(8)}.{kind}"


def maker_of(name: str, kind: str = TEMPORARY) -> Process | None:
    """Return who made a temporary file of this name; None for a name that `temporary_name` never gives."""
    found = _NAME.fullmatch(name)
    return Process.parse(found[1]) if found and found[2] == kind else None


def normal_path(path: str | pathlib.Path) -> pathlib.Path:
    """Return a path from the root on, without `..`; links stay."""
    return pathlib.Path(os.path.abspath(path))  # noqa: PTH100 - links stay


def real_path(path: str | pathlib.Path) -> pathlib.Path:
    """Return where a path leads with links followed; those in a circle stay as they are."""
    return pathlib.Path(os.path.realpath(path))


def sweep(folder: pathlib.Path) -> list[str]:
    """Remove the temporary files that killed processes left directly in a folder; return their names.

    These are files of a process that is gone, and others older than a day by the clock of the file system.
    Links, folders and every other name are left alone, and so is what the disk does not let us remove.
    """
    return _left(folder, TEMPORARY, GRACE_SECONDS, _removed)


def sweep_open(folder: int) -> list[str]:
    """Do so in a folder that is open by a descriptor, which stays open."""
    return _left_in(folder, TEMPORARY, GRACE_SECONDS, _removed)


def sweep_begun(folder: pathlib.Path) -> list[str]:
    """Remove likewise the folders that were begun there, each with no more than one file in it."""
    return _left(folder, FOLDER, GRACE_SECONDS, _removed_folder)


def remove_begun(folder: pathlib.Path) -> None:
    """Remove a folder with the one file that was put into it, maybe in folders one in another.

    One that holds more is left alone, and so is what the disk does not let us remove.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _removed_folder(descriptor, folder.name)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def scratch_folder(*places: pathlib.Path | None) -> Iterator[pathlib.Path]:
    """Make a folder for as long as a block runs, in the first of some places that can be written.

    After these comes where the system has temporary files. A process that is killed leaves its folder;
    whoever makes one there later removes it.

    Raises:
        StorageError: it can be made nowhere.
    """
    for place in filter(None, (*places, pathlib.Path(tempfile.gettempdir()))):
        sweep_scratch(place)
        folder = place / temporary_name(SCRATCH)
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            failed = StorageError(f"cannot make '{folder}': {(error.strerror or str(error)).lower()}")
            continue
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    raise failed


def sweep_scratch(place: pathlib.Path) -> list[str]:
    """Remove such folders that killed processes left in a place; return their names."""
    return _left(place, SCRATCH, GRACE_SECONDS, _removed_tree)


def left_behind(folder: pathlib.Path, kind: str, grace: float) -> list[str]:
    """Return the names of the files directly in a folder whose makers will never need them again.

    Args:
        folder: where to look.
        kind: what the names end in.
        grace: seconds after which a process counts as gone of which this machine cannot tell.
    """
    return _left(folder, kind, grace, lambda _, __: True)


def _left(folder: pathlib.Path, kind: str, grace: float, chosen: Callable[[int, str], bool]) -> list[str]:
    try:
        # A link in the place of the folder leads to what is somebody else's.
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return _left_in(descriptor, kind, grace, chosen)
    finally:
        os.close(descriptor)


def _left_in(folder: int, kind: str, grace: float, chosen: Callable[[int, str], bool]) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            makers = [(entry.name, maker) for entry in entries if (maker := maker_of(entry.name, kind))]
        gone = {name: _is_gone(maker, folder) for name, maker in makers}
        is_made = stat.S_ISDIR if kind in (FOLDER, SCRATCH) else stat.S_ISREG
        left = [name for name in gone if _is_left(folder, name, is_made, gone[name], grace)]
        return [name for name in left if chosen(folder, name)]
    except OSError:
        return []


def _is_gone(maker: Process, folder: int) -> bool | None:
    """Tell whether the maker of a file in a folder runs no more; None where this machine cannot tell."""
    gone = maker.is_gone()
    return True if gone is None and maker.is_of_earlier_boot() and is_ours_alone(folder) else gone


def is_ours_alone(folder: int) -> bool:
    """Tell whether a folder lies on a disk that no other machine has mounted."""
    try:
        about = pathlib.Path(f"/proc/self/fdinfo/{folder}").read_text(encoding="utf-8")
        mounts = pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    mount = next((line.split()[1] for line in about.splitlines() if line.startswith("mnt_id:")), "")
    found = (line.partition(" - ") for line in mounts.splitlines() if line.partition(" ")[0] == mount)
    return any(kind.partition(" ")[0] in _OWN_DISKS for _, _, kind in found)


def _is_left(folder: int, name: str, is_made: Callable[[int], bool], gone: bool | None, grace: float) -> bool:  # noqa: FBT001 - three answers
    if gone is False:
        return False
    with contextlib.suppress(OSError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return is_made(found.st_mode) and (gone or found.st_mtime < _clock(folder) - grace)
    return False


def _removed(folder: int, name: str) -> bool:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)
        return True
    return False


def _removed_tree(folder: int, name: str) -> bool:
    shutil.rmtree(name, ignore_errors=True, dir_fd=folder)
    return True


def _removed_folder(folder: int, name: str) -> bool:
    with contextlib.suppress(OSError):
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            with os.scandir(inner) as entries:
                names = [entry.name for entry in entries]
            if len(names) == 1 and not _removed_folder(inner, names[0]):
                _removed(inner, names[0])
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)
        return True
    return False


def _clock(folder: int) -> float:
    """Return the time as the file system of a folder sees it, which may be another machine's."""
    name = temporary_name()
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        return os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
        os.unlink(name, dir_fd=folder)


def read_file(path: pathlib.Path, limit: int) -> bytes | None:
    """Return a small file whole; None where there is none.

    A folder that came from elsewhere may hold anything of that name: a pipe is not waited for, nor is a
    device read.

    Args:
        path: the file, or a link to it.
        limit: the bytes it may have.

    Raises:
        StorageError: it is no file, larger, or cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            fits = stat.S_ISREG(found.st_mode) and found.st_size <= limit
            data = _content(descriptor, found.st_size) if fits else None
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refusal("read", path, error) from error
    if data is None:
        reason = f"it has more than {limit} bytes" if stat.S_ISREG(found.st_mode) else "it is not a file"
        raise StorageError(f"cannot read '{path}': {reason}", hint="move it away")
    return data


def permission_hint(path: pathlib.Path) -> str:
    """Return whose a path is that this process may not use, or a folder on the way, and what to do."""
    place = pathlib.Path(os.path.abspath(path))  # noqa: PTH100 - links stay
    while True:
        try:
            found = place.stat()
            break
        except OSError:
            place = place.parent
    if not stat.S_ISDIR(found.st_mode) and os.access(place, os.R_OK | os.W_OK):
        place = place.parent
        found = place.stat()
    owner, mode = _user(found.st_uid), stat.filemode(found.st_mode)
    if found.st_uid == os.geteuid():
        return f"'{place}' is yours ({mode}): 'chmod u+rwX {shlex.quote(str(place))}' lets you in"
    return (
        f"'{place}' belongs to {owner} ({mode}), and you are {_user(os.geteuid())}: "
        f"if you share its group, {owner} lets you in with 'chmod -R g+rwX', and 'umask 002' from then on"
    )


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _refusal(what: str, path: pathlib.Path, error: OSError, hint: str | None = None) -> StorageError:
    if isinstance(error, PermissionError):
        hint = permission_hint(path)
    return StorageError(f"cannot {what} '{path}': {(error.strerror or str(error)).lower()}", hint=hint)


def _content(descriptor: int, size: int) -> bytes:
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(size)


def replace_file(path: pathlib.Path, data: bytes, *, durable: bool = True) -> None:
    """Replace a small file so that a reader sees the old or the new bytes, also after a power cut.

    Args:
        path: the file.
        data: its new bytes.
        durable: wait until they outlive a power cut; without that they may be gone after one, old and new.

    Raises:
        StorageError: it cannot be written; the old file is untouched.
    """
    temporary = path.with_name(temporary_name())
    try:
        try:
            _write(temporary, data, durable=durable)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if durable:
            sync_folder(path.parent)
    except OSError as error:
        raise _refusal("write", path, error) from error


def append_to(path: pathlib.Path, data: bytes) -> None:
    """Add bytes to a file in one write, making the file if there is none; it follows no link.

    Raises:
        OSError: they cannot be written.
    """
    descriptor = os.open(path, _APPEND, 0o600)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: pathlib.Path, patience: float | None = None) -> Iterator[None]:
    """Let one process at a time read a file and replace it; the lock is a file of its own and stays.

    The system lets go of it when its holder dies. A file system without locks is used without one. A holder
    that was stopped is waited for once; until it goes on, this process asks without waiting.

    Args:
        path: the lock.
        patience: seconds to wait for another holder; None for `LOCK_SECONDS`.

    Raises:
        HeldError: another process does not let go of it.
        StorageError: it cannot be made.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        hint = "move it away" if error.errno in (errno.EISDIR, errno.ELOOP) else None
        raise _refusal("lock", path, error, hint) from error
    try:
        _take(descriptor, path, LOCK_SECONDS if patience is None else patience)
        yield
    finally:
        unlock(descriptor)


def _take(descriptor: int, path: pathlib.Path, patience: float) -> None:
    pause, limit = 0.001, time.monotonic() + (0 if path in _held_long else patience)
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= limit:
                _held_long.add(path)
                raise _held(descriptor, path) from None
            threading.Event().wait(pause)
            pause = min(2 * pause, 0.05)
            continue
        except OSError:
            pass  # it has no locks
        _held_long.discard(path)
        return


def _held(descriptor: int, path: pathlib.Path) -> HeldError:
    """Return the error for a lock that is not let go of; Linux tells by whom."""
    holder, place = "another process", f":{os.fstat(descriptor).st_ino}"
    hint = "if it was stopped, let it continue or end it"
    with contextlib.suppress(OSError):
        locks = [line.split() for line in pathlib.Path("/proc/locks").read_text().splitlines()]
        pids = [row[4] for row in locks if row[1] == "FLOCK" and row[5].endswith(place) and int(row[4]) > 0]
        if pids:
            holder = f"process {pids[0]}"
            hint = f"if it was stopped, 'kill -CONT {pids[0]}' lets it continue"
    return HeldError(
        f"cannot lock '{path}': {holder} has held it for {LOCK_SECONDS:.0f} s", holder, hint=hint
    )


def unlock(descriptor: int) -> None:
    """Let go of a lock and close its file.

    Closing alone is not enough: a process that was forked meanwhile, such as a worker of a data loader, has a
    copy of the descriptor, and with it the lock, for as long as it lives.
    """
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _write(path: pathlib.Path, data: bytes, *, durable: bool) -> None:
    with path.open("xb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def sync_folder(folder: pathlib.Path) -> None:
    """See that the names in a folder outlive a power cut.

    Raises:
        OSError: the disk refused it.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
