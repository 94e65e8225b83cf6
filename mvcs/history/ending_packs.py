"""The packs that end commits: one that was named may be gone, since the commit was ended anew."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from mvcs.objects import ObjectId
from mvcs.store import UNREADABLE_ERRORS, VALUE_FOLDER, Backend, WrittenCommit, pack_name, read_footer

Ended = tuple[WrittenCommit, tuple[str, ...]]


@dataclass(frozen=True)
class EndingPacks:
    """What all packs of a store say of the commits that they end.

    Attributes:
        there: names of all packs.
        ended: by commits: as each pack says that ends it, with the other packs it names.
    """

    there: frozenset[str]
    ended: Mapping[ObjectId, list[Ended]]

    @classmethod
    def of(cls, backend: Backend) -> Self:
        """Read the footers of all packs; those that cannot be read tell nothing."""
        there = frozenset(name for path in backend.list(VALUE_FOLDER) if (name := pack_name(path)))
        found: dict[ObjectId, list[Ended]] = defaultdict(list)
        for name in sorted(there):
            with suppress(*UNREADABLE_ERRORS):
                footer = read_footer(backend, name)
                for written in footer.commits[:1]:
                    found[written.id].append((written, footer.needed))
        return cls(there, found)

    def whole(self, identifier: ObjectId) -> WrittenCommit | None:
        """Return a commit as the first pack by name ends it of which all named packs are there, if any is."""
        return next(self.all_whole(identifier), None)

    def all_whole(self, identifier: ObjectId) -> Iterator[WrittenCommit]:
        """Yield a commit as each pack ends it of which all named packs are there."""
        for written, needed in self.ended.get(identifier, ()):
            if self.there.issuperset((written.pack, *needed)):
                yield written
