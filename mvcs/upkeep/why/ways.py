"""How a commit leads to one thing that it needs: along its tree and bases, or by the packs that it reads."""

from dataclasses import dataclass

from mvcs.history import Revision
from mvcs.objects import Kind, half
from mvcs.reports import WhyStep
from mvcs.store import Backend, ObjectStore, read_footer
from mvcs.upkeep.why.contents import Users, held_by
from mvcs.upkeep.why.named import PACK, Named

COMMIT, ENDS = Kind.COMMIT.name.lower(), "which ends it"


@dataclass(frozen=True)
class Ways:
    """Tells how a commit leads to one thing.

    Attributes:
        store: where it lies; every pack is attached where it is an object.
        named: the thing.
        users: what leans on it, where it is an object.
    """

    store: ObjectStore
    named: Named
    users: Users | None = None

    def within(self, revision: Revision) -> list[WhyStep] | None:
        """Return the steps from a commit to the thing; None where it does not need that.

        Raises:
            CorruptionError: what the commit needs cannot be told.
            NotFoundError: likewise.
        """
        if self.named.kind == COMMIT:
            return [] if revision.id == self.named.object else None
        roles = roles_of(self.store.backend, revision)
        packs = self.named.names & roles.keys()
        if not packs:
            return None
        pack = min(packs)
        if self.users is None:
            return [WhyStep(PACK, pack, roles[pack])]
        return self._held(revision, self.users) or [WhyStep(PACK, pack, f"{roles[pack]}: it lies in there")]

    def _held(self, revision: Revision, users: Users) -> list[WhyStep] | None:
        tree, best = revision.commit.tree, None
        for identifier, step in held_by(self.store, tree, self.store.tree(tree)):
            far = users.steps.get(half(identifier))
            if far is not None and (best is None or far < best[0]):
                best = (far, identifier, step)
        if best is None:
            return None
        way = users.way_down(half(best[1]))
        return way if best[2].kind == "tree" else [best[2], *way]


def roles_of(backend: Backend, revision: Revision) -> dict[str, str]:
    """Return the packs that a commit needs, each with what for.

    Raises:
        CorruptionError: the pack that ends it cannot be read.
        NotFoundError: likewise.
    """
    written = revision.written
    footer = read_footer(backend, written.pack)
    return {
        **dict.fromkeys(footer.reach, "which it reads, of an earlier commit"),
        **dict.fromkeys(written.exact_packs, "which holds its exact layer"),
        **dict.fromkeys(footer.own, "which was written for it"),
        written.pack: ENDS,
    }
