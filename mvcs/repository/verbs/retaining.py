"""Verbs that say what stays of old commits, and let the rest go."""

from typing import TYPE_CHECKING, Literal, Unpack

from mvcs.errors import NotFoundError, one_of
from mvcs.objects import short_id
from mvcs.refs import now_microseconds
from mvcs.repository.verbs.base import Verbs

if TYPE_CHECKING:
    from mvcs.reports import RetentionApplied, RetentionShown
    from mvcs.retention import RuleWords

LayerName = Literal["data", "exact"]


class Retaining(Verbs):
    """Verbs of retention."""

    def retention(self, remote: str | None = None) -> "RetentionShown":
        """Return the rules and pins of this store, or of a remote's.

        Raises:
            CorruptionError: the newest record of either cannot be read.
        """
        from mvcs.repository.keeping.retained import Retained

        return Retained.of(self._session, remote).shown()

    def set_retention(
        self,
        *,
        layer: LayerName = "data",
        remote: str | None = None,
        force: bool = False,
        **words: Unpack["RuleWords"],
    ) -> "RetentionShown":
        """Set all rules of one layer; a commit that any of them keeps stays, and without any nothing goes.

        Data are dropped by `apply_retention` alone, exact layers after each bounded commit.

        Args:
            layer: "data", or "exact" for the exact layers of bounded commits.
            remote: set them in the store of this remote.
            force: also where they keep nothing beyond tips, pins and HEAD, or nobody recorded a metric.
            words: `last=20`, `every=1000`, `best="3:val_loss"` or `"3:max:score"`, `newer="14d"`,
                `tagged=True`. Where `best` does not say which way is better, `metric.NAME.goal` does.

        Raises:
            UsageError: a rule is none, or two contradict each other.
            NotFoundError: nobody recorded the metric of a rule.
            ConflictError: the rules keep nothing beyond what stays anyway.
        """
        from mvcs.repository.keeping.retained import Retained
        from mvcs.retention import Layer, Ruling, rules_from, set_rules

        one_of("layer", layer, ("data", "exact"))
        chosen = Layer.DATA if layer == "data" else Layer.EXACT
        rules = rules_from(chosen, words, self._session.goals)
        kept = Retained.of(self._session, remote)
        backend = kept.store.backend
        notes = kept.tried(Ruling.of(backend).with_rules(chosen, rules), force=force)
        set_rules(backend, chosen, rules, now_microseconds(), self._session.author)
        return kept.shown(notes)

    def apply_retention(
        self, *, remote: str | None = None, dry_run: bool = False, force: bool = False
    ) -> "RetentionApplied":
        """Let go what no rule keeps: data, and exact layers where rules are about them.

        Commits, trees and metrics stay. Commits that stay are stored without what goes first; the bytes are
        free once `gc` has deleted the packs that nothing needs any more.

        Args:
            remote: in the store of this remote; its own rules count.
            dry_run: change nothing, and say what would go.
            force: also where the rules keep nothing beyond tips, pins and HEAD.

        Raises:
            ConflictError: the rules keep nothing beyond what stays anyway; or they changed meanwhile.
            CorruptionError: something cannot be read, so that nobody can tell what is to be kept.
            NotFoundError: nobody recorded the metric of a rule.
        """
        from mvcs.repository.keeping.letting_go import LettingGo
        from mvcs.repository.keeping.retained import Retained
        from mvcs.upkeep import remove_leftovers

        if not dry_run:
            remove_leftovers(self._session.place)
        going = LettingGo.begin(Retained.of(self._session, remote), force=force)
        return going.rehearse() if dry_run else going.execute()

    def pin(self, rev: str, reason: str = "", remote: str | None = None) -> "RetentionShown":
        """Keep a commit with both layers, whatever the rules say.

        Raises:
            NotFoundError: there is no such commit, or the remote does not have it.
        """
        from mvcs.repository.keeping.retained import Retained
        from mvcs.retention import pin, pins_row

        kept = Retained.of(self._session, remote)
        revision = kept.revision(rev)
        newest = pins_row(kept.store.backend).newest()
        before = None if newest is None else newest.pins.get(revision.id)
        pin(kept.store.backend, revision.id, reason, self._session.author)
        again = [] if before is None else ["it was pinned before" + (f": {before}" if before else "")]
        return kept.shown([*again, *kept.missing(revision)])

    def unpin(self, rev: str, remote: str | None = None) -> "RetentionShown":
        """Let rules decide of a commit again.

        Raises:
            NotFoundError: it is not pinned.
        """
        from mvcs.reports import of_remote
        from mvcs.repository.keeping.retained import Retained
        from mvcs.retention import Ruling, unpin

        revision = self._session.resolver.resolve(rev)
        kept = Retained.of(self._session, remote)
        if revision.id not in Ruling.of(kept.store.backend).pins:
            there = of_remote(remote)
            raise NotFoundError(
                f"commit {short_id(revision.id)} is not pinned",
                hint=f"'mvcs retention show{there}' lists the pins",
            )
        unpin(kept.store.backend, revision.id, self._session.author)
        return kept.shown()
