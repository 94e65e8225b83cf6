"""Packs as files of a store: their paths, their footers, and parts of them."""

from mvcs.errors import CorruptionError, LostError, NotFoundError, StorageError, UnsupportedFormatError
from mvcs.store.backend import Backend
from mvcs.store.backend.odd_files import odd_is_damage
from mvcs.store.packs.footer import TRAILER_BYTES, Footer, Tail

VALUE_FOLDER, EXACT_FOLDER = "packs", "exact"
TAIL_GUESS = 1 << 16
PARALLEL_READERS = 8
FETCH_HINT = "'mvcs repair' brings it where a remote has it; else copy the file of that name from a clone"
COPY_HINT = f"{FETCH_HINT} or remote; its name is its hash"  # a fetch does not bring it
_TOUCHED = "run 'mvcs fsck' to see what it touches"
UNREADABLE_ERRORS = (CorruptionError, NotFoundError, UnsupportedFormatError)


def pack_path(name: str, *, exact: bool = False) -> str:
    """Return where the pack `name` lies in a store; packs of exact layers have a folder of their own."""
    return f"{EXACT_FOLDER if exact else VALUE_FOLDER}/{name[:2]}/{name}.pack"


def pack_name(path: str) -> str | None:
    """Return the name of the pack at `path`, None for what is no pack, or lies in the folder of others."""
    folder, _, file = path.rpartition("/")
    stem = file.removesuffix(".pack")
    is_name = len(stem) == 64 and all(digit in "0123456789abcdef" for digit in stem)
    is_placed = not folder or folder.rpartition("/")[2] == stem[:2]
    return stem if is_name and is_placed and file.endswith(".pack") else None


def how_to_get_back(*, exact: bool) -> str:
    """Say how a pack that is missing or damaged comes back; those of exact layers are not fetched."""
    return COPY_HINT if exact else FETCH_HINT


def read_footer(backend: Backend, name: str, *, exact: bool = False) -> Footer:
    """Read and check the footer of a pack with one or two short reads.

    Raises:
        NotFoundError: the pack is not there.
        CorruptionError: its end is damaged, or it is no file.
    """
    path = pack_path(name, exact=exact)
    try:
        with odd_is_damage():
            end = backend.read(path, -TAIL_GUESS)
        tail = Tail.parse(end)
        wanted = tail.footer_length + TRAILER_BYTES
        if wanted > len(end):
            end = backend.read(path, -wanted)
        return tail.footer(end[-wanted:-TRAILER_BYTES], name)
    except NotFoundError as error:
        kind = NotFoundError if exact else LostError  # a rule may have deleted an exact layer
        raise kind(
            error.message, hint=f"{how_to_get_back(exact=exact)}; 'mvcs fsck' shows what else is missing"
        ) from error
    except CorruptionError as error:
        raise CorruptionError(f"pack '{path}': {error.message}", hint=error.hint or _TOUCHED) from error


def read_part(backend: Backend, path: str, offset: int, length: int) -> bytes:
    """Read a part of a pack.

    Raises:
        NotFoundError: the pack is not there.
        CorruptionError: it ends before that part does, or is no file.
        StorageError: it could not be read.
    """
    try:
        with odd_is_damage():
            return backend.read(path, offset, length)
    except StorageError:
        size = backend.size(path)
        if size is None or size >= offset + length:
            raise
    raise CorruptionError(f"pack '{path}' is truncated: it has {size} bytes", hint=_TOUCHED)
