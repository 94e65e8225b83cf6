"""The files in the folder against HEAD's commit: which may go, what is in the way, what is right already."""

import os
import pathlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from mvcs.errors import ConflictError, CorruptionError, NotFoundError
from mvcs.objects import FileEntry, acting_paths, blob_reference, tensor_reference, walk_nodes
from mvcs.repository.worktree.file_index import Index
from mvcs.restore import (
    EXACT_LAYER,
    FileMatch,
    OpenFolder,
    Reading,
    content_key,
    is_lossy,
    lies_inside,
    link_on_the_way,
    stored_among,
)
from mvcs.retention import has_exact_layer

UNSTORED = "has changes that are not committed"
HINT = "commit it or move it away; with --force it is lost"


@dataclass(frozen=True)
class WorkingFiles:
    """What lies in the folder before a command changes it.

    Attributes:
        top: the folder.
        index: what is known of its files.
        before: the commit HEAD stands on; None where there is none, or it cannot be read.
        elsewhere: paths of HEAD whose files were committed from outside the folder.
        named: opens a commit that a branch or tag leads to, by its hexadecimal id; None for any other.
    """

    top: pathlib.Path
    index: Index
    before: Reading | None
    elsewhere: Collection[str] = ()
    named: Callable[[str], Reading | None] = lambda _: None

    @cached_property
    def committed(self) -> dict[str, FileEntry]:
        """The files of HEAD by path."""
        return {entry.path: entry for entry in (self.before.tree.files or () if self.before else ())}

    def stale(self, after: Reading) -> list[str]:
        """Return HEAD's files that another commit does not have and that lie in the folder, in no store."""
        gone = self._gone(after)
        stored = stored_among(self.top, gone)
        return [path for path in gone if path not in stored]

    def stored(self, after: Reading) -> list[str]:
        """Return those of HEAD's files that would go, but lie in a store."""
        return sorted(stored_among(self.top, self._gone(after)))

    def _gone(self, after: Reading) -> list[str]:
        if after.tree.files is None:
            return []
        kept = {entry.path for entry in after.tree.files}
        # What such paths name is not ours, whoever committed it.
        acting = set(acting_paths(self.committed))
        gone = [path for path in self.committed if path not in kept and path not in acting]
        there = [path for path in gone if _is_file(self.top / path)]
        return [path for path in there if link_on_the_way(self.top, path) is None]

    def unchanged(self, after: Reading, *, trusting: bool) -> list[str]:
        """Return the files that already are what a commit restores.

        Args:
            after: the commit, in one layer.
            trusting: go by stamps, where those are as recorded; else every file is read.
        """
        inside = [entry for entry in after.tree.files or () if lies_inside(self.top, entry.path)]
        return [
            entry.path
            for entry in inside
            if (self.top / entry.path).is_file() and self._is_restored(entry, after, trusting=trusting)
        ]

    def _is_restored(self, entry: FileEntry, after: Reading, *, trusting: bool) -> bool:
        old, before = self.committed.get(entry.path), self.before
        if trusting and old is not None and before is not None and self._untouched(entry.path):
            layer = self.index.files[entry.path].layer
            return content_key(old, before.tree, layer) == content_key(entry, after.tree, after.layer)
        match = FileMatch.of(self.top / entry.path, entry, after)
        return match is not None and match.equals(after.layer)

    def looked_through(self, path: str, after: Reading) -> tuple[FileEntry, bool] | None:
        """Return what is read of HEAD before its file at a path may go, and whether exactly, if anything is.

        It compares as `refuse_to_lose` does, and does not look whether what is stored is whole.
        """
        found, entry, before = self.top / path, self.committed.get(path), self.before
        there = next((each for each in after.tree.files or () if each.path == path), None)
        if not found.is_file() or entry is None or before is None:
            return None
        if there is not None and _why_unstored(found, there, after) is None:
            return None
        if self._untouched(path):
            exact = self.index.files[path].layer == EXACT_LAYER
            if not exact or _is_recorded(entry, before):
                return entry, exact
        match = FileMatch.of(found, entry, before)
        if match is not None and match.exact and _is_recorded(entry, before):
            return entry, True
        return (entry, False) if match is not None and match.value else None

    def _untouched(self, path: str) -> bool:
        commit = "" if self.before is None else self.before.revision.id.hex()
        return path not in self.elsewhere and self.index.untouched(self.top, path, commit)

    def refuse_to_lose(self, paths: Iterable[str], after: Reading | None = None) -> None:
        """Refuse a command that would change or remove files, where `after` is what it goes to.

        Raises:
            ConflictError: the content of one of them is stored nowhere.
        """
        there = {entry.path: entry for entry in (after.tree.files or () if after else ())}
        for path in paths:
            entry, found = there.get(path), self.top / path
            if entry is None or after is None or _why_unstored(found, entry, after):
                self.refuse_to_lose_file(found, path, path)

    def refuse_to_lose_file(self, found: pathlib.Path, path: str, name: str) -> None:
        """Do so for the file of a path of HEAD, wherever it lies, and however an error calls it.

        Raises:
            ConflictError: its content is stored nowhere.
        """
        if found.is_symlink() and not found.exists():
            raise ConflictError(
                f"'{name}' is a link that leads nowhere, and would be lost",
                hint="put back what it led to, or remove the link; with --force it is lost",
            )
        reason = self._why_precious(found, path)
        if reason and not self._is_where_it_came_from(found, path):
            raise ConflictError(f"'{name}' {reason}, and would be lost", hint=HINT)

    def _why_precious(self, found: pathlib.Path, path: str) -> str | None:
        """Tell why the content of a file is stored nowhere; None when HEAD has it."""
        entry, before = self.committed.get(path), self.before
        if entry is None or before is None:
            return UNSTORED
        known = self._untouched(path)
        if known and (self.index.files[path].layer != EXACT_LAYER or _is_recorded(entry, before)):
            return _why_unreadable(entry, before, exact=self.index.files[path].layer == EXACT_LAYER)
        return _why_unstored(found, entry, before)

    def _is_where_it_came_from(self, found: pathlib.Path, path: str) -> bool:
        """Tell whether the commit a file was restored from, another than HEAD's, has its content still."""
        seen = self.index.files.get(path)
        reading = None if seen is None else self.named(seen.commit)
        entries = () if reading is None else reading.tree.files or ()
        entry = next((entry for entry in entries if entry.path == path), None)
        return entry is not None and reading is not None and _why_unstored(found, entry, reading) is None


def _is_file(path: pathlib.Path) -> bool:
    """Tell whether there is a file, also of a name that this system cannot hold."""
    with suppress(OSError):
        return path.is_file()
    return False


def _is_recorded(entry: FileEntry, reading: Reading) -> bool:
    """Tell whether what was handed over for a file is stored."""
    return not is_lossy(entry, reading.tree) or has_exact_layer(reading.store.backend, reading.revision)


def _why_unstored(found: pathlib.Path, entry: FileEntry, reading: Reading) -> str | None:
    """Tell why a commit does not have the content of a file; None when it has."""
    match = FileMatch.of(found, entry, reading)
    if match is None:
        return UNSTORED
    if match.exact and _is_recorded(entry, reading):
        return _why_unreadable(entry, reading, exact=True)
    if match.value:
        return _why_unreadable(entry, reading, exact=False)
    return "holds exact values that are stored nowhere any more" if match.exact else UNSTORED


def _why_unreadable(entry: FileEntry, reading: Reading, *, exact: bool) -> str | None:
    """Tell why the store cannot give a file back; all of it is read, since an id says nothing of bytes."""
    store, tree = reading.store, reading.tree
    nodes = [node for _, node in walk_nodes(entry.node)] + ([] if entry.header is None else [entry.header])
    try:
        if exact and is_lossy(entry, tree):
            store.catalog.attach_all(reading.revision.written.exact_packs, exact=True)
            store.lean_on(tree, reading.revision.written.exact_packs)
        for node in nodes:
            if (leaf := tensor_reference(node)) is not None:
                deque(store.chunks(tree.leaves[leaf[0]], exact=exact), maxlen=0)
            elif (blob := blob_reference(node)) is not None:
                deque(store.blob(*blob), maxlen=0)
    except (CorruptionError, NotFoundError):
        return "is all there is of its content: what is stored of it is damaged or missing"
    return None


@dataclass(frozen=True)
class Obstacles:
    """What goes from a folder before files can come.

    Attributes:
        top: the folder.
        files: what goes, in the place of folders and inside those in the place of files.
        folders: folders in the place of files.
    """

    top: pathlib.Path
    files: tuple[str, ...]
    folders: tuple[str, ...]

    @classmethod
    def of(
        cls, top: pathlib.Path, paths: Sequence[str], stale: Collection[str], *, force: bool
    ) -> "Obstacles":
        """Look for what stands where files come.

        Args:
            top: the folder.
            paths: the files that come.
            stale: those that go, since the commit does not have them.
            force: whether any other file may go that stands where a folder comes.

        Raises:
            ConflictError: it would not go otherwise. All that a folder holds never goes.
        """
        above = {str(parent) for path in paths for parent in pathlib.PurePosixPath(path).parents}
        files = list(_no_folders(top, above))
        stay = next((path for path in files if path not in stale), None)
        if stay is not None and not force:
            kind = "a file" if (top / stay).exists() else "a link that leads nowhere"
            raise ConflictError(
                f"'{stay}' is {kind}, and a folder comes in its place",
                hint="move it away; with --force it is lost",
            )
        folders = [path for path in paths if (top / path).is_dir() and not (top / path).is_symlink()]
        for folder in folders:
            inside = list(_inside(top, folder))
            stay = next((path for path in inside if path not in stale), None)
            if stay is not None:
                raise ConflictError(
                    f"'{folder}' is a folder with '{stay}' in it, and a file comes in its place",
                    hint="move the folder away",
                )
            files += inside
        return cls(top, tuple(files), tuple(folders))

    def clear(self) -> None:
        """Remove them.

        Raises:
            OSError: one cannot be removed, or something came into a folder meanwhile.
        """
        if not self.files and not self.folders:
            return
        with OpenFolder.at(self.top) as top:
            for path in self.files:
                top.remove(path)
            for path in self.folders:
                top.remove_folder(path)


def _no_folders(top: pathlib.Path, paths: Collection[str]) -> Iterator[str]:
    """Yield those of some paths, each with all above it, where something is that is no folder, sorted."""
    absent = set[str]()
    for path in sorted(paths):
        if path.rpartition("/")[0] in absent or not os.path.lexists(top / path):
            absent.add(path)
        elif is_no_folder(top / path):
            yield path


def is_no_folder(path: pathlib.Path) -> bool:
    """Tell whether something is there that is no folder."""
    return not path.is_dir() and os.path.lexists(path)


def _inside(top: pathlib.Path, folder: str) -> Iterator[str]:
    """Yield the paths of all below a folder that is no folder itself."""
    for place, folders, files in os.walk(top / folder):
        there = pathlib.Path(place)
        links = [name for name in folders if (there / name).is_symlink()]
        yield from ((there / name).relative_to(top).as_posix() for name in (*files, *links))
