"""Which packs the commits of a store need: read from the footers that end them, once, and remembered."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from mvcs.errors import CorruptionError, NotFoundError, UnsupportedFormatError
from mvcs.history import Revision
from mvcs.store import Backend, read_footer

RECENT = 64
_UNREADABLE = (CorruptionError, NotFoundError, UnsupportedFormatError)


@dataclass
class RememberedPacks:
    """What a clone remembers of its packs between two exchanges. It may be lost: then it is read again.

    Attributes:
        needs: by the pack that ends a commit: the pack that ends its first parent, or nothing, and then what
            the commit needs beyond that parent.
        damaged: packs here that were found damaged.
    """

    needs: dict[str, list[str]] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)


@dataclass
class Needs:
    """Looks up which packs of the value layer commits need.

    Attributes:
        backend: where the packs lie.
        remembered: what was read before, as of `RememberedPacks.needs`; what is read now is added.
    """

    backend: Backend
    remembered: dict[str, list[str]]
    _recent: OrderedDict[str, tuple[str, ...]] = field(default_factory=OrderedDict)

    def of(self, revisions: Iterable[Revision]) -> tuple[list[str], list[str]]:
        """Return the packs that commits and all behind them need, and those whose footers cannot be read.

        Args:
            revisions: everything behind some tips, parents before children.
        """
        ends: dict[bytes, str] = {}
        names: dict[str, None] = {}
        unread = []
        for revision in revisions:
            pack, parents = revision.written.pack, revision.commit.parents
            ends[revision.id] = pack
            try:
                names |= dict.fromkeys(self.beyond(pack, ends.get(parents[0], "") if parents else ""))
            except _UNREADABLE:
                unread.append(pack)
            names.setdefault(pack)
        return list(names), unread

    def learn(self, pack: str, needed: tuple[str, ...]) -> None:
        """Take what a footer says that was just read."""
        self._recent[pack] = needed
        while len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def note(self, pack: str, parent: str) -> None:
        """Remember what the commit that a pack ends needs; `parent` ends its first parent, or is empty."""
        self.beyond(pack, parent)

    def beyond(self, pack: str, parent: str) -> list[str]:
        """Return what the commit that a pack ends needs beyond its first parent, which `parent` ends.

        Raises:
            MvcsError: a footer cannot be read.
        """
        line = self.remembered.get(pack)
        if not line or line[0] not in {"", parent}:
            line = self.remembered[pack] = self._compared(pack, parent)
        return line[1:]

    def _compared(self, pack: str, parent: str) -> list[str]:
        needed = self._needed(pack)
        try:
            before = {parent, *self._needed(parent)} if parent else set()
        except _UNREADABLE:
            parent, before = "", set()
        return [parent, *(name for name in needed if name not in before)]

    def _needed(self, pack: str) -> tuple[str, ...]:
        if pack not in self._recent:
            self.learn(pack, read_footer(self.backend, pack).needed)
        return self._recent[pack]
