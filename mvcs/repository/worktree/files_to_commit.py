"""Files of the folder for a commit, what a state continued from, and what is known of the files after."""

import pathlib
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from mvcs.checkpoint import Captured, capture_files, refuse_unfit
from mvcs.commits import (
    CommitRequest,
    KeptFiles,
    MadeCommit,
    Selection,
    SelectionRules,
    nothing_new_error,
    says_nothing_more,
)
from mvcs.errors import CorruptionError, NotFoundError, StorageError, UsageError, some_of
from mvcs.history import Revision
from mvcs.objects import BOUNDED, FileFormat, Tree, files_in, part_of, unfit_paths
from mvcs.repository.lineage_record import LineageRecord
from mvcs.repository.session import Session
from mvcs.repository.worktree.file_index import Index, file_states, places_of
from mvcs.repository.worktree.named_files import NamedFiles
from mvcs.repository.worktree.whereabouts import refuse_unfinished
from mvcs.restore import EXACT_LAYER, HANDED_OUT, open_reading, stored_among, traced_commit
from mvcs.store import UNREADABLE_ERRORS

_OF_HEAD = (
    "'mvcs mv' renames a file of HEAD and 'mvcs rm' leaves one out; with --only all but what is named go"
)
_SHOWN = 3
_UNREAD = "which files HEAD has cannot be read: what is named was stored alone; 'mvcs fsck' tells more"


@dataclass(frozen=True)
class AskedFiles:
    """What a commit of files is asked to hold.

    Attributes:
        paths: files and folders; none for HEAD's.
        names: what some of them are called in the commit, instead of where they lie.
        only: whether HEAD's other files leave it.
        replaces: whether what is new takes the place of what it is stored near.
        plain: whether files that cannot be read as checkpoints are kept byte for byte.
    """

    paths: tuple[pathlib.Path, ...]
    names: Mapping[pathlib.Path, str]
    only: bool
    replaces: bool
    plain: bool

    @classmethod
    def of(
        cls,
        paths: Iterable[str | pathlib.Path],
        names: Mapping[str | pathlib.Path, str] | None = None,
        *,
        only: bool = False,
        replaces: bool = False,
        plain: bool = False,
    ) -> "AskedFiles":
        """Group what a verb was given."""
        named = {pathlib.Path(path): name for path, name in (names or {}).items()}
        return cls(tuple(map(pathlib.Path, paths)), named, only, replaces, plain)


@dataclass(frozen=True)
class Origin:
    """What a state continued from.

    Attributes:
        lossy: whether that was restored lossily; None where nothing tells.
        restored_from: the bounded commit it was restored from, where that is known and here.
        nothing_left: whether no lossy values left the store, as far as this clone and process know.
    """

    lossy: bool | None = False
    restored_from: Revision | None = None
    nothing_left: bool = False

    def asked(self, request: CommitRequest) -> CommitRequest:
        """Return a request for a commit that says so."""
        return replace(
            request, lossy=self.lossy, restored_from=self.restored_from, nothing_left=self.nothing_left
        )


@dataclass(frozen=True)
class Taken:
    """What a commit takes from the folder, and what it keeps of its parent.

    Attributes:
        captured: the files that were read.
        index: what is known of the files in the folder.
        origin: where they come from.
        kept: the parent's files that stay as they are; None for none.
        left: the parent's files that the commit does not have.
        settled: those of the kept files that are in the folder as the parent has them.
        added: files that were read and the parent does not have.
    """

    captured: Captured
    index: Index
    origin: Origin
    kept: KeptFiles | None = None
    left: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


def capture(session: Session, asked: AskedFiles, parent: Revision | None) -> Taken:
    """Capture files for a commit after `parent`, and decide which of the parent's files it keeps.

    Raises:
        UsageError: nothing was named, or paths of the commit could not be restored on every system.
        ConflictError: a link stands in the place of the parent's files.
    """
    if asked.names and not asked.paths:
        raise UsageError("a name for a file needs the file")
    top = session.require_top()
    refuse_unfinished(session, parent)
    index = Index.of(session)
    head = tree_before(session, parent, needed=not (asked.only and asked.paths))
    files = NamedFiles.of(top, asked.paths, asked.names, index, head)
    began_ns = time.time_ns()
    captured = capture_files(files.paths, top, files.names, files.opaque, files.known, plain=asked.plain)
    selection = Selection()
    if parent is not None and head is not None:
        selection = _selected(top, asked, files, captured, index, head)
    before = "" if parent is None else parent.id.hex()
    settled = tuple(path for path in selection.kept if index.untouched(top, path, before))
    index.places |= places_of(files.names)
    index.take(top, captured, began_ns)
    added = tuple(entry.path for entry in captured.files or () if entry.path not in files.known.names)
    notes = (*captured.notes, *selection.notes, *_of_places(top, index, captured, files, asked))
    unread = [_UNREAD] if parent is not None and head is None else []
    noted = replace(captured, notes=(*notes, *_not_kept(captured, added), *unread))
    kept = KeptFiles(part_of(head, selection.kept), parent) if parent and head and selection.kept else None
    origin = Origins(session).of_files(captured, index, parent)
    return Taken(noted, index, origin, kept, selection.left, settled, added)


def _selected(
    top: pathlib.Path, asked: AskedFiles, files: NamedFiles, captured: Captured, index: Index, head: Tree
) -> Selection:
    stored = stored_among(top, [entry.path for entry in head.files or ()])
    outside = index.outside(top, files.known.places.values())
    rules = SelectionRules(head, captured, files.named, outside, stored)
    selection = rules.of(only=asked.only, replaces=asked.replaces)
    taken = [entry.path for entry in captured.files or ()]
    refuse_unfit(unfit_paths([*taken, *selection.kept]), _OF_HEAD)
    return selection


def _of_places(
    top: pathlib.Path, index: Index, captured: Captured, files: NamedFiles, asked: AskedFiles
) -> Iterator[str]:
    """Say which files nobody named now that come from elsewhere: the index says so, and may be anybody's."""
    read = {entry.path for entry in captured.files or ()}
    found = index.outside(top, files.beyond if asked.paths else sorted(read))
    for path, place in found.items():
        yield (
            f"'{path}' was read outside the folder, from '{place}'"
            if path in read
            else f"'{path}' stays as HEAD has it: '{place}', where it was read, is not there"
        )


def _not_kept(captured: Captured, added: Sequence[str]) -> Iterator[str]:
    """Say of new files what a commit does not keep of them: that they are links, or executable."""
    links, executable = [], []
    for name in added:
        path = captured.origins[name].path
        with suppress(OSError):
            if path.is_symlink():
                links.append(f"'{name}'")
            elif path.stat().st_mode & stat.S_IXUSR:
                executable.append(f"'{name}'")
    if links:
        yield f"a commit has no links, but a copy of what each leads to: {some_of(links, _SHOWN)}"
    if executable:
        yield f"a commit does not keep that a file is executable: {some_of(executable, _SHOWN)}"


def tree_before(session: Session, parent: Revision | None, *, needed: bool = True) -> Tree | None:
    """Return what a commit holds; None for none, and where it is not `needed` and cannot be read.

    Raises:
        CorruptionError: it cannot be read.
    """
    if parent is None:
        return None
    try:
        return open_reading(session.reader(), parent, session.progress).tree
    except (CorruptionError, NotFoundError) as error:
        if not needed:
            return None
        raise CorruptionError(
            f"which files HEAD has cannot be read: {error.message}",
            hint="with --only a commit holds the files that are named; 'mvcs fsck' tells of the damage",
        ) from error


def capture_present(session: Session, among: Collection[str] = ()) -> Captured:
    """Capture those of HEAD's files that are still there, to compare with; with `among` only these."""
    top = session.require_top()
    index = Index.of(session)
    head = tree_before(session, session.head())
    if among and head is not None:
        head = part_of(head, files_in(head, among))
    if head is None or not head.files:
        return Captured((), files=())
    found = [(index.find(top, entry.path), entry) for entry in head.files]
    present = [(place, entry) for place, entry in found if place is not None]
    if not present:
        return Captured((), files=())
    names = {place: entry.path for place, entry in present}
    opaque = [place for place, entry in present if entry.format is FileFormat.OPAQUE]
    return capture_files(list(names), top, names, opaque, any_names=True)


def remember(session: Session, taken: Taken, made: MadeCommit) -> None:
    """Note that the committed files equal the new commit; the commit is safe whether or not this works."""
    index, commit = taken.index, made.revision.id.hex()
    captured = {entry.path for entry in taken.captured.files or ()}
    # What is known of other files that the commit has tells later where they came from.
    others = {entry.path for entry in made.tree.files or ()} - captured
    known = {path: seen for path, seen in index.files.items() if path in others}
    settled = {path: replace(index.files[path], commit=commit) for path in taken.settled}
    index.keep_lossy(captured)
    index.files |= known | settled
    index.remember(commit, EXACT_LAYER)
    try:
        index.save(session.place.local or session.require_top())
    except StorageError as error:
        session.warn(f"'mvcs status' will take longer: {error.message}")


EXACT = Origin()


class Origins:
    """Finds out where states come from, for the commits of one open repository."""

    def __init__(self, session: Session) -> None:
        """Ask what `session` and this process know."""
        self._session = session
        self._record = LineageRecord(session)

    def of_state(
        self, state: object, captured: Captured, told: str | None, parent: Revision | None
    ) -> Origin:
        """Return where a state comes from.

        Args:
            state: as it was handed over.
            captured: the same.
            told: the bounded commit it was restored from, as its owner says; "" for none, None for no word.
            parent: what the commit continues.

        Raises:
            NotFoundError: there is no such commit.
        """
        if told is not None:
            return Origin(True, self._session.resolver.resolve(told)) if told else EXACT
        marked = HANDED_OUT.find(state)
        if marked is not None:
            return self._lossy(marked)
        return EXACT if self._continues(parent) else self._by_values(captured, parent)

    def _continues(self, parent: Revision | None) -> bool:
        """Tell whether this process has the commit before from itself or whole, and nothing lossy."""
        given = self._session.given
        if parent is None or given.lossy:
            return False
        return parent.id in given.exact or (parent.id in given.made and self._record.gave_nothing())

    def of_files(self, captured: Captured, index: Index, parent: Revision | None) -> Origin:
        """Return where files come from: by what is known of their paths, their marks, and their values."""
        paths = [entry.path for entry in captured.files or ()]
        seen = [index.files.get(path) for path in paths]
        lossy = [found.commit for found in seen if found is not None and found.lossy]
        lossy += [captured.restored[path] for path in paths if path in captured.restored]
        if lossy:
            return self._lossy(lossy[0])
        known = None not in seen and self._record.gave_nothing()
        found = self._by_values(captured, parent, strict=known)
        return EXACT if known and found.lossy is None else found

    def _by_values(self, captured: Captured, parent: Revision | None, *, strict: bool = False) -> Origin:
        """Return what the history, or at last the values themselves, tell; `strict`, against a proof."""
        nothing_left = not self._session.given.lossy and self._record.gave_nothing()
        if nothing_left and (parent is None or not self._is_behind_bounded(parent)):
            return EXACT
        store, graph = self._session.store, self._session.graph
        found = traced_commit(store, graph, parent, captured, strict=strict) if parent else None
        return Origin(True, found) if found else Origin(None, nothing_left=nothing_left)

    def _lossy(self, commit: str) -> Origin:
        try:
            return Origin(True, self._session.resolver.resolve(commit))
        except (*UNREADABLE_ERRORS, UsageError):
            return Origin(True)  # such as a commit of another clone that was never fetched

    def _is_behind_bounded(self, parent: Revision) -> bool:
        """Tell whether a commit or an ancestor is bounded; taken to be so where history cannot be read."""
        known = self._record.unbounded
        try:
            line = self._session.graph.walk([parent], without={known} if known else set())
            if any(revision.commit.exactness == BOUNDED for revision in line):
                return True
        except UNREADABLE_ERRORS:
            return True
        if parent.id != known:
            self._record.remember_unbounded(parent.id)
        return False


def refuse_unchanged(session: Session, taken: Taken, request: CommitRequest, parent: Revision | None) -> None:
    """Refuse a commit of files that its parent restored, and nobody changed, where its request does.

    Rounded files would make another tree: one that says that they were handed over like this.

    Raises:
        NothingToCommitError: there is nothing but such files, and step and metrics are those of the parent.
    """
    if parent is None or not says_nothing_more(request, parent) or taken.left:
        return
    paths = [entry.path for entry in taken.captured.files or ()]
    seen = [taken.index.files.get(path) for path in paths]
    here = [
        found for found in seen if found and found.commit == parent.id.hex() and found.layer != EXACT_LAYER
    ]
    rounded = request.quantizer and tuple(request.quantizer.to_fields()) == parent.commit.quantizer
    if len(here) < len(seen) or (request.quantizer and not (rounded and all(found.lossy for found in here))):
        return
    states = file_states(
        session.require_top(), taken.index, open_reading(session.reader(), parent, session.progress)
    )
    if all(states.get(path) == "unmodified" for path in paths):
        raise nothing_new_error(parent)
