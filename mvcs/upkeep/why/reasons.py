"""`mvcs why`: what keeps something in a store, or that nothing does; and which record gave it up."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from mvcs.errors import NotFoundError
from mvcs.history import Graph, Revision
from mvcs.local import Place
from mvcs.memory import NOTHING
from mvcs.objects import Kind, half, short_id
from mvcs.reports import DROPPED, NEEDED, PAST, UNNEEDED, DropInfo, Why, WhyStep, as_utc
from mvcs.retention import Drop, DropLog
from mvcs.store import UNREADABLE_ERRORS, ObjectStore, read_footer
from mvcs.upkeep.why.contents import Users, held_by
from mvcs.upkeep.why.named import PACK, Named, found_by
from mvcs.upkeep.why.origins import Origin, Origins, Reached, reached

_COMMIT = Kind.COMMIT.name.lower()


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
    def _graph(self) -> Graph:
        return Graph(ObjectStore(self.place.backend, NOTHING))

    @cached_property
    def _origins(self) -> Origins:
        return Origins(self.place)

    @cached_property
    def _drops(self) -> list[tuple[int, Drop]]:
        return DropLog(self.place.backend).numbered()

    def explain(self, text: str, revision: Revision | None) -> Why:
        """Say what is known of the thing of that name."""
        named = self._of(text, revision)
        if named is None:
            return self._dropped(text)
        steps, origin = self._way(named)
        if origin is None:
            self._doubt()
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
            self._dropping(named),
            self.notes,
        )

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

    def _ways_to(self, named: Named) -> "_Ways":
        if named.kind in (PACK, _COMMIT):
            return _Ways(self._store, named)
        for exact in (False, True):
            self._store.catalog.attach_everything(exact=exact)
        return _Ways(self._store, named, Users.of(named.object, self._store.catalog.loaded()))

    def _dropping(self, named: Named) -> list[DropInfo]:
        """Return what gave up a commit's layer or data, or a pack that the thing lies in."""
        names = named.names
        return [
            _drop_info(number, drop)
            for number, drop in self._drops
            if (named.kind == _COMMIT and drop.commit == named.object) or names & set(drop.packs)
        ]

    def _dropped(self, text: str) -> Why:
        """Look for something that is gone in the records of drops, and in the trees of commits.

        Raises:
            NotFoundError: nothing names it.
        """
        packs = {name for _, drop in self._drops for name in drop.packs if name.startswith(text)}
        if len(packs) == 1:
            (name,) = packs
            drops = [_drop_info(number, drop) for number, drop in self._drops if name in drop.packs]
            return Why(PACK, name, DROPPED, self._way_to_commit(drops[0].commit), [], drops=drops)
        for found in self._every():
            with suppress(*UNREADABLE_ERRORS):
                for identifier, step in self._contents(found.revision):
                    if identifier.hex().startswith(text):
                        return self._lost(identifier.hex(), found, step)
        raise NotFoundError(
            f"nothing in this store is called '{text}', nor does a commit name it",
            hint="a tensor's id names no object: 'mvcs show REV --json' has them; "
            "'mvcs cat-file REV' shows what a commit names",
        )

    def _every(self) -> Iterator[Reached]:
        return reached(self._graph, [*self._origins.now, *self._origins.past])

    def _contents(self, revision: Revision) -> "Iterable[tuple[bytes, WhyStep]]":
        store = self._store
        store.catalog.attach_commit(revision.written.pack)
        tree = revision.commit.tree
        return held_by(store, tree, store.tree(tree))

    def _lost(self, identifier: str, found: Reached, step: WhyStep) -> Why:
        """Say of an object that a commit names, and no pack holds, whether it was dropped."""
        revision = found.revision
        drops = [_drop_info(number, drop) for number, drop in self._drops if drop.commit == revision.id]
        state = DROPPED if drops else UNNEEDED
        if not drops:
            short = short_id(revision.id)
            self.notes.append(f"commit {short} needs it, and no record says that it was dropped: it is lost")
            state = NEEDED
        steps = [*found.steps, step, WhyStep("chunk", identifier, "which is a part of that")]
        return Why("chunk", identifier, state, steps, [], drops=drops, notes=self.notes)

    def _way_to_commit(self, commit: str) -> list[WhyStep]:
        found = (item.steps for item in self._every() if item.revision.id.hex() == commit)
        return next(found, [])


@dataclass(frozen=True)
class _Ways:
    """Tells how a commit leads to one thing.

    Attributes:
        store: where it lies; every pack is attached where it is an object.
        named: the thing.
        users: what leans on it, where it is an object.
    """

    store: ObjectStore
    named: Named
    users: Users | None = None

    def within(self, revision: Revision) -> list[WhyStep] | None:
        """Return the steps from a commit to the thing; None where it does not need that.

        Raises:
            CorruptionError: what the commit needs cannot be told.
            NotFoundError: likewise.
        """
        if self.named.kind == _COMMIT:
            return [] if revision.id == self.named.object else None
        roles = self._roles(revision)
        packs = self.named.names & roles.keys()
        if not packs:
            return None
        pack = min(packs)
        if self.users is None:
            return [WhyStep(PACK, pack, roles[pack])]
        return self._held(revision, self.users) or [WhyStep(PACK, pack, f"{roles[pack]}: it lies in there")]

    def _roles(self, revision: Revision) -> dict[str, str]:
        """Return the packs that a commit needs, each with what for."""
        written = revision.written
        footer = read_footer(self.store.backend, written.pack)
        return {
            **dict.fromkeys(footer.reach, "which it reads, of an earlier commit"),
            **dict.fromkeys(written.exact_packs, "which holds its exact layer"),
            **dict.fromkeys(footer.own, "which was written for it"),
            written.pack: "which ends it",
        }

    def _held(self, revision: Revision, users: Users) -> list[WhyStep] | None:
        tree, best = revision.commit.tree, None
        for identifier, step in held_by(self.store, tree, self.store.tree(tree)):
            far = users.steps.get(half(identifier))
            if far is not None and (best is None or far < best[0]):
                best = (far, identifier, step)
        if best is None:
            return None
        way = users.way_down(half(best[1]))
        return way if best[2].kind == "tree" else [best[2], *way]


def _drop_info(number: int, drop: Drop) -> DropInfo:
    more = dict(drop.more or ())
    why = more.get("why")
    said = why if isinstance(why, str) else None
    return DropInfo(number, drop.commit.hex(), len(drop.packs), as_utc(drop.time), said)
