"""Data of commits are stored near those of later ones, newest first; they are ended afterwards."""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

from mvcs.compaction.filling import fill
from mvcs.compaction.going_on import Data, Place
from mvcs.compaction.neighbours import Neighbours
from mvcs.compaction.rewriting import Rewriting
from mvcs.delta import Encoding
from mvcs.history import Revision
from mvcs.objects import ObjectId


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
