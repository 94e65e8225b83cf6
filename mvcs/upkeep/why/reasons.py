"""`mvcs why`: what keeps something in a store, or that nothing does; and which record gave it up."""

import datetime as dt
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from mvcs.errors import MvcsError, NotFoundError
from mvcs.history import CountingGraph, Revision
from mvcs.local import Place
from mvcs.memory import NOTHING
from mvcs.objects import Kind, ObjectId, short_id
from mvcs.refs import now_microseconds
from mvcs.reports import DROPPED, NEEDED, PAST, UNNEEDED, Why, WhyStep, as_utc
from mvcs.retention import Ruling
from mvcs.store import UNREADABLE_ERRORS, CondemnedLog, ObjectStore, Standing
from mvcs.upkeep.why.contents import EXACT_VALUES, Users, held_by
from mvcs.upkeep.why.drops_told import DropsTold
from mvcs.upkeep.why.lost_packs import LostPacks
from mvcs.upkeep.why.named import PACK, Named, found_by
from mvcs.upkeep.why.origins import Origin, Origins, Reached, reached
from mvcs.upkeep.why.ways import COMMIT, Ways

_LEAVING = (Standing.CONDEMNED, Standing.GOING)


def explain(place: Place, text: str, revision: Revision | None) -> Why:
    """Say what keeps something alive, or what dropped it.

    Args:
        place: the repository.
        text: an id, a prefix of one, or the name of a pack.
        revision: the commit that the text names; None where it names none that is known.

    Raises:
        NotFoundError: nothing of that name is there, was dropped, or is named by a commit that is reached.
        UsageError: it names several things.
    """
    return _Search(place).explain(text, revision)


@dataclass
class _Search:
    """One search through a store."""

    place: Place
    notes: list[str] = field(default_factory=list)

    @cached_property
    def _store(self) -> ObjectStore:
        return ObjectStore(self.place.backend, self.place.memory)

    @cached_property
    def _graph(self) -> CountingGraph:
        return CountingGraph(ObjectStore(self.place.backend, NOTHING))

    @cached_property
    def _origins(self) -> Origins:
        return Origins(self.place)

    @cached_property
    def _log(self) -> CondemnedLog:
        log = CondemnedLog(self.place.backend, now_microseconds)
        log.look()
        return log

    @cached_property
    def _drops(self) -> DropsTold:
        return DropsTold.of(self.place.backend)

    def explain(self, text: str, revision: Revision | None) -> Why:
        """Say what is known of the thing of that name."""
        named = self._of(text, revision)
        if named is None:
            return self._dropped(text)
        steps, origin = self._way(named)
        if origin is None:
            self._doubt()
        if named.kind == COMMIT and named.object is not None:
            self._tell_pinned(named.object)
        state = UNNEEDED if origin is None else NEEDED if origin.until is None else PAST
        return Why(
            named.kind,
            named.id,
            state,
            steps,
            list(named.packs),
            named.bytes,
            as_utc(round(written * 1e6)) if (written := self._written(named)) is not None else None,
            as_utc(origin.until) if origin is not None and origin.until else None,
            self._drops.of_names(named.object if named.kind == COMMIT else None, named.names),
            self.notes,
            *self._standing(named),
        )

    def _tell_pinned(self, commit: ObjectId) -> None:
        with suppress(MvcsError):  # fsck tells what is wrong with pins
            if commit in Ruling.of(self.place.backend).pins:
                self.notes.append("it is pinned, so no rule lets its data go")

    def _standing(self, named: Named) -> tuple[str | None, dt.datetime | None]:
        """Say how a collector told of the packs of something, where all of them are to go."""
        records = [self._log.standing(name) for name in sorted(named.names)]
        found = [record for record in records if record is not None and record.standing in _LEAVING]
        if not found or len(found) < len(records):
            return None, None
        last = max(found, key=lambda record: record.number)
        return last.standing.name.lower(), as_utc(last.time)

    def _of(self, text: str, revision: Revision | None) -> Named | None:
        if revision is None:
            return found_by(text, self._store)
        store = self._store
        store.catalog.attach_everything()
        return Named.of_object(store, revision.id, Kind.COMMIT, len(revision.written.content))

    def _doubt(self) -> None:
        """Say why something may be kept all the same; of what nothing leads to nobody can tell since when."""
        if self._origins.doubts:
            self.notes.append(f"a ref may have led to it: {self._origins.doubts[0]}")

    def _written(self, named: Named) -> float | None:
        times = [self.place.backend.modified(path) for path in named.packs]
        return max((time for time in times if time is not None), default=None)

    def _way(self, named: Named) -> tuple[list[WhyStep], Origin | None]:
        """Return the shortest way to something: from where refs stand, and else from where they stood."""
        search = self._ways_to(named)
        for origins in (self._origins.now, self._origins.past):
            best: tuple[int, Reached, list[WhyStep]] | None = None
            for found in reached(self._graph, origins):
                if best is not None and found.back >= best[0]:
                    break
                with suppress(*UNREADABLE_ERRORS):
                    way = search.within(found.revision)
                    if way is not None and (best is None or found.back + len(way) < best[0]):
                        best = (found.back + len(way), found, way)
            if best is not None:
                return [*best[1].steps, *best[2]], best[1].origin
        return [], None

    def _ways_to(self, named: Named) -> Ways:
        if named.kind in (PACK, COMMIT):
            return Ways(self._store, named)
        for exact in (False, True):
            self._store.catalog.attach_everything(exact=exact)
        return Ways(self._store, named, Users.of(named.object, self._store.catalog.loaded()))

    def _dropped(self, text: str) -> Why:
        """Look for something that is gone in the records of drops, and in the trees of commits.

        Raises:
            NotFoundError: nothing names it.
        """
        gone = {name for name in self._log.of(Standing.GONE) if name.startswith(text)}
        if len(gone) == 1:
            (name,) = gone
            record = self._log.standing(name)
            time = None if record is None else as_utc(record.time)
            return Why(PACK, name, DROPPED, [], [], notes=self.notes, standing="gone", stands=time)
        packs = {name for name in self._drops.packs if name.startswith(text)}
        if len(packs) == 1:
            (name,) = packs
            drops = self._drops.of_names(None, packs)
            return Why(PACK, name, DROPPED, self._way_to_commit(drops[0].commit), [], drops=drops)
        lost = LostPacks(self.place.backend, self._graph, self._origins, self._drops.packs)
        if (found := lost.explain(text) or self._named_by_commits(text)) is not None:
            return found
        raise NotFoundError(
            f"nothing in this store is called '{text}', nor does a commit name it",
            hint="a tensor's id names no object: 'mvcs show REV --json' has them; "
            "'mvcs cat-file REV' shows what a commit names",
        )

    def _named_by_commits(self, text: str) -> Why | None:
        """Say of what is nowhere which commit names it: one that did not drop it comes first."""
        dropped: Why | None = None
        for found in self._every():
            with suppress(*UNREADABLE_ERRORS):
                for identifier, step in self._contents(found.revision):
                    if identifier.hex().startswith(text):
                        why = self._lost(identifier.hex(), found, step)
                        if why.state == NEEDED:
                            return why
                        dropped = dropped or why
        return dropped

    def _every(self) -> Iterator[Reached]:
        return reached(self._graph, [*self._origins.now, *self._origins.past])

    def _contents(self, revision: Revision) -> "Iterable[tuple[bytes, WhyStep]]":
        store = self._store
        store.catalog.attach_commit(revision.written.pack)
        tree = revision.commit.tree
        return held_by(store, tree, store.tree(tree))

    def _lost(self, identifier: str, found: Reached, step: WhyStep) -> Why:
        """Say of an object that a commit names, and no pack holds, whether it was dropped."""
        drops, notes = self._drops.of_layer(found.revision, exact=step.said == EXACT_VALUES), self.notes
        if not drops:
            short = short_id(found.revision.id)
            notes = [*notes, f"commit {short} needs it, and no record says that it was dropped: it is lost"]
        steps = [*found.steps, step, WhyStep("chunk", identifier, "which is a part of that")]
        return Why("chunk", identifier, DROPPED if drops else NEEDED, steps, [], drops=drops, notes=notes)

    def _way_to_commit(self, commit: str) -> list[WhyStep]:
        found = (item.steps for item in self._every() if item.revision.id.hex() == commit)
        return next(found, [])
