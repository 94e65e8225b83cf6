"""fsck of what is no part of a store: files that nobody here wrote are left alone, and named."""

from collections.abc import Iterator

from mvcs.checkpoint import DESCRIPTION_FILE
from mvcs.errors import some_of
from mvcs.local_files import maker_of
from mvcs.objects import is_record_name
from mvcs.store import EXACT_FOLDER, TEMPORARY_FOLDER, VALUE_FOLDER, Backend

NAMED = 4
# As `docs/format/README.md` lists them: of the store, and of the clone that may lie in the same folder.
_STORE = {DESCRIPTION_FILE, VALUE_FOLDER, EXACT_FOLDER, TEMPORARY_FOLDER}
_STORE |= {"refs", "retention", "format", "gc", "merged"}
_CLONE = {"HEAD", "config.toml", "config.lock", "incoming", "local", "index", "index.lock", "failures.log"}
_CLONE |= {"cache", "damaged", ".gitignore"}
_LINEAGE = "lineage.sqlite"
_RECORDS = ("retention/drops", "format")  # of other folders later versions may say what lies there


def strays(backend: Backend) -> str | None:
    """Return what is worth knowing of files that are none of a store; nothing where there are none."""
    found = [*_beside(backend), *_among_records(backend)]
    if not found:
        return None
    names = some_of([f"'{path}'" for path in found], NAMED)
    are = "is no part of a store, and was" if len(found) == 1 else "are no part of a store, and were"
    return f"{names} {are} left alone"


def _beside(backend: Backend) -> Iterator[str]:
    for name in backend.children(""):
        is_known = name in _STORE | _CLONE or name.startswith(_LINEAGE) or maker_of(name) is not None
        if not is_known:
            yield name


def _among_records(backend: Backend) -> Iterator[str]:
    for folder in _RECORDS:
        yield from (f"{folder}/{name}" for name in backend.children(folder) if not is_record_name(name))
