"""What a repair works on: packs that commits name, stores with good copies, and what is taken out of one."""

import pathlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from mvcs.errors import ConflictError, MvcsError, NotFoundError, StorageError
from mvcs.history import Graph, Revision
from mvcs.objects import ObjectId, checksum
from mvcs.refs import HEADS, REMOTES, TAGS, RefRecord, RefStore
from mvcs.retention import DropLog, pinned
from mvcs.store import MAX_FILE, Backend, LocalBackend, ObjectStore, Overlay, pack_path
from mvcs.upkeep.checking.fsck import commits_behind
from mvcs.upkeep.collecting.marking import Held

FOLDER = "damaged"
Names = list[str]


@dataclass
class SetAside:
    """Keeps the bytes of damaged files before others take their place.

    Attributes:
        local: `.mvcs`.
        backend: the store that they lie in.
        kept: where they were kept, below `.mvcs`.
    """

    local: pathlib.Path
    backend: Backend
    kept: list[str] = field(default_factory=list)

    def keep(self, path: str) -> bool:
        """Keep what lies at a path of the store, durably; the same bytes are kept once.

        Returns:
            Whether anything was kept: where nothing lies, or the disk gives no bytes of it, nothing is.

        Raises:
            CorruptionError: more lies there than any mvcs writes.
            StorageError: it cannot be written.
        """
        try:
            data = self.backend.read_small(path, MAX_FILE)
        except (NotFoundError, StorageError):
            return False
        name = f"{FOLDER}/{path}.{checksum(data).hex()}"
        aside = LocalBackend(self.local)
        if aside.size(name) != len(data):
            aside.replace(name, data)
        self.kept.append(name)
        return True


@dataclass(frozen=True)
class Source:
    """A store of the same project that may have good copies.

    Attributes:
        name: what messages call it.
        backend: the store.
    """

    name: str
    backend: Backend


class Rehearsal(Overlay):
    """Reads what was written here, and else from another backend, of which nothing is changed."""

    def __init__(self, real: Backend, folder: pathlib.Path) -> None:
        """Read from `real`, and write into `folder`."""
        super().__init__(real, LocalBackend(folder))
        self._deleted: set[str] = set()
        self.exclusive = real.exclusive

    def _of(self, name: str) -> Backend:
        return self._beside if name in self._deleted else super()._of(name)

    def _is_gone(self, name: str) -> bool:
        return name in self._deleted and self._beside.size(name) is None

    def create(self, name: str, data: bytes) -> None:
        """See `Backend.create`."""
        if self.size(name) is not None and self.read_small(name, len(data) + 1) != data:
            raise ConflictError(f"'{name}' exists already")
        self.put(name, data)

    def put(self, name: str, data: bytes) -> None:
        """See `Backend.put`."""
        self._beside.replace(name, data)

    def list(self, folder: str) -> Names:
        """See `Backend.list`."""
        return [name for name in super().list(folder) if not self._is_gone(name)]

    def sizes(self, folder: str) -> dict[str, int]:
        """See `Backend.sizes`."""
        return {name: size for name, size in sorted(super().sizes(folder).items()) if not self._is_gone(name)}

    def children(self, folder: str) -> Names:
        """See `Backend.children`."""
        return [name for name in super().children(folder) if not self._is_gone(f"{folder}/{name}")]

    def newest(self, folder: str) -> str | None:
        """See `Backend.newest`."""
        names = [name for name in self.children(folder) if name[:1].isdigit()]
        return f"{folder}/{names[0]}" if names else None

    def delete(self, name: str) -> None:
        """See `Backend.delete`."""
        self._beside.delete(name)
        self._deleted.add(name)

    def modified(self, name: str) -> float | None:
        """See `Backend.modified`."""
        return self._of(name).modified(name)


@dataclass(frozen=True, order=True)
class PackKey:
    """A pack of a store: its name, and whether it is of an exact layer."""

    name: str
    exact: bool = False

    @property
    def path(self) -> str:
        """Where it lies."""
        return pack_path(self.name, exact=self.exact)


@dataclass
class WantedPacks:
    """Walks over the commits that refs, HEAD and pins lead to, as far as manifests tell of them.

    Attributes:
        store: the store.
        refs: its refs.
        head: what HEAD needs.
    """

    store: ObjectStore
    refs: RefStore
    head: Held = field(default_factory=Held)

    def commits(self) -> Iterator[tuple[ObjectId, Revision | MvcsError]]:
        """Yield each commit once, tips first, or why it cannot be read."""
        return commits_behind(self.tips(), Graph(self.store).load)

    def revisions(self) -> Iterator[Revision]:
        """Yield each commit that can be read."""
        return (revision for _, revision in self.commits() if isinstance(revision, Revision))

    def names(self) -> set[PackKey]:
        """Return the packs that these commits need; exact layers that were given up are not wanted."""
        found: set[PackKey] = set()
        for revision in self.revisions():
            found.update(PackKey(name, exact=True) for name in revision.written.exact_packs)
            with suppress(MvcsError):
                found.update(map(PackKey, self.store.manifests.placement(revision.id).packs))
        return found - self._given_up(found)

    def tips(self) -> Iterator[ObjectId]:
        """Yield the commits that refs, HEAD and pins name; behind a lost one, where its ref was before."""
        graph = Graph(self.store)
        for kind, name in self._names():
            for target in self._row(kind, name):
                yield target
                with suppress(MvcsError):
                    graph.load(target)
                    break
        if self.head.commit is not None:
            yield self.head.commit
        with suppress(MvcsError):  # what is wrong with pins is told apart
            yield from pinned(self.store.backend)

    def heads(self) -> set[ObjectId]:
        """Return the commits that branches and HEAD stand on."""
        found = {next(self._row(HEADS, name), None) for name in self.refs.listed(HEADS)} | {self.head.commit}
        return {commit for commit in found if commit is not None}

    def ever(self) -> list[Revision]:
        """Return each commit that can be read of those that refs, HEAD and pins lead to, or led to before."""
        older = [target for row in self._names() for target in self._row(*row, deleted=True)]
        behind = commits_behind([*older, *self.head.past], Graph(self.store).load)
        past = (revision for _, revision in behind if isinstance(revision, Revision))
        return list({one.id: one for one in (*self.revisions(), *past)}.values())

    def _names(self) -> Iterator[tuple[str, str]]:
        return ((kind, name) for kind in (HEADS, TAGS, REMOTES) for name in self.refs.listed(kind))

    def _row(self, kind: str, name: str, *, deleted: bool = False) -> Iterator[ObjectId]:
        """Yield where a ref stands and stood, newest first; nothing of one that was deleted, unless asked."""
        for record in self.refs.row(kind, name):
            if isinstance(record, RefRecord):
                if record.target is not None:
                    yield record.target
                elif not deleted:
                    return

    def _given_up(self, found: set[PackKey]) -> set[PackKey]:
        """Return exact packs that are not there and need not be: beside a damaged record nobody can tell."""
        try:
            drops, damaged = DropLog(self.store.backend).survey()
        except MvcsError as error:
            drops, damaged = [], [error]
        dropped = {name for drop in drops for name in drop.packs}
        return {key for key in found if key.exact and (damaged or key.name in dropped) and self._is_gone(key)}

    def _is_gone(self, key: PackKey) -> bool:
        return self.store.backend.size(key.path) is None
