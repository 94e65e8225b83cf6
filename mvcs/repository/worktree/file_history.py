"""In which commits a file changed: what was handed over differs from what each parent has."""

import pathlib
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from mvcs.checkpoint import committed_name
from mvcs.history import Revision
from mvcs.local_files import normal_path
from mvcs.objects import FileEntry, FileFormat, ObjectId, Tree, children_of, files_in
from mvcs.repository.session import Session
from mvcs.repository.worktree.file_index import Index
from mvcs.restore import EXACT_LAYER, content_key, open_reading

_HELD = 8  # commits whose files are remembered: a walk asks for a parent soon again

Content = dict[str, tuple[bytes, list[ObjectId]]]
"""What is equal for two files only if they are the same, by path."""


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
