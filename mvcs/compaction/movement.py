"""Commits are stored anew one by one, each as far as it has to be, and ended anew where its packs moved."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

from mvcs.compaction.neighbours import Neighbours, fill
from mvcs.compaction.rewriting import Data, Place, Rewriting
from mvcs.compaction.views import sound_packs
from mvcs.delta import Encoding
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history import Revision
from mvcs.objects import Kind, ObjectId
from mvcs.store import WrittenCommit


@dataclass(frozen=True)
class Movement:
    """The part of a rewriting in which commits come parents first, and are ended anew."""

    work: Rewriting
    _given_up: set[str] = field(default_factory=set)

    def give_up(self, revision: Revision) -> None:
        """Note the packs of commits whose data go, before the first commit is looked at.

        These are packs that a commit is ended by, or names for ancestors: a branch which a process that was
        stopped did not move leads to others than those that count. One that holds no data may stay, and be
        leant on: nothing is stored anew for what went before.

        Raises:
            CorruptionError: the pack that ends the commit is damaged.
            NotFoundError: or gone.
        """
        pack = revision.written.pack
        for told in self.work.views.footer(pack).commits:
            if told.id in self.work.anew.without:
                self._give_up(told.pack or pack, certain=told.id == revision.id)

    def _give_up(self, pack: str, *, certain: bool) -> None:
        if pack in self._given_up:
            return
        self._given_up.add(pack)
        try:
            names = (*self.work.views.footer(pack).own, pack)
        except (CorruptionError, NotFoundError):
            if certain:
                raise
            return  # an older pack of an ancestor may be gone: then nothing leans on it
        self.work.gone.update(name for name in names if self._has_chunks(name))

    def _has_chunks(self, name: str) -> bool:
        members = (member for placed in self.work.contents(name) for member in placed.entry.members)
        return any(member.kind is Kind.CHUNK for member in members)

    def number(self, revision: Revision) -> None:
        """Count a commit, after its parents."""
        before = revision.commit.parents[:1]
        self.work.numbers[revision.id] = self.work.numbers.get(before[0], 0) + 1 if before else 0

    def advance(self, revision: Revision) -> bool:
        """Store a commit anew as far as it has to be, after its parents; tell whether it was ended anew.

        Raises:
            CorruptionError: something of it is damaged.
            NotFoundError: or gone.
        """
        parents = self.work.graph.parents(revision)
        follows = self._follows(revision, parents)
        if not (follows or self.work.anew.chosen(revision.id) or revision.id in self.work.anew.without):
            return False
        place = self.work.place(revision, self.work.in_order(self._leant_on(revision, parents)))
        self.work.views.stand(revision.written.pack, place.leant_on)
        copies = self.work.graph_now.copies(map(self.work.now, parents))
        wrote = self.work.going_on.end(place, [(one.id, one.pack) for one in copies])
        if wrote:
            self.work.take(wrote)
        else:
            kept = self._to_keep(place, follows=follows)
            if kept is None:
                return False
            wrote = self._end(place, parents, copies, kept)
        self._ended(place, wrote[-1])
        return True

    def _to_keep(self, place: Place, *, follows: bool) -> list[str] | None:
        """Return the packs that a commit keeps; None where it stays as it is."""
        data = self.work.data.get(place.revision.id)
        kept = list(data.own) if data else self.work.kept(place.revision)
        if not (data or follows) and len(kept) == len(place.own):
            return None
        old = place.own[-1]
        if old in kept and self.work.views.length(old) < self.work.anew.merged_bytes:
            kept.remove(old)
            self.work.views.target.catalog.forget([old])
        return kept

    def _end(
        self, place: Place, parents: Iterable[Revision], copies: tuple[WrittenCommit, ...], kept: list[str]
    ) -> tuple[str, ...]:
        """Store a commit anew, and return the packs that were written, the last of which ends it."""
        with closing(self.work.rewriter(place.revision)) as rewriter:
            values = place.values()
            nearest = [self.work.known.of(parent) for parent in self._kept_parents(parents)]
            near = Neighbours(self.work.views.source, values, nearest)
            fill(rewriter, place.revision.id, values, near, self.work.rest)
            rewriter.end(place.revision.written, copies, values.kinds, tuple(kept))
            rewriter.prove()
        self.work.take(rewriter.packs, rewriter)
        self.work.steps.note(self.work.step(place, rewriter.packs))
        return rewriter.packs

    def _ended(self, place: Place, pack: str) -> None:
        footer = self.work.views.footer(pack)
        self.work.moved |= dict.fromkeys(set(place.own).difference(footer.own), (pack, *footer.needed))
        self.work.graph_now.learn(footer)
        self.work.ends[place.revision.id] = self.work.graph_now.load(place.revision.id, pack)

    def _follows(self, revision: Revision, parents: Iterable[Revision]) -> bool:
        """Tell whether a commit has to be ended anew whatever its own packs are like."""
        needed = self.work.views.footer(revision.written.pack).needed
        moved = any(
            name in self.work.moved or name in self.work.gone or name in self.work.anew.lost
            for name in needed
        )
        moved = moved or revision.id in self.work.anew.back
        return (
            moved or revision.id in self.work.data or any(parent.id in self.work.ends for parent in parents)
        )

    def _kept_parents(self, parents: Iterable[Revision]) -> Iterator[Revision]:
        """Yield the nearest ancestors whose data stay."""
        for parent in parents:
            yield from (one for one in self._line(parent) if one.id not in self.work.anew.without)

    def _line(self, start: Revision) -> Iterator[Revision]:
        """Yield a commit, and its first parents down to the first whose data stay."""
        for revision in self.work.graph.first_parents(start):
            yield revision
            if revision.id not in self.work.anew.without:
                return

    def _leant_on(self, revision: Revision, parents: Iterable[Revision]) -> Iterable[str]:
        """Return the packs that a commit may lean on: its parents, its own data, and what it leans on now."""
        trusted = list(self.work.data[revision.id].packs if revision.id in self.work.data else ())
        for parent in self._kept_parents(parents):
            pack = self.work.now(parent).written.pack
            trusted += (pack, *self.work.views.footer(pack).needed)
        if revision.id in self.work.anew.back:
            return trusted  # what it leant on is to go
        reach = self.work.views.footer(revision.written.pack).reach
        trusted += (now for name in reach for now in self.work.moved.get(name, ()))
        gone = self.work.gone.union(self.work.anew.lost)
        others = [name for name in reach if name not in self.work.moved and name not in gone]
        return sound_packs(trusted, others, self.work.views.leaning) if gone else (*trusted, *others)


@dataclass(frozen=True)
class Hanging:
    """The part of a rewriting in which later commits come first."""

    work: Rewriting

    def hang(self, revision: Revision, later: Iterable[Revision]) -> None:
        """Store the data of a commit near those of later ones, which come before it; it is not ended yet.

        Raises:
            CorruptionError: something of it is damaged.
            NotFoundError: or gone.
        """
        children = [child for child in later if child.id in self.work.data]
        leant = self.work.in_order(name for child in children for name in self.work.data[child.id].packs)
        beside = [self._unfolded(child) for child in children]
        beside += [name for pack in beside for name in self.work.views.footer(pack).needed]
        self.work.views.stand(self._unfolded(revision), leant, beside)
        place = self.work.place(revision, leant)
        data = self.work.going_on.hang(place)
        if data is None:
            data = self._hang(place, children)
        else:
            self.work.take(name for name in data.own if name not in place.own)
        self.work.data[revision.id] = data

    def _hang(self, place: Place, children: list[Revision]) -> Data:
        revision, catalog = place.revision, self.work.views.target.catalog
        hanging = {base: name for child in children for base, name in self._bases_of(child).items()}
        hangs = not children or bool(self._bases_of(revision))
        kept = self.work.kept(revision) if hangs else []
        if len(kept) < len(place.own):
            catalog.forget(kept)
            kept = []
        with closing(self.work.rewriter(revision)) as rewriter:
            values, above = place.values(), [self.work.known.of(child) for child in children]
            near = Neighbours(self.work.views.source, values, above, hanging, down=False)
            fill(rewriter, revision.id, values, near, self.work.rest)
            rewriter.flush()
            rewriter.lean_on(name for name in values.kinds if name != revision.id)
            rewriter.prove()
        self.work.take(rewriter.packs, rewriter)
        packs = (*kept, *rewriter.packs)
        data = Data(packs, tuple(sorted(rewriter.reach.difference(packs))))
        if rewriter.packs:
            self.work.steps.note(self.work.step(place, rewriter.packs, data))
        return data

    def hung(self, revision: Revision) -> None:
        """Go over to ending commits anew, of which some hang; this one stays as it was if it hung already."""
        old, data = revision.written, self.work.data[revision.id]
        own = (*self.work.views.footer(old.pack).own, old.pack)
        if data.own == own:
            del self.work.data[revision.id]
        else:
            self.work.moved |= dict.fromkeys(set(own).difference(data.own), data.packs)

    def _unfolded(self, revision: Revision) -> str:
        """Return the pack that ends a commit where it is read."""
        return (revision if self.work.unfolded is None else self.work.unfolded.now(revision)).written.pack

    def _bases_of(self, revision: Revision) -> dict[ObjectId, ObjectId]:
        """Return what a commit is stored near as it is: halves of ids, each with what lies near it."""
        found: dict[ObjectId, ObjectId] = {}
        pack = revision.written.pack
        for name in (*self.work.views.footer(pack).own, pack):
            for placed in self.work.views.footer(name).entries:
                if placed.entry.encoding is not Encoding.NARROWED:
                    for base, identifier in zip(placed.entry.bases, placed.ids, strict=False):
                        found.setdefault(base.id, identifier)
        return found
