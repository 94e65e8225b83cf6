"""The verb that stores commits anew."""

from dataclasses import replace
from typing import TYPE_CHECKING

from mvcs.repository.verbs.base import Verbs

if TYPE_CHECKING:
    from mvcs.reports import CompactReport


class Compacting(Verbs):
    """The verb that stores commits anew."""

    def compact(
        self,
        commits: str | None = None,
        *,
        max_depth: int | None = None,
        max_ratio: float | None = None,
        max_seconds: float | None = None,
        budget: str | None = None,
        for_archive: bool = False,
        dry_run: bool = False,
        share: float | None = None,
        beside: int | None = None,
    ) -> "CompactReport":
        """Store commits anew under limits of what restoring them reads; no id changes.

        What is encoded anew is decoded and compared before a branch or tag leads to it. Others may commit
        meanwhile. Old packs stay until `gc` finds that nothing needs them. After an error or a kill the same
        call goes on behind what was verified; two weeks later, or under other limits, it starts over.

        Args:
            commits: a revision, which means it and all behind it, or "A..B"; by default all commits.
            max_depth: deltas between a chunk and its snapshot; by default `compaction.max_depth`, and 1000
                for an archive.
            max_ratio: bytes read over those of snapshots; by default `compaction.max_restore_ratio`.
            max_seconds: seconds that restoring a GB of values is estimated to take; by default
                `compaction.max_restore_seconds`, and any for an archive.
            budget: these limits in a text, such as "8", "4x" or "2s", or several with commas.
            for_archive: as few bytes as possible: the newest commit is alone, and older ones are near it.
            dry_run: keep nothing of it, and tell what it takes.
            share: rest in between, so that this process takes this share of one processor, such as 0.01,
                until refs move; None to do it at once.
            beside: the number of a process with whose end this one ends too, where it rests.

        Raises:
            NotFoundError: `commits` names none, or something that commits need is gone.
            UsageError: limits are none, or were given twice.
            CorruptionError: something that they need is damaged; no branch was moved.
            ConflictError: another compaction of this clone is at work, or the process `beside` has ended.
            StorageError: the store cannot be written, or what is stored anew in between could take the room
                of commits under `store.max_bytes`; nothing of it is left.
        """
        from mvcs.processes import Process
        from mvcs.repository.keeping.beside_others import BesideOthers, Pace
        from mvcs.repository.keeping.compacting import Compaction
        from mvcs.repository.restore_budget import RestoreBudget

        limits = RestoreBudget(max_depth, max_ratio, max_seconds)
        if budget is not None:
            limits = limits.joined(RestoreBudget.parse(budget))
        asked = Compaction.asked(self._session, commits, limits, for_archive=for_archive)
        if dry_run or share is None:
            return asked.rehearse() if dry_run else asked.run()
        pace = Pace(share, None if beside is None else Process.numbered(beside))
        others = BesideOthers(self._session, pace)
        return others.run(replace(asked, beside=others).run)
