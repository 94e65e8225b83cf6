"""Verbs that keep a store in order."""

from typing import TYPE_CHECKING

from mvcs.config import DAY_SECONDS, GRACE_DAYS
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.repository.verbs.base import Verbs

if TYPE_CHECKING:
    from mvcs.reports import StoreStats, Why
    from mvcs.upkeep import GcReport


class Upkeep(Verbs):
    """Verbs that keep a store in order."""

    def gc(self, *, grace_days: float = GRACE_DAYS, execute: bool = False) -> "GcReport":
        """Find packs that no commit needs; delete those that are older than the grace when told to.

        Args:
            grace_days: how old a pack has to be by the store's clock.
            execute: delete; otherwise nothing is changed.

        Raises:
            UsageError: the grace is no length of time.
            StorageError: the store does not tell when its files were written.
            CorruptionError: a history is damaged, so that nobody can tell what it needs.
        """
        from mvcs.upkeep import collect_garbage, remove_leftovers

        report = collect_garbage(self._session.place, grace_days * DAY_SECONDS, execute=execute)
        if execute:
            remove_leftovers(self._session.place)
        return report

    def stats(self, *, price: float | None = None) -> "StoreStats":
        """Tell where the bytes of the store are, what restores cost, and what could be freed.

        Args:
            price: of a GB (10^9 bytes) for a month.

        Raises:
            UsageError: the price is no amount.
            CorruptionError: a history is damaged.
        """
        from mvcs.repository.rates import remembered_rates
        from mvcs.upkeep import store_stats

        rates = remembered_rates(self._session.place)
        return store_stats(self._session.place, self._session.progress, price, rates)

    def why(self, name: str) -> "Why":
        """Say what keeps something in the store, or that nothing does, or what gave it up.

        Args:
            name: a revision, an object's id or a prefix of it, or the name of a pack.

        Raises:
            NotFoundError: nothing of that name is there, or was.
            UsageError: it names several things.
        """
        from mvcs.objects import is_prefix
        from mvcs.upkeep import explain

        try:
            revision = self._session.resolver.resolve(name)
        except (CorruptionError, NotFoundError):
            if not is_prefix(name):
                raise
            revision = None
        return explain(self._session.place, name, revision)
