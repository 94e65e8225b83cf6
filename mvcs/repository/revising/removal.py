"""Files that leave a commit, and the folder with it."""

import pathlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mvcs.checkpoint import Captured, Stamp, committed_name
from mvcs.commits import KeptFiles
from mvcs.history import Revision
from mvcs.local_files import normal_path
from mvcs.objects import Tree, files_in, part_of
from mvcs.repository.session import Session
from mvcs.repository.worktree.file_index import Index
from mvcs.repository.worktree.files_to_commit import Taken
from mvcs.repository.worktree.interrupted_moves import refuse_unfinished
from mvcs.repository.worktree.origins import Origin
from mvcs.repository.worktree.working_files import WorkingFiles
from mvcs.restore import (
    LEFT_STORED_NOTE,
    Reading,
    link_on_the_way,
    missing_file_error,
    open_reading,
    remove_file,
    stored_among,
)


@dataclass(frozen=True)
class Removal:
    """What a commit leaves out, and what goes from the folder once it is made.

    Attributes:
        top: the folder.
        taken: what the commit holds.
        doomed: files that go from the folder, as they were when they were looked at.
        stored: files that stay in the folder, since they lie in a store.
        behind: files that stay, since they lie behind a symbolic link.
    """

    top: pathlib.Path
    taken: Taken
    doomed: dict[str, Stamp]
    stored: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, session: Session, paths: Sequence[pathlib.Path], parent: Revision, *, cached: bool, force: bool
    ) -> "Removal":
        """Look for files of a commit by what was named: files and folders.

        Raises:
            NotFoundError: the commit has nothing of that name.
            ConflictError: a file would go from the folder whose content is stored nowhere; or a pull was
                stopped.
        """
        top = session.require_top()
        refuse_unfinished(session, parent)
        index = Index.of(session)
        before = open_reading(session.reader(), parent, session.progress)
        left = _named(top, index, before.tree, paths)
        # What was committed from elsewhere is somebody's file outside the folder.
        here = [] if cached else [path for path in left if path not in index.places]
        own = [path for path in here if link_on_the_way(top, path) is None]
        stored = tuple(sorted(stored_among(top, [path for path in own if (top / path).is_file()])))
        doomed = index.stamps(top, [path for path in own if path not in stored])
        if not force:
            WorkingFiles(top, index, before, index.places).refuse_to_lose(doomed)
        taken = _rest(top, index, before, left)
        for path in doomed:
            index.files.pop(path, None)
        behind = [path for path in here if path not in own and (top / path).exists()]
        return cls(top, taken, doomed, stored, tuple(behind))

    def execute(self) -> list[str]:
        """Remove the files from the folder, and folders that are empty then; return what was left and why."""
        notes = [f"'{path}' {LEFT_STORED_NOTE}" for path in self.stored]
        notes += [f"'{path}' was left in the folder: it lies behind a symbolic link" for path in self.behind]
        # All are compared before one goes: a link changes with the file that it leads to.
        stamps = self.taken.index.stamps(self.top, self.doomed)
        for path, stamp in self.doomed.items():
            if stamps.get(path) != stamp:
                notes.append(f"'{path}' changed meanwhile and was left in the folder")
                continue
            try:
                remove_file(self.top, path)
            except OSError as error:
                notes.append(f"'{path}' is still in the folder: {(error.strerror or str(error)).lower()}")
        return notes


def _named(top: pathlib.Path, index: Index, tree: Tree, paths: Sequence[pathlib.Path]) -> tuple[str, ...]:
    """Return the files of a commit that paths name."""
    places, found = index.names(), dict[str, None]()
    for path in paths:
        name = places.get(normal_path(path)) or committed_name(path, top, {})
        inside = files_in(tree, [name])
        if not inside:
            raise missing_file_error(tree, "HEAD", "HEAD", name)
        found |= dict.fromkeys(inside)
    return tuple(found)


def _rest(top: pathlib.Path, index: Index, before: Reading, left: Collection[str]) -> Taken:
    rest = [entry.path for entry in before.tree.files or () if entry.path not in left]
    settled = [path for path in rest if index.untouched(top, path, before.revision.id.hex())]
    kept = KeptFiles(part_of(before.tree, rest), before.revision)
    return Taken(Captured((), files=()), index, Origin(), kept, tuple(left), tuple(settled))
