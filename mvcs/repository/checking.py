"""fsck: every record, every pack, every object hashed again, and everything a commit needs is there."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from mvcs.errors import MvcsError, NotFoundError
from mvcs.history.graph import Graph, Revision
from mvcs.objects.ids import Kind, ObjectId, file_name, short
from mvcs.policy.drops import DropLog
from mvcs.progress import Progress
from mvcs.refs import HEADS, NOTES, REMOTES, TAGS, RefRecord, RefStore
from mvcs.refs.annotating import check_note, check_tag
from mvcs.repository.looking import located_chunks
from mvcs.repository.reports import FsckReport, Problem
from mvcs.repository.restoring import open_reading
from mvcs.store.backend import Backend
from mvcs.store.catalog import EXACT_FOLDER, VALUE_FOLDER, pack_name, pack_path
from mvcs.store.objects import ObjectStore
from mvcs.store.pack import scan

_ANNOTATIONS = {TAGS: check_tag, NOTES: check_note}


@dataclass
class Fsck:
    """One check of a store. It only reads.

    Attributes:
        store: the store, freshly opened, so that nothing remembered hides a problem.
        refs: its refs.
        progress: is told the packs done.
        problems: what is wrong.
        notes: what is worth knowing but not wrong.
    """

    store: ObjectStore
    refs: RefStore
    progress: Progress
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _objects: int = 0
    _bytes: int = 0
    _reached: set[str] = field(default_factory=set)

    def run(self, *, full: bool) -> FsckReport:
        """Check everything; without `full` the contents of packs are not read."""
        dropped = self._dropped()
        tips = self._tips()
        graph = Graph(self.store)
        seen: set[ObjectId] = set()
        for name, revision in self._loaded(graph, tips):
            self._history(graph, name, revision, seen, dropped)
        self._packs(VALUE_FOLDER, full=full)
        self._packs(EXACT_FOLDER, full=full)
        self._leftovers()
        return FsckReport(not self.problems, self._objects, self._bytes, self.problems, self.notes)

    def _report(self, kind: str, subject: str, error: MvcsError) -> None:
        self.problems.append(Problem(kind, subject, error.message, error.hint))

    def _dropped(self) -> set[str]:
        try:
            return {name for drop in DropLog(self.store.backend).drops() for name in drop.packs}
        except MvcsError as error:
            self._report("drop record", "retention/drops", error)
            return set()

    def _packs(self, folder: str, *, full: bool) -> None:
        paths = self.store.backend.list(folder)
        exact = folder == EXACT_FOLDER
        # The base of an object of an exact layer may lie in any pack of that layer.
        names = [name for path in paths if (name := pack_name(path)) and path == pack_path(name, exact=exact)]
        for name in names:
            with suppress(MvcsError):
                self.store.catalog.attach(name, exact=exact)
        self.progress.start("checking packs", len(paths), "packs")
        for path in paths:
            name = pack_name(path)
            if name is None or path != pack_path(name, exact=exact):
                self.notes.append(f"'{path}' is not a pack; it was left alone")
                continue
            try:
                self._pack(path, name, exact=exact, full=full)
            except MvcsError as error:
                self._report("pack", path, error)
            self.progress.advance(1)
        self.progress.finish()

    def _pack(self, path: str, name: str, *, exact: bool, full: bool) -> None:
        footer = self.store.catalog.attach(name, exact=exact)
        self._bytes += self.store.backend.size(path) or 0
        self._objects += sum(len(placed.ids) for placed in footer.entries)
        if not full:
            return
        data = self.store.backend.read(path)
        if file_name(data) != name:
            self.problems.append(Problem("pack", path, "its bytes do not hash to its name", _fetch_hint()))
        frames = {offset: entry for offset, entry, _, _ in scan(data)}
        for placed in footer.entries:
            if frames.get(placed.offset) != placed.entry:
                self.problems.append(
                    Problem("pack", path, f"no entry lies at offset {placed.offset}", _fetch_hint())
                )
            for member, identifier in zip(placed.entry.members, placed.ids, strict=True):
                self._object(path, member.kind, identifier, exact=exact)

    def _object(self, path: str, kind: Kind, identifier: ObjectId, *, exact: bool) -> None:
        try:
            self.store.read(kind, identifier, exact=exact)
        except NotFoundError as error:
            # What interrupted work left may lack its bases; nothing needs it.
            if pack_name(path) in self._reached:
                self._report("object", f"{short(identifier)} in {path}", error)
        except MvcsError as error:
            self._report("object", f"{short(identifier)} in {path}", error)

    def _tips(self) -> dict[str, tuple[ObjectId, str | None]]:
        tips: dict[str, tuple[ObjectId, str | None]] = {}
        for kind in (HEADS, TAGS, REMOTES, NOTES):
            for name in self._names(kind):
                try:
                    records = list(self.refs.history(kind, name))
                except MvcsError as error:
                    self._report("ref", f"{kind}/{name}", error)
                    continue
                self._annotations(kind, name, records)
                if records and kind != NOTES and records[0].target is not None:
                    tips[f"{kind}/{name}"] = (records[0].target, records[0].pack)
        return tips

    def _annotations(self, kind: str, name: str, records: list[RefRecord]) -> None:
        """Decode the tags and notes that records carry, and compare them with what the records name."""
        for record in records:
            check = _ANNOTATIONS.get(kind)
            if check is None or record.target is None:
                continue
            try:
                check(name, record)
            except MvcsError as error:
                self._report("ref", f"{kind}/{name}", error)

    def _names(self, kind: str) -> list[str]:
        try:
            return self.refs.listed(kind)
        except MvcsError as error:
            self._report("ref", kind, error)
            return []

    def _loaded(
        self, graph: Graph, tips: dict[str, tuple[ObjectId, str | None]]
    ) -> Iterable[tuple[str, Revision]]:
        for name, (target, pack) in tips.items():
            try:
                yield name, graph.load(target, pack)
            except MvcsError as error:
                self._report("ref", name, error)

    def _history(
        self, graph: Graph, name: str, tip: Revision, seen: set[ObjectId], dropped: set[str]
    ) -> None:
        try:
            for revision in graph.walk([tip]):
                if revision.id not in seen:
                    seen.add(revision.id)
                    self._commit(revision, dropped)
        except MvcsError as error:
            self._report("history", name, error)

    def _commit(self, revision: Revision, dropped: set[str]) -> None:
        subject = f"commit {short(revision.id)}"
        try:
            reading = open_reading(self.store, revision, self.progress)
            footer = self.store.catalog.attach(revision.written.pack)
            self._reached.update((revision.written.pack, *footer.needed, *revision.written.exact_packs))
            for leaf in reading.tree.leaves:
                for located in located_chunks(self.store, leaf):
                    self.store.catalog.chain(located.placed.ids[located.member])
            for identifier, _ in reading.tree.blobs():
                self.store.catalog.locate(identifier)
        except MvcsError as error:
            self._report("commit", subject, error)
        for name in revision.written.exact_packs:
            if name not in dropped and self.store.backend.size(pack_path(name, exact=True)) is None:
                lost = NotFoundError(
                    "a pack of its exact layer is missing and was not dropped on purpose", hint=_fetch_hint()
                )
                self._report("exact layer", subject, lost)

    def _leftovers(self) -> None:
        for folder in (VALUE_FOLDER, EXACT_FOLDER):
            paths = [path for path in self.store.backend.list(folder) if pack_name(path) not in self._reached]
            if paths:
                size = sum(self.store.backend.size(path) or 0 for path in paths)
                self.notes.append(
                    f"{len(paths)} packs in '{folder}' ({size} bytes) belong to no commit: "
                    "left by interrupted work, or being written"
                )


def _fetch_hint() -> str:
    return "copy the file of that name from a clone or remote that has it; its name is its hash"


def check(backend: Backend, progress: Progress, *, full: bool) -> FsckReport:
    """Check a store from its bytes alone."""
    return Fsck(ObjectStore(backend), RefStore(backend), progress).run(full=full)
