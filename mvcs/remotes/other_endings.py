"""Commits of which packs were lost for good, as another store ends them: stored anew, under other names."""

import pathlib
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mvcs.errors import MvcsError
from mvcs.history import EndingPacks, Revision
from mvcs.objects import ObjectId
from mvcs.progress import Progress
from mvcs.refs import now_microseconds
from mvcs.remotes.acceptance import Acceptance
from mvcs.remotes.pack_transfer import RememberedPacks, TransferSide
from mvcs.remotes.quarantine import Quarantine
from mvcs.store import Backend, bring_upgrades


@dataclass(frozen=True)
class BrokenCommits:
    """Commits of a store of which no pack that ends them is there with all it names.

    Attributes:
        named: by these commits, the packs that endings of theirs name which can still be read.
    """

    named: Mapping[ObjectId, frozenset[str]]

    @classmethod
    def of(
        cls,
        backend: Backend,
        tips: Iterable[ObjectId],
        lost: Collection[str],
        told: Mapping[ObjectId, Revision],
    ) -> "BrokenCommits":
        """Look at all commits behind tips.

        Args:
            backend: the store.
            tips: commits that are wanted, with all behind them.
            lost: packs that are missing or damaged.
            told: tells of commits of which nothing there does.
        """
        endings, broken = EndingPacks.of(backend), dict[ObjectId, frozenset[str]]()
        whole, seen, left = endings.there.difference(lost), set[ObjectId](), list(tips)
        while left:
            identifier = left.pop()
            if identifier in seen:
                continue
            seen.add(identifier)
            ended = endings.ended.get(identifier, [])
            packs = [{written.pack, *needed} for written, needed in ended]
            if not any(map(whole.issuperset, packs)):
                broken[identifier] = frozenset().union(*packs)
            revision = Revision(ended[0][0]) if ended else told.get(identifier)
            left += () if revision is None else revision.commit.parents
        return cls(broken)

    def need(self, pack: str) -> bool:
        """Tell whether a lost pack may be needed by these; of those that nothing tells of, all may be."""
        return any(not packs or pack in packs for packs in self.named.values())


@dataclass(frozen=True)
class OtherEndings:
    """Brings commits as other stores end them; all is decoded and hashed before it is linked in.

    Attributes:
        here: the store where packs were lost, a view of which nothing was read yet.
        tips: commits that are wanted there, with all behind them.
        told: commits there as far as footers tell of them, those of lost packs too.
        lost: packs that are missing or damaged there, and that no store has.
        author: who brings them.
        progress: is told the packs done.
        allow: is told what a pack unpacks to, and raises where that is too much.
    """

    here: TransferSide
    tips: Collection[ObjectId]
    told: Mapping[ObjectId, Revision]
    lost: Collection[str]
    author: str
    progress: Progress
    allow: Callable[[int], None]

    def broken(self, there: Mapping[ObjectId, Revision] | None = None) -> BrokenCommits:
        """Return which commits are broken; `there` tells of some that nothing here does."""
        told = {**(there or {}), **self.told}
        return BrokenCommits.of(self.here.store.backend, self.tips, self.lost, told)

    def bring(self, there: TransferSide, drops: "Drops", folder: pathlib.Path) -> "Brought":
        """Take broken commits from another store, as that ends them.

        Args:
            there: the other store.
            drops: whose data were given up.
            folder: a place on a local disk for packs that nobody believes yet.

        Raises:
            StorageError: a store or the disk refused.
        """
        history = there.history()
        broken = self.broken(history)
        wanted = [one for one in history.values() if _is_wanted(one.id, broken, drops.only_there)]
        if not wanted:
            return Brought({}, {}, [])
        bring_upgrades(there.store.backend, self.here.store.backend, now_microseconds(), self.author)
        with Quarantine(folder) as quarantine:
            damaged = RememberedPacks(damaged=set(self.lost))
            terms = quarantine, damaged, self.progress, self.allow, drops.there
            acceptance = Acceptance(self.here, there, self.here.history(), *terms)
            acceptance.take(wanted)
        without = [identifier for identifier in acceptance.taken if identifier in drops.only_there]
        return Brought(acceptance.copied, acceptance.refused, without)


@dataclass(frozen=True)
class Drops:
    """Commits whose data were given up on purpose.

    Attributes:
        there: those of the other store.
        only_there: those of them that nothing here says so of.
    """

    there: Container[ObjectId]
    only_there: Container[ObjectId]


@dataclass(frozen=True)
class Brought:
    """What came from another store.

    Attributes:
        copied: bytes of the packs that came, by name.
        refused: why commits were not taken.
        without: commits that came without data, which were given up over there.
    """

    copied: Mapping[str, int]
    refused: Mapping[ObjectId, MvcsError]
    without: Sequence[ObjectId]


def _is_wanted(identifier: ObjectId, broken: BrokenCommits, gone: Container[ObjectId]) -> bool:
    """Tell whether a commit is to come: without its data only where nothing here tells of it."""
    named = broken.named.get(identifier)
    return named is not None and not (named and identifier in gone)
