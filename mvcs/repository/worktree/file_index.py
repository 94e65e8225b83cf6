"""The index of the folder: each file as it was when it last equalled a commit, and what changed since."""

import contextlib
import json
import os
import pathlib
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from mvcs.checkpoint import Captured, Stamp, committed_name
from mvcs.errors import StorageError
from mvcs.history import Revision
from mvcs.local_files import locked, normal_path, read_file, replace_file
from mvcs.objects import FileEntry, FileFormat, Leaf, ObjectId, Tree, checksum, children_of, files_in
from mvcs.repository.session import INDEX, Session
from mvcs.restore import (
    EXACT_LAYER,
    FileMatch,
    Reading,
    content_key,
    exact_tensor,
    lies_inside,
    link_on_the_way,
    open_reading,
)

NAME = INDEX
LOCK = "index.lock"
VERSION = 2
MAX_BYTES = 256 << 20
_HELD = 8  # commits whose files are remembered: a walk asks for a parent soon again
Content = dict[str, tuple[bytes, list[ObjectId]]]
"""What is equal for two files only if they are the same, by path."""


@dataclass(frozen=True)
class Seen:
    """A file when it was last known to equal a commit.

    Attributes:
        stamp: what it was then; one that no file has where a later change need not show.
        commit: the commit, in hexadecimal.
        layer: which of its layers the file equals, "exact" or "value".
        lossy: whether that layer differs from what was handed over.
    """

    stamp: Stamp
    commit: str
    layer: str
    lossy: bool = False


@dataclass
class Index:
    """The files last committed or checked out, by committed path.

    A cache: losing it costs a comparison, and what it alone knew of where files came from is unknown then.

    Attributes:
        files: what is known of each.
        places: where a file lies that was committed under another name.
        looked_ns: when files were last looked at for a commit, or came.
        looked: what each file was when it was looked at, and not before it was known; not saved.
    """

    files: dict[str, Seen] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    looked_ns: int = 0
    looked: dict[str, Stamp] = field(default_factory=dict)

    @classmethod
    def load(cls, local: pathlib.Path) -> "Index":
        """Read the index; a missing or damaged one is empty."""
        try:
            text, _, found = (read_file(local / NAME, MAX_BYTES) or b"").rpartition(b"\n")
            if checksum(text).hex().encode() != found:
                return cls()
            values = json.loads(text)
            files = {path: _seen(seen, values.get("version", 1)) for path, seen in values["files"].items()}
            return cls(files, dict(values["places"]), int(values["looked_ns"]))
        except (StorageError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls()

    @classmethod
    def of(cls, session: Session) -> "Index":
        """Read the index of a working folder; one that another user wrote is ignored like a missing one.

        Raises:
            NotFoundError: this is a bare store.
        """
        local = session.place.local or session.require_top()
        return cls.load(local) if session.place.trust.owns(local, NAME) else cls()

    def outside(self, top: pathlib.Path, paths: Iterable[str]) -> dict[str, str]:
        """Return which files do not lie in the folder, and where they do."""
        known = {path: self.places[path] for path in paths if path in self.places}
        return {path: place for path, place in known.items() if not lies_inside(top, place)}

    def save(self, local: pathlib.Path) -> None:
        """Write the index.

        Raises:
            StorageError: it cannot be written; the old one stays.
        """
        with locked(local / LOCK):
            replace_file(local / NAME, self.encode())

    def confirm(self, local: pathlib.Path, before: Mapping[str, Seen]) -> None:
        """Write down new stamps of files that were read and are as they were; what else was noted stays.

        Args:
            local: where the index lies.
            before: what was known when it was read.

        Raises:
            StorageError: it cannot be written; the old one stays.
        """
        new = {path: seen for path, seen in self.files.items() if seen != before.get(path)}
        # Who looks as another user would leave an index that its owner ignores.
        if not new or (local / NAME).stat().st_uid != os.geteuid():
            return
        with locked(local / LOCK):
            now = Index.load(local)
            now.files |= {path: seen for path, seen in new.items() if now.files.get(path) == before.get(path)}
            replace_file(local / NAME, now.encode())

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        files = {
            path: [*astuple(seen.stamp), seen.commit, seen.layer, seen.lossy]
            for path, seen in self.files.items()
        }
        values = {
            "version": VERSION,
            "files": files,
            "places": self.places,
            "looked_ns": self.looked_ns,
        }
        text = json.dumps(values).encode()
        # A damaged index must not say that a lossy file is exact.
        return text + b"\n" + checksum(text).hex().encode()

    def stamps(self, top: pathlib.Path, paths: Iterable[str]) -> dict[str, Stamp]:
        """Return what each file is that is there, and each link that leads nowhere."""
        found = {}
        for path in paths:
            with contextlib.suppress(OSError):
                found[path] = Stamp.of(_status(self.locate(top, path)))
        return found

    def look(self, top: pathlib.Path, paths: Iterable[str]) -> dict[str, Stamp]:
        """Return what tells of every change to files whose content is read from here on."""
        moment_ns = time.time_ns()
        return {path: stamp.settled(moment_ns) for path, stamp in self.stamps(top, paths).items()}

    def take(self, top: pathlib.Path, captured: Captured, began_ns: int) -> None:
        """Take down where files lie, and what they were before they were captured, at a time or later."""
        for path, file in captured.origins.items():
            if _is_there(top / path, file.path):
                self.places.pop(path, None)
            else:
                self.places[path] = str(normal_path(file.path))
        self.looked_ns = began_ns
        self.looked = {path: file.stamp.settled(began_ns) for path, file in captured.origins.items()}

    def bring(self, stamps: Mapping[str, Stamp]) -> None:
        """Take down files that have just come, or were as they should be."""
        self.looked_ns = time.time_ns()
        self.looked = dict(stamps)

    def remember(self, commit: str, layer: str, lossy: Collection[str] = ()) -> None:
        """Note that the files that were looked at equal a commit, some of them lossily."""
        for path, stamp in self.looked.items():
            self.files[path] = Seen(stamp, commit, layer, path in lossy)

    def mark_lossy(self, paths: Iterable[str], commit: str, layer: str) -> None:
        """Note that these files are about to be restored lossily; the mark outlives an interruption."""
        for path in paths:
            self.files[path] = Seen(Stamp.of_none(), commit, layer, lossy=True)

    def forget(self, paths: Iterable[str]) -> None:
        """Know nothing more of some files."""
        for path in paths:
            self.files.pop(path, None)

    def keep_lossy_beside(self, known: Collection[str]) -> None:
        """Forget all files that are not among `known`, but those that were restored lossily."""
        self.files = {path: seen for path, seen in self.files.items() if seen.lossy or path in known}

    def keep_lossy(self, known: Iterable[str]) -> None:
        """Forget all files but those restored lossily that are not among `known`."""
        ended = set(known)
        self.files = {path: seen for path, seen in self.files.items() if seen.lossy and path not in ended}

    def locate(self, top: pathlib.Path, path: str) -> pathlib.Path:
        """Return where the file of a committed path lies: there, or else where it was committed from."""
        if path not in self.places or os.path.lexists(top / path):
            return top / path
        return pathlib.Path(self.places[path])

    def find(self, top: pathlib.Path, path: str) -> pathlib.Path | None:
        """Return where the file of a committed path is; None where it is not, or only behind a link."""
        place = self.locate(top, path)
        behind = place == top / path and link_on_the_way(top, path) is not None
        return None if behind or not place.exists() else place

    def names(self) -> dict[pathlib.Path, str]:
        """Return what is called otherwise in commits than where it lies, by where that is."""
        return {normal_path(place): name for name, place in self.places.items()}

    def untouched(self, top: pathlib.Path, path: str, commit: str) -> bool:
        """Tell from its stamp alone whether a file still equals a commit."""
        seen = self.files.get(path)
        return seen is not None and seen.commit == commit and self.stamps(top, [path]) == {path: seen.stamp}


def _is_there(place: pathlib.Path, path: pathlib.Path) -> bool:
    return normal_path(place) == normal_path(path) or (place.exists() and place.samefile(path))


def _status(path: pathlib.Path) -> os.stat_result:
    try:
        return path.stat()
    except FileNotFoundError:
        return path.lstat()


def _seen(values: list[Any], version: int) -> Seen:
    """Read what was noted of a file; a file that has its size and time alone may be another."""
    if version == 1:
        size, mtime_ns, *rest = values
        return Seen(Stamp.of_none(size, mtime_ns), *rest)
    size, mtime_ns, ctime_ns, inode, *rest = values
    return Seen(Stamp(size, mtime_ns, ctime_ns, inode), *rest)


def file_states(top: pathlib.Path, index: Index, reading: Reading) -> dict[str, str]:
    """Return the state of every committed file: "unmodified", "modified" or "deleted"."""
    states = {}
    commit = reading.revision.id.hex()
    for entry in reading.tree.files or ():
        if index.find(top, entry.path) is None:
            states[entry.path] = "deleted"
        elif index.untouched(top, entry.path, commit):
            states[entry.path] = "unmodified"
        else:
            states[entry.path] = "unmodified" if _is_confirmed(top, index, entry, reading) else "modified"
    return states


def _is_confirmed(top: pathlib.Path, index: Index, entry: FileEntry, reading: Reading) -> bool:
    """Tell from its content whether a file is the committed one; its stamp is known then."""
    seen, looked = index.files.get(entry.path), index.look(top, [entry.path])
    match = FileMatch.of(index.locate(top, entry.path), entry, reading)
    if match is None:
        return False
    if seen is None or seen.commit != reading.revision.id.hex() or not match.equals(seen.layer):
        return match.either
    index.files |= {path: replace(seen, stamp=stamp) for path, stamp in looked.items()}
    return True


def hashed_tree(captured: Captured) -> Tree:
    """Return the tree that committing what was captured exactly would make, without storing anything."""
    leaves = tuple(Leaf(exact_tensor(leaf)) for leaf in captured.leaves)
    return Tree(leaves, root=captured.root, files=captured.files)


def captured_chunks(captured: Captured, index: int) -> Iterator[bytes]:
    """Yield the bytes of a captured leaf on the chunk grid."""
    leaf = captured.leaves[index]
    yield from map(bytes, leaf.views())


def places_of(names: Mapping[pathlib.Path, str]) -> dict[str, str]:
    """Return where files and folders lie that are committed under other names."""
    return {name: str(normal_path(path)) for path, name in names.items()}


def names_of(session: Session, paths: Iterable[str | pathlib.Path]) -> tuple[str, ...]:
    """Return what files and folders are called in commits; in a bare store they are named as there.

    Raises:
        UsageError: one lies outside the folder, and nothing was committed from there.
    """
    top = session.place.top
    if top is None:
        return tuple(str(path).rstrip("/") for path in paths)
    places, found = Index.of(session).names(), [pathlib.Path(path) for path in paths]
    return tuple(places.get(normal_path(path)) or committed_name(path, top, {}) for path in found)


@dataclass(frozen=True)
class FileHistory:
    """What happened to some files.

    Attributes:
        session: the repository.
        names: files and folders, as commits call them.
    """

    session: Session
    names: Collection[str]
    _known: OrderedDict[ObjectId, Content] = field(default_factory=OrderedDict)

    def changed(self, revision: Revision) -> bool:
        """Tell whether a commit has one of the files otherwise than each of its parents."""
        content = self._content(revision)
        parents = self.session.graph.parents(revision)
        return all(self._content(parent) != content for parent in parents) if parents else bool(content)

    def _content(self, revision: Revision) -> Content:
        known = self._known.get(revision.id)
        if known is None:
            known = self._known[revision.id] = self._read(revision)
            if len(self._known) > _HELD:
                self._known.popitem(last=False)
        return known

    def _read(self, revision: Revision) -> Content:
        tree = open_reading(self.session.store, revision, self.session.progress).tree
        return {entry.path: content_key(entry, tree, EXACT_LAYER) for entry in _entries(tree, self.names)}


def _entries(tree: Tree, names: Collection[str]) -> list[FileEntry]:
    """Return the files of a tree that are named, or the parts of a state as if each were a file."""
    if tree.files is not None:
        wanted = set(files_in(tree, names))
        return [entry for entry in tree.files if entry.path in wanted]
    found = [(str(key), node) for key, node in children_of(tree.root)]
    return [FileEntry(name, FileFormat.TORCH, node) for name, node in found if {name, "."} & {*names}]
