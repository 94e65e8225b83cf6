"""Steps of a compaction that was broken off: those that still hold are taken over."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from mvcs.compaction.values import CommitValues
from mvcs.compaction.views import Views
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history import Revision
from mvcs.local import CompactionSteps, Step
from mvcs.objects import ObjectId
from mvcs.store import is_whole_pack


@dataclass(frozen=True)
class Data:
    """Where the data of a commit lie that was stored anew before it is ended.

    Attributes:
        own: its packs.
        leant_on: other packs that it leans on.
    """

    own: tuple[str, ...]
    leant_on: tuple[str, ...]

    @property
    def packs(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.own, *self.leant_on)


@dataclass(frozen=True)
class Place:
    """What a commit has at hand, when the target of the views knows what it may lean on.

    Attributes:
        revision: the commit, as it is.
        chosen: whether it has to keep to the limits.
        own: the packs that are its own.
        leant_on: those that it may lean on.
        values: gives what it holds.
    """

    revision: Revision
    chosen: bool
    own: tuple[str, ...]
    leant_on: Collection[str]
    values: Callable[[], CommitValues]


@dataclass(frozen=True)
class GoingOn:
    """Takes over what was stored and verified, where everything around it is as it was then.

    Nothing is believed that can be looked at: packs have to hash to their names, and to hold all that their
    commit needs with the packs around it.

    Attributes:
        steps: those on record.
        views: of the store.
        lost: packs that nothing may lean on.
    """

    steps: CompactionSteps
    views: Views
    lost: Collection[str] = frozenset()

    def end(self, place: Place, ancestors: Iterable[tuple[ObjectId, str]]) -> tuple[str, ...]:
        """Return the packs of a step that ended a commit anew, the last of which does; none where none holds.

        Args:
            place: the commit.
            ancestors: the nearest, with the packs that end them now.
        """
        step = self._of(place, ends=True)
        if step is None or not self._whole(step):
            return ()
        footer = self.views.footer(step.wrote[-1])
        told = [(one.id, one.pack) for one in footer.commits[1:]]
        # A footer may leave out copies of the farthest.
        if (
            footer.commits[:1]
            and footer.commits[0].id == place.revision.id
            and told == list(ancestors)[: len(told)]
        ):
            packs = (*footer.needed, step.wrote[-1])
            return step.wrote if self._holds(place, step, packs) else ()
        return ()

    def hang(self, place: Place) -> Data | None:
        """Return where the data lie of a commit that was hung from later ones; None where that holds not."""
        step = self._of(place, ends=False)
        if step is None or step.own is None or not self._whole(step):
            return None
        data = Data(step.own, step.leant_on)
        return data if self._holds(place, step, data.packs) else None

    def _of(self, place: Place, *, ends: bool) -> Step | None:
        step = self.steps.found.get((place.revision.id.hex(), ends))
        if step is None or step.was != place.revision.written.pack or step.chosen is not place.chosen:
            return None
        return step

    def _whole(self, step: Step) -> bool:
        return all(is_whole_pack(self.views.source.backend, name) for name in step.wrote)

    def _holds(self, place: Place, step: Step, packs: Collection[str]) -> bool:
        """Tell whether a commit needs nothing but packs that it may need, and everything is in them."""
        allowed = {*place.own, *place.leant_on, *step.wrote}
        if not allowed.issuperset(packs) or not set(packs).isdisjoint(self.lost):
            return False
        catalog = self.views.target.catalog
        came = [name for name in packs if name not in place.leant_on]
        try:
            for name in came:
                catalog.add(name, self.views.footer(name))
            needed = place.values().kinds.keys() - {place.revision.id}
            if all(catalog.find(name) is not None for name in needed):
                return True
        except (CorruptionError, NotFoundError):
            pass  # what is damaged is met again where it is stored anew
        catalog.forget(came)
        return False
