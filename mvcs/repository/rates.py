"""What restores take with the store at hand, and how quick this machine is with it."""

from contextlib import suppress

from mvcs.errors import MvcsError, StorageError
from mvcs.history import Revision
from mvcs.local import MeasuredRates, Place, known_rates, remember_rates
from mvcs.progress import SILENT
from mvcs.refs import now_microseconds
from mvcs.reports import RestoreFigures
from mvcs.store import ObjectStore, RestoreRates


def remembered_rates(place: Place) -> RestoreRates | None:
    """Return what was measured once; None where nothing was."""
    found = known_rates(place.local, place.backend.url)
    return None if found is None else found.rates


def rates_of(place: Place, revision: Revision | None, *, anew: bool) -> MeasuredRates:
    """Return what was measured; measure now, by restoring a part of a commit, where nothing was.

    Args:
        place: the repository.
        revision: the commit; None where there is none.
        anew: measure in any case.
    """
    from mvcs.restore import measure_rates, open_reading

    known = None if anew else known_rates(place.local, place.backend.url)
    if known is not None:
        return known
    reading = None
    with suppress(MvcsError):
        store = ObjectStore(place.backend, place.memory)
        reading = None if revision is None else open_reading(store, revision, SILENT)
    found = MeasuredRates(measure_rates(place.backend, reading), now_microseconds())
    with suppress(StorageError):  # a disk that is full keeps nobody from looking
        remember_rates(place.local, place.backend.url, found)
    return found


def restore_figures(place: Place, revision: Revision) -> RestoreFigures:
    """Say what restoring all values of a commit takes; nothing is measured for it.

    Raises:
        NotFoundError: something of it is nowhere in the store.
        CorruptionError: what describes it is damaged.
    """
    from mvcs.restore import open_reading, planned, reads_of_files, reads_of_state
    from mvcs.store import UnreadStore

    store = UnreadStore(place.backend, place.memory)
    reading = open_reading(store, revision, SILENT)
    tree = reading.tree
    reads = reads_of_state(tree, None, None) if tree.files is None else reads_of_files(tree, tree.files)
    depth = planned(store, reading, reads).depth
    cost, rates = store.cost, remembered_rates(place)
    seconds = None if rates is None else cost.seconds(rates, reads.raw_bytes)
    return RestoreFigures(cost.requests, cost.stored_bytes, depth, seconds)
