"""Where a repository lies: the local side in `.mvcs`, and the store, which may be elsewhere and shared."""

import os
import pathlib
import re
import secrets
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from mvcs.checkpoint import DESCRIPTION_FILE, is_store
from mvcs.config import Config, check_connection
from mvcs.errors import (
    ConflictError,
    CorruptionError,
    NotFoundError,
    StorageError,
    UnsupportedFormatError,
    UsageError,
    some_of,
)
from mvcs.local.head import HEAD, HeadLog, write_head
from mvcs.local.records import RECORDS_FOLDER
from mvcs.local.store_description import (
    DEFAULT_BRANCH,
    Description,
    describe_again,
    note_description,
    remembered,
)
from mvcs.local.trust import TRUSTED_FILE, Trust
from mvcs.local_files import FOLDER, SCRATCH, maker_of, read_file, real_path
from mvcs.memory import Budget
from mvcs.store import (
    EXACT_FOLDER,
    TEMPORARY_FOLDER,
    VALUE_FOLDER,
    Backend,
    check_address,
    probe_exclusive_create,
    refuse_changes,
    refuse_upgraded,
)

LOCAL = ".mvcs"
INCOMING_FOLDER = "incoming"
# As `docs/format/README.md` lists them: of the store, and of the clone that may lie in the same folder.
_STORE_FILES = {
    "mvcs.json",
    "packs",
    "manifests",
    "exact",
    "tmp",
    "refs",
    "retention",
    "format",
    "gc",
    "merged",
}
_CLONE_FILES = {"HEAD", "config.toml", "config.lock", "incoming", "local", "index", "index.lock", "cache"}
_KNOWN_FILES = _STORE_FILES | _CLONE_FILES | {"failures.log", "damaged", ".mvcs", ".gitignore"}
_PREFIX = re.compile("[0-9a-f]{2}")
_SHOWN = 3
LINE = ".mvcs/"
_MAX_BYTES = 1 << 20
_KNOWN = {form + end for form in (".mvcs", "/.mvcs", "**/.mvcs") for end in ("", "/")}


@dataclass(frozen=True)
class Place:
    """An opened repository's places.

    Attributes:
        top: the folder above `.mvcs`; None for a bare store.
        local: `.mvcs` itself; None for a bare store.
        backend: the store.
        description: what `mvcs.json` says.
        config: the local settings.
        trust: what the user at hand trusts.
    """

    top: pathlib.Path | None
    local: pathlib.Path | None
    backend: Backend
    description: Description
    config: Config
    trust: Trust

    @property
    def memory(self) -> Budget:
        """What this process may keep in memory."""
        return Budget.of(str(self.config.get("memory.budget")))

    @property
    def is_shared(self) -> bool:
        """Whether the store lies elsewhere, where other folders may lead to it as well."""
        return self.local is None or self.backend.url != str(self.local)

    @property
    def host(self) -> pathlib.Path | None:
        """The `.mvcs` of another folder of this user that the store lies in; None where it lies in none."""
        if not self.is_shared or not self.backend.near:
            return None
        found = pathlib.Path(self.backend.url)
        is_own = (found / HEAD).is_file() and self.trust.owns(found, HEAD, *_records(found))
        return found if is_own and not (found / RECORDS_FOLDER).is_symlink() else None


def initialise(
    path: pathlib.Path,
    store: str | None,
    options: Mapping[str, object] | None,
    source: Description | None = None,
    *,
    trust: Trust,
    plain: bool = False,
) -> Place:
    """Make `path/.mvcs`, and the store in it or at `store`; a clone takes the project of its `source`.

    HEAD is written last, so a folder without one is the rest of an interrupted `init` or `clone`, and is
    taken up again. A clone writes its HEAD when everything has arrived.

    A repository whose `mvcs.json` is missing or damaged gets it anew, and nothing else is changed.

    Raises:
        ConflictError: `path` is a repository already, and whole.
        StorageError: it cannot be written.
        UsageError: `path` is a store; the store's address or options are secret, it is of a kind that is
            not opened, or what is there belongs to another user.
    """
    if store is not None:
        check_place(trust, "store", store, options or {}, plain=plain)
        store = _from(pathlib.Path.cwd(), store)
    local = path / LOCAL
    if (local / HEAD).exists():
        _describe_again(path, trust)
        return find(str(path), options, trust)
    _refuse_store_at(path, store)
    trust.require_own(local, TRUSTED_FILE)
    backend = trust.open(store, options) if store else trust.open(str(local))
    _make_folder(local)
    description = _describe(backend, source, None if store else remembered(local))
    if source is not None and description.project_id != source.project_id:
        raise ConflictError(f"'{path}' holds another project", hint="clone into a new folder")
    config = Config(local / TRUSTED_FILE)
    if store:
        config.connect("store", store, options or {}, plain=plain)
    HeadLog(local).begin()
    if source is None:
        write_head(local, f"ref: {description.default_branch}")
    backend.exclusive = description.exclusive
    return Place(path, local, backend, description, config, trust)


def check_place(trust: Trust, section: str, url: str, options: Mapping[str, object], *, plain: bool) -> None:
    """Check what settings are to say of where a store lies, as far as nobody needs to be asked.

    Raises:
        UsageError: something of it is secret, or the store could not be opened.
    """
    check_connection(section, url, options, plain=plain)
    trust.check(url)


def describe_damaged(start: str, trust: Trust) -> bool:
    """Write `mvcs.json` anew where a repository's is missing or damaged; tell whether it was.

    Raises:
        StorageError: it cannot be written.
        UsageError: the repository belongs to another user.
    """
    top = None if is_distant(start) else top_of(pathlib.Path(start.partition("://")[2] or start))
    if top is None or not (top / LOCAL / HEAD).exists():
        return False
    try:
        _describe_again(top, trust)
    except ConflictError:
        return False
    return True


def _describe_again(path: pathlib.Path, trust: Trust) -> None:
    """Write the description of a repository's store anew.

    Raises:
        ConflictError: it is whole.
    """
    local = path / LOCAL
    _, backend = _connected(path, None, trust)
    try:
        Description.read(backend, backend.url)
    except (CorruptionError, NotFoundError):
        refuse_changes(backend)
        describe_again(backend, local, elsewhere=backend.url != str(local))
    else:
        raise ConflictError(
            f"'{path}' is a repository already",
            hint="it is ready: 'mvcs status' there shows it; or choose another folder",
        )


def _refuse_store_at(path: pathlib.Path, store: str | None) -> None:
    """Refuse a working folder that is a store as well: a commit of it would take the store's files."""
    place = (store or "").removeprefix("file://").removeprefix("local://")
    is_same = bool(place) and real_path(place) == real_path(path)
    if is_same or is_store(path):
        raise UsageError(f"the folder '{path}' cannot be a store itself", hint="choose another folder")


def is_new(path: pathlib.Path) -> bool:
    """Tell whether nothing of a repository is in `path` yet."""
    return not (path / LOCAL).exists()


def is_begun(start: str) -> bool:
    """Tell whether a repository stands at a path itself, or a bare store at it or a URL."""
    if is_distant(start):
        return True
    path = pathlib.Path(start.partition("://")[2] or start)
    return (path / LOCAL / HEAD).exists() or (path / DESCRIPTION_FILE).is_file()


def refuse_occupied(path: pathlib.Path) -> None:
    """Check that a clone may go to `path`: nothing is there, or only the rest of an interrupted clone.

    Raises:
        ConflictError: something is there.
        StorageError: the folder cannot be read.
    """
    try:
        names = [found.name for found in path.iterdir()] if path.exists() else []
    except OSError as error:
        raise StorageError(f"cannot read '{path}': {(error.strerror or str(error)).lower()}") from error
    if set(names) - {LOCAL} or (path / LOCAL / HEAD).exists():
        raise ConflictError(f"'{path}' is not empty", hint="clone into a new folder")


def _describe(backend: Backend, source: Description | None, copy: Description | None = None) -> Description:
    """Return the description of an existing store, or probe a new one and write its own or a copy."""
    try:
        found = Description.read(backend, backend.url)
    except NotFoundError:
        project = source.project_id if source else secrets.token_hex(16)
        branch = source.default_branch if source else DEFAULT_BRANCH
        fresh = copy or Description(secrets.token_hex(16), project, branch, probe_exclusive_create(backend))
    else:
        refuse_upgraded(backend)
        return found
    try:
        backend.create(DESCRIPTION_FILE, fresh.encode())
    except ConflictError:
        return Description.read(backend, backend.url)
    return fresh


def find(start: str, options: Mapping[str, object] | None, trust: Trust) -> Place:
    """Open the repository at a path (or above it) or the bare store at a URL.

    Raises:
        NotFoundError: there is none.
        UsageError: it belongs to another user, or its store is of a kind that is not opened.
    """
    if is_distant(start):
        return _bare(start, options, trust)
    path = pathlib.Path(start.partition("://")[2] or start).absolute()
    if not path.exists():  # a folder above is another one than was meant
        raise NotFoundError(
            f"there is no folder '{path}'", hint=f"'mvcs init {start}' makes a repository there"
        )
    top = top_of(path)
    if top is not None:
        return _local(top, options, trust)
    if (path / DESCRIPTION_FILE).is_file():
        return _bare(str(path), options, trust)
    raise NotFoundError(f"'{path}' is not in an mvcs repository", hint=_making(start))


def _making(start: str) -> str:
    return "'mvcs init' makes one" if start == "." else f"'mvcs init {start}' makes one there"


def is_distant(url: str) -> bool:
    """Tell whether a path or URL names a place that is no path of this machine."""
    return "://" in url and not url.startswith(("file://", "local://"))


def top_of(path: pathlib.Path) -> pathlib.Path | None:
    """Return the working folder of the repository that a path lies in; None where it lies in none."""
    path = path.absolute()
    if path.name == LOCAL and path.is_dir():
        return path.parent
    return next((folder for folder in (path, *path.parents) if (folder / LOCAL).is_dir()), None)


def wrong_settings(start: str, trust: Trust) -> Config | None:
    """Return the settings of the repository at a path where one of them is wrong, to be mended.

    Raises:
        CorruptionError: the file is not TOML.
        UsageError: it belongs to another user.
    """
    top = None if is_distant(start) else top_of(pathlib.Path(start.partition("://")[2] or start))
    if top is None:
        return None
    trust.require_own(top / LOCAL, TRUSTED_FILE)
    found = Config(top / LOCAL / TRUSTED_FILE, mending=True)
    return found if found.wrong else None


def _local(top: pathlib.Path, options: Mapping[str, object] | None, trust: Trust) -> Place:
    config, backend = _connected(top, options, trust)
    here = "'mvcs init' writes it again" if (top / LOCAL / HEAD).exists() else None
    return Place(top, top / LOCAL, backend, _opened(backend, str(top), here), config, trust)


def _connected(
    top: pathlib.Path, options: Mapping[str, object] | None, trust: Trust
) -> tuple[Config, Backend]:
    """Return the settings of the repository in a folder, and its store, of which nothing is read yet."""
    local = top / LOCAL
    trust.require_own(local, TRUSTED_FILE, HEAD, *_records(local))
    _refuse_links(local)
    config = Config(local / TRUSTED_FILE)
    settings = config.section("store")
    url = settings.pop("url", None)
    settings.pop("max_bytes", None)  # says how much may lie there, and nothing of how it is opened
    store = _from(top, str(url)) if url else str(local)
    return config, trust.open(store, {**settings, **(options or {})} if url else None)


def _refuse_links(local: pathlib.Path) -> None:
    """Refuse folders in which files are removed and replaced, where they lead to somebody else's."""
    link = next(
        (local / name for name in (RECORDS_FOLDER, INCOMING_FOLDER) if (local / name).is_symlink()), None
    )
    if link is not None:
        raise StorageError(
            f"'{link}' is a link, and what it leads to is not changed",
            hint="put a folder in its place; '.mvcs' as a whole may be a link",
        )


def _from(folder: pathlib.Path, url: str) -> str:
    """Return where a store lies: a path without a root begins at a folder, wherever one stands."""
    return url if "://" in url else str(folder.absolute() / url)


def _records(local: pathlib.Path) -> list[str]:
    """Return the names in `.mvcs` of what this clone remembers, and of where that lies."""
    folder = local / RECORDS_FOLDER
    try:
        names = sorted(path.name for path in folder.iterdir())
        return [RECORDS_FOLDER, *(f"{RECORDS_FOLDER}/{name}" for name in names)]
    except OSError:  # then nothing of it is obeyed
        return [RECORDS_FOLDER]


def _bare(url: str, options: Mapping[str, object] | None, trust: Trust) -> Place:
    backend = trust.open(url, options)
    return Place(None, None, backend, _opened(backend, url), Config(None), trust)


def _opened(backend: Backend, where: str, mend: str | None = None) -> Description:
    """Read the description of a store; `mend` says what brings one back that is missing or damaged."""
    try:
        description = Description.read(backend, backend.url)
    except NotFoundError as error:
        raise NotFoundError(
            f"'{where}' holds no mvcs store: '{DESCRIPTION_FILE}' is missing",
            hint=mend or f"{named_where(where)}; 'mvcs init' makes a repository",
        ) from error
    except CorruptionError as error:
        raise CorruptionError(error.message, hint=mend or error.hint) from error
    refuse_upgraded(backend)
    backend.exclusive = description.exclusive
    return description


def named_where(url: str) -> str:
    """Return what the address of a store names, for one where none lies."""
    return f"an address names the folder of the store itself, such as {url.rstrip('/')}/gpt"


def _make_folder(local: pathlib.Path) -> None:
    from mvcs.store import make_folder

    try:
        make_folder(local)
    except OSError as error:
        raise StorageError(f"cannot make '{local}': {(error.strerror or str(error)).lower()}") from error


def keep_described(place: Place) -> None:
    """Write `mvcs.json` again where it was damaged or lost since the store was opened, on a disk."""
    note_description(place.local, place.description)
    if not place.backend.near:
        return
    with suppress(UnsupportedFormatError, StorageError):
        try:
            Description.read(place.backend, place.backend.url)
        except (CorruptionError, NotFoundError):
            place.backend.replace(DESCRIPTION_FILE, place.description.encode())


def adopt(url: str, trust: Trust) -> str:
    """Return where the store lies when `url` is a working folder on this machine; `url` itself otherwise.

    Raises:
        UsageError: it is no address; or the folder belongs to another user, and it may lead elsewhere.
    """
    if is_distant(url):
        return url
    check_address(url)
    path = pathlib.Path(url.partition("://")[2] or url).absolute()
    local = path / LOCAL
    if not local.is_dir():
        return str(path)
    try:
        (local / TRUSTED_FILE).lstat()
    except OSError:  # whether there is a store, its backend tells
        return str(local)
    trust.require_own(local, TRUSTED_FILE)
    elsewhere = Config(local / TRUSTED_FILE).get("store.url")
    return _from(path, str(elsewhere)) if elsewhere else str(local)


def open_described(
    url: str, options: Mapping[str, object], project: Description | None, trust: Trust
) -> tuple[Backend, Description]:
    """Open another store, and return what it says; with `project` an empty place becomes one of that project.

    Raises:
        NotFoundError: there is no store, and none is to be made.
        UsageError: it is of a kind that is not opened, or another user's folder leads there.
    """
    backend = trust.open(adopt(url, trust), options)
    description = _opened(backend, url) if project is None else _describe(backend, project)
    backend.exclusive = description.exclusive
    return backend, description


def foreign_files_note(backend: Backend) -> str | None:
    """Return what to say of foreign files and folders where a store is made; None when there are none.

    Raises:
        StorageError: the place cannot be listed.
    """
    names = _foreign(backend)
    if not names:
        return None
    shown = some_of([f"'{name}'" for name in names], _SHOWN)
    noun = "file or folder" if len(names) == 1 else "files and folders"
    return f"'{backend.url}' holds {len(names)} {noun} that mvcs did not make ({shown}); they are left alone"


def _foreign(backend: Backend) -> list[str]:
    found = [name for name in backend.children("") if not is_known_file(name)]
    found += [f"{TEMPORARY_FOLDER}/{name}" for name in backend.children(TEMPORARY_FOLDER) if _is_odd(name)]
    for folder in (VALUE_FOLDER, EXACT_FOLDER):
        found += [f"{folder}/{name}" for name in backend.children(folder) if not _PREFIX.fullmatch(name)]
    return found


def _is_odd(name: str) -> bool:
    return maker_of(name) is None and maker_of(name, FOLDER) is None


def is_known_file(name: str) -> bool:
    """Tell whether mvcs may have made what has a name at the top of a store, or of a clone."""
    is_listed = name in _KNOWN_FILES or name.startswith("lineage.sqlite")
    return is_listed or bool(maker_of(name) or maker_of(name, SCRATCH))


def ignore_note(top: pathlib.Path) -> str | None:
    """Return how to keep the store of a working folder out of git; None where git has no part in it."""
    folder = pathlib.Path(os.path.abspath(top))  # noqa: PTH100 - links stay
    root = next((above for above in (folder, *folder.parents) if (above / ".git").exists()), None)
    if root is None or any(map(_is_ignored, _lists(folder, root))):
        return None
    target = shlex.quote(str(root / ".gitignore"))
    return f"git has this folder too, and would take the store along; to keep it out: echo {LINE} >> {target}"


def _lists(folder: pathlib.Path, root: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield the files that may tell git to leave the store out."""
    yield root / ".git" / "info" / "exclude"
    for above in (folder, *folder.parents):
        yield above / ".gitignore"
        if above == root:
            return


def _is_ignored(path: pathlib.Path) -> bool:
    try:
        text = (read_file(path, _MAX_BYTES) or b"").decode("utf-8", "replace")
    except StorageError:
        return False
    return any(line.strip() in _KNOWN for line in text.splitlines())
