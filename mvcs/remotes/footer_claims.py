"""What footers from outside say of commits: believed only of commits that are new here."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history import Revision
from mvcs.objects import ObjectId, short_id
from mvcs.store import Footer, WrittenCommit

FooterOf = Callable[[str], Footer]


@dataclass
class Claims:
    """Compares what footers say with what is known here, and with the pack that ends each commit.

    Attributes:
        known: the commits that are here, as this store describes them.
        lying: the packs of exact layers that are here.
        footers: gives all footers of packs that are here; asked for only where one of `lying` is claimed.
        anew: whether commits of these stores may have been ended anew, by other packs.
    """

    known: Mapping[ObjectId, Revision]
    lying: Collection[str]
    footers: Callable[[], Iterable[Footer]]
    anew: bool = False
    _ends: dict[ObjectId, WrittenCommit] = field(default_factory=dict)
    _copies: dict[ObjectId, list[WrittenCommit]] = field(default_factory=dict)

    def check(self, name: str, footer: Footer, footer_of: FooterOf) -> None:
        """Check what the footer of a pack that came says.

        Args:
            name: the pack.
            footer: its footer.
            footer_of: gives the footers of others, those included that came with it.

        Raises:
            CorruptionError: it speaks of a commit otherwise than this store or the commit's own pack does, or
                takes an exact layer for its own that is another's.
            NotFoundError: a pack that it names is not there.
        """
        for written in footer.commits:
            if written.id in self.known:
                self._compare(written, self.known[written.id].written)
            elif written.pack == name:
                self._check_new(written)
            else:
                self._check_copy(written, footer_of)

    def _check_copy(self, written: WrittenCommit, footer_of: FooterOf) -> None:
        """Compare a copy with the commit's own pack; where that is gone, with the pack that ends it now."""
        if self.anew and written.id in self._ends:
            self._compare(written, self._ends[written.id])
            return
        try:
            footer = footer_of(written.pack)
        except NotFoundError:
            if not self.anew:
                raise
            self._copies.setdefault(written.id, []).append(written)
            return
        self._compare(written, ended_by(footer, written.id, written.pack))

    def _compare(self, said: WrittenCommit, known: WrittenCommit) -> None:
        # Where another pack may end it by now, that cannot always say how much was stored.
        if self.anew and said.pack != known.pack:
            known = replace(known, pack=said.pack, stored_bytes=said.stored_bytes)
        if said != known:
            raise CorruptionError(f"its footer speaks of commit {short_id(said.id)} otherwise than is known")

    def _check_new(self, written: WrittenCommit) -> None:
        self._compare(written, self._ends.setdefault(written.id, written))
        for copy in self._copies.pop(written.id, ()):
            self._compare(copy, written)
        for pack in written.exact_packs:
            self._check_layer(pack, written.id)

    def _check_layer(self, pack: str, identifier: ObjectId) -> None:
        """Check that no other commit has an exact pack; one that lies here alone is of a lost commit."""
        claimed = pack in self._claimed
        if not claimed and pack in self.lying:
            claimed = bool(self._told[pack] - {identifier})
            self._told[pack].add(identifier)
        if claimed:
            raise CorruptionError(
                f"its footer says that commit {short_id(identifier)} keeps its exact layer "
                f"in pack {pack[:12]}, which belongs to another commit of this store"
            )

    @cached_property
    def _claimed(self) -> frozenset[str]:
        return frozenset(pack for one in self.known.values() for pack in one.written.exact_packs)

    @cached_property
    def _told(self) -> dict[str, set[ObjectId]]:
        """By exact packs, the commits of which any footer here says that they are theirs, known or not."""
        found: dict[str, set[ObjectId]] = defaultdict(set)
        for footer in self.footers():
            for written in footer.commits:
                for pack in written.exact_packs:
                    found[pack].add(written.id)
        return found


def ended_by(footer: Footer, identifier: ObjectId, pack: str) -> WrittenCommit:
    """Return what the pack that ends a commit says of it.

    Raises:
        CorruptionError: this pack does not end the commit.
    """
    for written in footer.commits:
        if written.id == identifier and written.pack == pack:
            return written
    raise CorruptionError(f"pack {pack[:12]} does not end commit {short_id(identifier)}, as it is said to")
