"""What compactions wrote that no ref needs: packs of one that was given up, or broken off."""

from collections.abc import Iterable
from contextlib import suppress

from mvcs.errors import ConflictError, MvcsError
from mvcs.local import CompactionSteps, Place
from mvcs.repository.keeping.journaled_work import unlike_others
from mvcs.store import pack_path
from mvcs.upkeep import held, remove_packs

_NO_TERMS = ""


def remove_unfinished(place: Place, packs: Iterable[str]) -> None:
    """Remove packs that no ref needs, and nobody else can have written; 'mvcs gc' finds what is left."""
    with suppress(MvcsError):
        remove_packs(place.backend, unlike_others(place.backend, map(pack_path, packs)), held(place))


def give_up_broken_off(place: Place) -> None:
    """Remove what a compaction left that was broken off; the next one starts over.

    Where one is at work, it sees for itself that there is room.
    """
    if place.local is None:
        return
    with suppress(ConflictError), CompactionSteps.opened(place.local, _NO_TERMS) as steps:
        remove_unfinished(place, steps.abandoned)
        steps.forget()
