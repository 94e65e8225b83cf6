"""Verbs that keep a store in order."""

from dataclasses import replace
from typing import TYPE_CHECKING

from mvcs.config import DAY_SECONDS, GRACE_DAYS, WAIT_DAYS
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.repository.sharing.remote_stores import store_of
from mvcs.repository.verbs.base import Verbs

if TYPE_CHECKING:
    from mvcs.reports import StoreStats, Why
    from mvcs.upkeep import GcReport


class Upkeep(Verbs):
    """Verbs that keep a store in order."""

    def gc(
        self,
        *,
        grace_days: float = GRACE_DAYS,
        wait_days: float | None = None,
        execute: bool = False,
        remote: str | None = None,
    ) -> "GcReport":
        """Find packs that no commit needs; when told to, condemn them, and delete what has waited.

        Args:
            grace_days: how old a pack has to be by the store's clock.
            wait_days: how long it is condemned before it is deleted; by default a day, or the grace where
                that is shorter. With 0 it is deleted at once.
            execute: do it; otherwise nothing is changed.
            remote: the store of a remote, instead of this one.

        Raises:
            UsageError: the grace or the wait is no length of time.
            StorageError: the store does not tell when its files were written.
            CorruptionError: a history is damaged, so that nobody can tell what it needs.
            NotFoundError: there is no such remote.
        """
        from mvcs.upkeep import collect_garbage, remembered_history, remove_leftovers

        place = self._session.place if remote is None else store_of(self._session, remote)
        wait = min(grace_days, WAIT_DAYS) if wait_days is None else wait_days
        with remembered_history(self._session.place.local) as known:
            report = collect_garbage(
                place,
                grace_days * DAY_SECONDS,
                execute=execute,
                wait=wait * DAY_SECONDS,
                author=self._session.author,
                known=known,
            )
        if execute:
            remove_leftovers(self._session.place)
        return replace(report, remote=remote)

    def stats(self, *, price: float | None = None, plan: bool = False) -> "StoreStats":
        """Tell where the bytes of the store are, what restores cost, and what could be freed.

        Args:
            price: of a GB (10^9 bytes) for a month.
            plan: also try what retention and compaction would give back; that reads and encodes what they
                would, and takes as long.

        Raises:
            UsageError: the price is no amount.
            CorruptionError: a history is damaged.
        """
        from mvcs.repository.restore_budget import remembered_rates
        from mvcs.upkeep import store_stats

        rates = remembered_rates(self._session.place)
        found = store_stats(self._session.place, self._session.progress, price, rates)
        if not plan:
            return found
        from mvcs.repository.keeping.compacting import with_trial_runs

        return with_trial_runs(found, self._session)

    def why(self, name: str) -> "Why":
        """Say what keeps something in the store, or that nothing does, or what gave it up.

        Args:
            name: a revision, an object's id or a prefix of it, or a pack's name or path, as `fsck` prints it.

        Raises:
            NotFoundError: nothing of that name is there, or was.
            UsageError: it names several things.
        """
        from mvcs.objects import is_prefix
        from mvcs.store import pack_name
        from mvcs.upkeep import explain

        name = pack_name(name) or name
        try:
            revision = self._session.resolver.resolve(name)
        except (CorruptionError, NotFoundError):
            if not is_prefix(name):
                raise
            revision = None
        return explain(self._session.place, name, revision)
