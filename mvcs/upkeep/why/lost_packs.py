"""A pack that is not there, and the commits that cannot do without it."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from mvcs.errors import some_of
from mvcs.history import Graph, Revision
from mvcs.objects import ObjectId, short_id
from mvcs.reports import NEEDED, PAST, Why, WhyStep, as_utc
from mvcs.store import UNREADABLE_ERRORS, Backend
from mvcs.upkeep.why.named import PACK
from mvcs.upkeep.why.origins import Origin, Origins, reached
from mvcs.upkeep.why.ways import ENDS, roles_of

_NAMED = 5


@dataclass(frozen=True)
class LostPacks:
    """Looks through the history for names of packs that the store does not have.

    Attributes:
        backend: the store.
        graph: its commits.
        origins: what leads to them.
        dropped: packs that were given up on purpose.
    """

    backend: Backend
    graph: Graph
    origins: Origins
    dropped: Collection[str]

    def explain(self, text: str) -> Why | None:
        """Say which commits need a pack whose name begins like this; None where none does."""
        met: dict[str, Why] = {}
        commits: dict[str, list[ObjectId]] = {}
        for origin, commit, steps, roles in self._needs():
            for name in sorted(one for one in roles if one.startswith(text) and one not in self.dropped):
                state = NEEDED if origin.until is None else PAST
                way = [*steps, WhyStep(PACK, name, roles[name])]
                until = as_utc(origin.until) if origin.until else None
                met.setdefault(name, Why(PACK, name, state, way, [], until=until))
                commits.setdefault(name, []).append(commit)
        if len(met) != 1:
            return None
        ((name, found),) = met.items()
        found.notes.extend(_told(commits[name]))
        return found

    def _needs(self) -> Iterator[tuple[Origin, ObjectId, list[WhyStep], Mapping[str, str]]]:
        """Yield every commit, how it is reached, and the packs that it needs, as far as these can be told."""
        every, seen = [*self.origins.now, *self.origins.past], set[ObjectId]()
        for found in reached(self.graph, every):
            seen.add(found.revision.id)
            yield found.origin, found.revision.id, found.steps, self._roles(found.revision)
        for origin in every:  # those whose own pack is lost, and nothing else tells of them
            if origin.commit not in seen and origin.pack is not None:
                seen.add(origin.commit)
                step = WhyStep("commit", origin.commit.hex(), "which cannot be read")
                yield origin, origin.commit, [origin.step, step], {origin.pack: ENDS}

    def _roles(self, revision: Revision) -> Mapping[str, str]:
        with suppress(*UNREADABLE_ERRORS):
            return roles_of(self.backend, revision)
        return {revision.written.pack: ENDS}


def _told(commits: Collection[ObjectId]) -> Iterator[str]:
    one = len(commits) == 1
    needs = "1 commit needs it" if one else f"{len(commits)} commits need it"
    yield f"it is not in the store, and {needs}: {some_of([short_id(each) for each in commits], _NAMED)}"
    yield "'mvcs repair' brings it back from a remote that has it, or says what is lost"
