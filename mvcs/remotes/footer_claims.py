"""What footers from outside say of commits: believed only of commits that are new here."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

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
        kept: the packs of exact layers that are here, or that a commit here calls its own.
        anew: whether commits of these stores may have been ended anew, by other packs.
        ours: lost packs of commits of this store, which come again: what they call their own is theirs.
    """

    known: Mapping[ObjectId, Revision]
    kept: Collection[str]
    anew: bool = False
    ours: set[str] = field(default_factory=set)
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
        if written.pack in self.ours:
            return
        taken = next((pack for pack in written.exact_packs if pack in self.kept), None)
        if taken is not None:
            raise CorruptionError(
                f"its footer says that commit {short_id(written.id)} keeps its exact layer "
                f"in pack {taken[:12]}, which belongs to this store"
            )


def ended_by(footer: Footer, identifier: ObjectId, pack: str) -> WrittenCommit:
    """Return what the pack that ends a commit says of it.

    Raises:
        CorruptionError: this pack does not end the commit.
    """
    for written in footer.commits:
        if written.id == identifier and written.pack == pack:
            return written
    raise CorruptionError(f"pack {pack[:12]} does not end commit {short_id(identifier)}, as it is said to")
