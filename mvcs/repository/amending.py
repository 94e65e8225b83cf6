"""Commits made of the one before: with files under other names, without some, or in its place."""

import os
import pathlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from mvcs.checkpoint import Captured, Stamp, committed_name, refuse_unfit
from mvcs.commits import BranchPosition, CommitRequest, KeptFiles
from mvcs.errors import ConflictError, MvcsError, NotFoundError, StorageError, UsageError, some_of
from mvcs.history import Revision
from mvcs.local import HEAD
from mvcs.local_files import normal_path
from mvcs.objects import (
    Tree,
    UnfitPath,
    files_in,
    is_in_the_way,
    is_inside,
    part_of,
    renamed_files,
    short_id,
    unfit_paths,
)
from mvcs.refs import REMOTES
from mvcs.repository.session import Session
from mvcs.repository.worktree.file_index import Index, names_of
from mvcs.repository.worktree.files_to_commit import Origin, Taken
from mvcs.repository.worktree.whereabouts import MOVE, InterruptedMove, end_move, refuse_unfinished
from mvcs.repository.worktree.working_files import Obstacles, WorkingFiles
from mvcs.restore import (
    LEFT_STORED_NOTE,
    OpenFolder,
    Reading,
    link_on_the_way,
    missing_file_error,
    open_reading,
    refuse_detours,
    refuse_inside,
    remove_file,
    stored_among,
)
from mvcs.search import METRIC

_SHOWN = 3


@dataclass(frozen=True)
class Relocation:
    """What a commit calls otherwise, and what goes to another place in the folder once it is made.

    Attributes:
        session: the repository.
        top: the folder.
        parent: the commit before.
        taken: what the commit holds.
        moved: files of the commit before, by their paths in it, with the new ones.
        going: those that go to another place in the folder.
        stored: those that stay where they are, since they lie in a store.
        obstacles: what stands in the folder where they go.
    """

    session: Session
    top: pathlib.Path
    parent: Revision
    taken: Taken
    moved: dict[str, str]
    going: tuple[str, ...]
    stored: tuple[str, ...]
    obstacles: Obstacles

    @classmethod
    def of(
        cls,
        session: Session,
        sources: Sequence[str | pathlib.Path],
        target: str | pathlib.Path,
        parent: Revision,
        *,
        force: bool,
    ) -> "Relocation":
        """Look for files of a commit by what was named, and for where they go.

        Raises:
            NotFoundError: the commit has nothing of that name.
            UsageError: no file can have the new name, or several cannot be one; or a symbolic link stands
                in the way to it, or to a file that moves.
            ConflictError: there is a file of the new name; or a pull was stopped.
        """
        top = session.require_top()
        refuse_unfinished(session, parent)
        index = Index.of(session)
        before = open_reading(session.reader(), parent, session.progress)
        moved = _moved(session, before.tree, sources, target)
        replaced = _replaced(before.tree, moved, force=force)
        refuse_unfit(_made_unfit(before.tree, moved, replaced), "choose another name")
        _refuse_behind_links(top, [old for old in moved if index.locate(top, old) == top / old])
        refuse_detours(top, [*moved.values()])
        inside = [old for old in moved if old not in index.places and (top / old).is_file()]
        stored = stored_among(top, inside)
        going = tuple(old for old in inside if old not in stored)
        for old in going:
            refuse_inside(session.place.local, top, top / moved[old])
        there = next((moved[old] for old in going if os.path.lexists(top / moved[old])), None)
        if there is not None and not force:
            raise ConflictError(
                f"'{there}' is in the folder already", hint="move it away; with --force it is lost"
            )
        obstacles = Obstacles.of(top, [moved[old] for old in going], (), force=force)
        taken = _taken(top, index, before, moved, replaced)
        return cls(session, top, parent, taken, moved, going, tuple(sorted(stored)), obstacles)

    def begin(self, after: Revision) -> None:
        """Remember that files are to move, before the branch goes to the commit that has them elsewhere.

        Raises:
            StorageError: it cannot be written.
        """
        if self.going:
            branch = self.session.branch or HEAD
            InterruptedMove(branch, self.parent.id, after.id, MOVE, self.going).begin(self.session)

    def execute(self) -> list[str]:
        """Move the files in the folder; return what stays since it lies in a store.

        Raises:
            StorageError: others stay as well, which is remembered.
        """
        notes = [f"'{path}' {LEFT_STORED_NOTE}" for path in self.stored]
        with suppress(OSError):  # what is still in the way is said of each file
            self.obstacles.clear()
        failed = [note for old in self.going if (note := self._move(old))]
        if failed:
            raise StorageError(
                f"the commit is made, and {some_of(failed, _SHOWN, '; ')}",
                hint="'mvcs checkout HEAD' brings along what is still in its place",
            )
        if self.going:
            end_move(self.session)
        return notes

    def _move(self, old: str) -> str | None:
        new = self.moved[old]
        try:
            with OpenFolder.at(self.top) as top:
                top.make_above(new)
                top.rename(old, new)
                top.remove_emptied(old)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            return f"'{old}' is still in its place: {why}"
        return None


def _refuse_behind_links(top: pathlib.Path, paths: Collection[str]) -> None:
    """Refuse to move files that are in the folder only behind a link, which nothing is moved through.

    Raises:
        UsageError: one is so.
    """
    for path in paths:
        link = link_on_the_way(top, path)
        if link is not None:
            raise UsageError(
                f"'{path}' lies behind the symbolic link '{link}', and is not moved",
                hint="put the folder itself in the place of the link",
            )


def _moved(
    session: Session, tree: Tree, sources: Sequence[str | pathlib.Path], target: str | pathlib.Path
) -> dict[str, str]:
    """Return the new path of each file that was named."""
    (wanted,) = names_of(session, [target])
    is_folder = str(target).endswith("/") or wanted == "." or (session.require_top() / wanted).is_dir()
    if len(sources) > 1 and not is_folder:
        raise UsageError(f"'{target}' is no folder, and several files go into one", hint="make it first")
    found: list[tuple[str, str]] = []
    for name in names_of(session, sources):
        inside = files_in(tree, [name])
        if not inside:
            raise missing_file_error(tree, "HEAD", "HEAD", name)
        place = pathlib.PurePosixPath(wanted, pathlib.PurePosixPath(name).name) if is_folder else wanted
        if name == "." or is_inside(str(place), name):
            raise UsageError(f"'{name}' cannot go into itself")
        found += [(old, f"{place}{old.removeprefix(name)}") for old in inside]
    for path, many in Counter(new for _, new in found).items():
        if many > 1:
            raise UsageError(f"several files would be '{path}' in the commit")
    return dict(found)


def _made_unfit(tree: Tree, moved: Mapping[str, str], replaced: Collection[str]) -> list[UnfitPath]:
    """Return what new names make unfit; what was so in the commit before need not be put right at once."""
    paths = [entry.path for entry in tree.files or ()]
    before = {(unfit.reason, unfit.places) for unfit in unfit_paths(paths)}
    after = unfit_paths(moved.get(path, path) for path in paths if path not in replaced)
    return [unfit for unfit in after if (unfit.reason, unfit.places) not in before]


def _replaced(tree: Tree, moved: Mapping[str, str], *, force: bool) -> tuple[str, ...]:
    """Return the files of the commit before whose names are taken, by force."""
    rest = [entry.path for entry in tree.files or () if entry.path not in moved]
    for new in moved.values():
        way = next((path for path in rest if path != new and is_in_the_way(new, [path])), None)
        if way is not None:
            raise UsageError(f"'{way}' and '{new}' cannot both be files in one commit")
    found = tuple(path for path in rest if path in set(moved.values()))
    if found and not force:
        raise ConflictError(
            f"HEAD has a file '{found[0]}' already", hint="with --force the one that moves takes its place"
        )
    return found


def _taken(
    top: pathlib.Path, index: Index, before: Reading, moved: Mapping[str, str], replaced: Collection[str]
) -> Taken:
    paths = [entry.path for entry in before.tree.files or () if entry.path not in replaced]
    settled = [path for path in paths if index.untouched(top, path, before.revision.id.hex())]
    tree = renamed_files(before.tree, {path: moved.get(path, path) for path in paths})
    for path in replaced:
        index.files.pop(path, None)
        index.places.pop(path, None)
    for known in (index.files, index.places):
        found = {new: known.pop(old) for old, new in moved.items() if old in known}
        known.update(found)  # type: ignore[arg-type]  # each of the two has its own kind of values
    kept = KeptFiles(tree, before.revision, {new: old for old, new in moved.items()})
    left = (*moved, *replaced)
    now = tuple(moved.get(path, path) for path in settled)
    return Taken(Captured((), files=()), index, Origin(), kept, left, now)


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


@dataclass(frozen=True)
class Amendment:
    """The last commit, and what is to stand in its place.

    Attributes:
        session: the repository.
        old: the commit whose place is taken.
        position: where the new one goes.
    """

    session: Session
    old: Revision
    position: BranchPosition

    @classmethod
    def of(cls, session: Session, position: BranchPosition) -> "Amendment":
        """Take the place of the commit that a new one would continue.

        Raises:
            NotFoundError: there is none.
            ConflictError: a pull was stopped, and its files have not come.
        """
        old = position.parent
        if old is None:
            raise NotFoundError("there is no commit yet, and so none to amend")
        refuse_unfinished(session, old)
        ancestors = tuple(session.graph.parents(old))
        return cls(session, old, replace(position, ancestors=ancestors))

    def asked(
        self, message: str | None, author: str | None, step: int | None, *, anew: bool = False
    ) -> CommitRequest:
        """Return a request that says what the old commit said where nothing else is said.

        What mvcs itself measured of the old files is not said of others: those that are recorded `anew`.
        """
        commit = self.old.commit
        known = dict(commit.metrics)
        if anew and commit.goal(METRIC) is not None:
            known.pop(METRIC, None)
        return CommitRequest(
            commit.message if message is None else message,
            commit.author if author is None else author,
            commit.step if step is None else step,
            known | dict(self.session.later(self.old.id)),
        )

    def with_metrics(self, request: CommitRequest, metrics: Mapping[str, float]) -> CommitRequest:
        """Return the request with these metrics as well."""
        return replace(request, metrics={**request.metrics, **metrics})

    def carried(self, origin: Origin) -> Origin:
        """Return where files come from; what the old commit continued from stays known."""
        before = self.old.commit.restored_from
        if origin.restored_from is not None or before is None:
            return origin
        with suppress(MvcsError):
            return replace(origin, restored_from=self.session.graph.load(before))
        return origin

    def reworded(self, request: CommitRequest) -> tuple[CommitRequest, KeptFiles]:
        """Return what says the old commit anew, and keeps all it has."""
        tree = open_reading(self.session.reader(), self.old, self.session.progress).tree
        commit = self.old.commit
        provenance = {name: str(value) for name, value in commit.provenance}
        return replace(request, rewords=commit, provenance=provenance), KeptFiles(tree, self.old)

    def taken(self, kept: KeptFiles) -> Taken:
        """Return what is known of the files in the folder, which stay as they are."""
        index, top = Index.of(self.session), self.session.require_top()
        paths = [entry.path for entry in kept.tree.files or ()]
        settled = [path for path in paths if index.untouched(top, path, self.old.id.hex())]
        return Taken(Captured((), files=()), index, Origin(), kept, (), tuple(settled))

    def notes(self) -> list[str]:
        """Say where the old commit was seen that others may go on from."""
        session, names = self.session, []
        for name, record in session.refs.survey(REMOTES).told(session.progress.note).items():
            with suppress(MvcsError):  # what is damaged is reported by what needs it
                tip = session.graph.load(record.target) if record.target else None
                if tip is not None and session.graph.is_ancestor(self.old.id, tip):
                    names.append(name)
        if not names:
            return []
        remote = names[0].partition("/")[0]
        seen = f"{short_id(self.old.id)} was pushed to {', '.join(names)}, and others may continue from it"
        return [f"{seen}; 'mvcs push {remote} --force' puts the new one in its place"]
