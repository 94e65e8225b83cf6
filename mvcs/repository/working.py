"""The working folder: what was committed from it, what changed since, and what a checkout may overwrite."""

import contextlib
import json
import os
import pathlib
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from mvcs.checkpoint.captured import Captured
from mvcs.errors import StorageError
from mvcs.local_files import read_file, replace_file
from mvcs.objects.ids import checksum
from mvcs.objects.paths import MAX_PARTS
from mvcs.objects.tree import Leaf, Tree
from mvcs.repository.file_match import FileMatch, exact_id
from mvcs.repository.own_paths import lies_inside
from mvcs.repository.restoring import Reading
from mvcs.repository.session import Session

NAME = "index"
MAX_BYTES = 256 << 20
CHECKED_SUFFIXES = (".safetensors", ".pt", ".pth", ".npz")
CLOCK_NS = 20_000_000


@dataclass(frozen=True)
class Seen:
    """A file when it was last known to equal a commit.

    Attributes:
        size: bytes.
        mtime_ns: modification time.
        commit: the commit, in hexadecimal.
        layer: which of its layers the file equals, "exact" or "value".
        lossy: whether that layer differs from what was handed over.
    """

    size: int
    mtime_ns: int
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
        looked_ns: when the files were looked at; one that was as young then may have changed unseen.
        looked: size and modification time of each file as it was looked at; not saved.
    """

    files: dict[str, Seen] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    looked_ns: int = 0
    looked: dict[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def load(cls, local: pathlib.Path) -> "Index":
        """Read the index; a missing or damaged one is empty."""
        try:
            text, _, found = (read_file(local / NAME, MAX_BYTES) or b"").rpartition(b"\n")
            if checksum(text).hex().encode() != found:
                return cls()
            values = json.loads(text)
            files = {path: Seen(*seen) for path, seen in values["files"].items()}
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
        """Write the index."""
        files = {
            path: [seen.size, seen.mtime_ns, seen.commit, seen.layer, seen.lossy]
            for path, seen in self.files.items()
        }
        values = {"files": files, "places": self.places, "looked_ns": self.looked_ns}
        text = json.dumps(values).encode()
        # A damaged index must not say that a lossy file is exact.
        replace_file(local / NAME, text + b"\n" + checksum(text).hex().encode())

    def look(self, top: pathlib.Path, paths: Iterable[str]) -> None:
        """Take down sizes and times before the content is read, so that a later change shows."""
        for path, seen in self.files.items():
            if not self._settled(seen.mtime_ns):
                self.files[path] = replace(seen, size=-1, mtime_ns=0)
        self.looked_ns = time.time_ns()
        self.looked = self.stamps(top, paths)

    def stamps(self, top: pathlib.Path, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return size and modification time of each file that is there."""
        found = {}
        for path in paths:
            with contextlib.suppress(OSError):
                status = self.locate(top, path).stat()
                found[path] = (status.st_size, status.st_mtime_ns)
        return found

    def take(self, captured: Captured, began_ns: int) -> None:
        """Take down what files were before their content was captured, at a time or later."""
        self.looked_ns = began_ns
        self.looked = {path: (file.size, file.stamp.mtime_ns) for path, file in captured.origins.items()}

    def remember(self, commit: str, layer: str, lossy: Collection[str] = ()) -> None:
        """Note that the files that were looked at equal a commit, some of them lossily."""
        for path, (size, mtime_ns) in self.looked.items():
            self.files[path] = Seen(size, mtime_ns, commit, layer, path in lossy)

    def mark_lossy(self, paths: Iterable[str], commit: str, layer: str) -> None:
        """Note that these files are about to be restored lossily; the mark outlives an interruption."""
        for path in paths:
            self.files[path] = Seen(-1, 0, commit, layer, lossy=True)

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
        """Return where the file of a committed path lies."""
        return pathlib.Path(self.places[path]) if path in self.places else top / path

    def untouched(self, top: pathlib.Path, path: str, commit: str) -> bool:
        """Tell from size and time alone whether a file still equals a commit."""
        seen = self.files.get(path)
        try:
            status = self.locate(top, path).stat()
        except OSError:
            return False
        same = seen is not None and (seen.size, seen.mtime_ns) == (status.st_size, status.st_mtime_ns)
        return same and self._settled(status.st_mtime_ns) and seen is not None and seen.commit == commit

    def _settled(self, mtime_ns: int) -> bool:
        """Tell whether no later change can have kept a file's time when files were last looked at."""
        # Clocks of file systems tick in steps of up to 10 ms: a change within a step keeps the time.
        return mtime_ns + CLOCK_NS < self.looked_ns


def file_states(top: pathlib.Path, index: Index, reading: Reading) -> dict[str, str]:
    """Return the state of every committed file: "unmodified", "modified" or "deleted"."""
    states = {}
    commit = reading.revision.id.hex()
    for entry in reading.tree.files or ():
        path = index.locate(top, entry.path)
        if not path.exists():
            states[entry.path] = "deleted"
        elif index.untouched(top, entry.path, commit):
            states[entry.path] = "unmodified"
        else:
            match = FileMatch.of(path, entry, reading)
            states[entry.path] = "unmodified" if match is not None and match.either else "modified"
    return states


def untracked(top: pathlib.Path, known: set[str]) -> list[str]:
    """Return checkpoint files in the folder that no commit at HEAD holds; hidden folders are left out."""
    found = []
    for folder, folders, files in os.walk(top):
        # Hidden folders hold environments and caches, with more files than all the rest.
        deep = len(pathlib.Path(folder).relative_to(top).parts) >= MAX_PARTS
        folders[:] = [name for name in folders if not (deep or name.startswith("."))]
        paths = (pathlib.Path(folder) / name for name in files if not name.startswith("."))
        found += [path.relative_to(top).as_posix() for path in paths if path.suffix in CHECKED_SUFFIXES]
    return sorted(name for name in found if name not in known)


def hashed_tree(captured: Captured) -> Tree:
    """Return the tree that committing what was captured exactly would make, without storing anything."""
    leaves = tuple(Leaf(leaf.dtype, leaf.shape, exact_id(leaf)) for leaf in captured.leaves)
    return Tree(leaves, root=captured.root, files=captured.files)


def captured_chunks(captured: Captured, index: int) -> Iterator[bytes]:
    """Yield the bytes of a captured leaf on the chunk grid."""
    leaf = captured.leaves[index]
    yield from map(bytes, leaf.views())


def places_of(names: Mapping[pathlib.Path, str]) -> dict[str, str]:
    """Return where files lie that are committed under other names."""
    return {name: str(path.absolute()) for path, name in names.items()}
