"""Data that no record gives up, of commits which the pack that counts ends without them.

Commits come from another store as that one ends them. Where it dropped data of earlier ones, the packs that
come name such an end of these, and this store may have the data all the same: it has rules of its own.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from mvcs.errors import CorruptionError
from mvcs.history import Revision
from mvcs.memory import NOTHING
from mvcs.objects import ObjectId
from mvcs.remotes import has_data
from mvcs.retention import DataDrops
from mvcs.store import MOVED_BASES, UNREADABLE_ERRORS, Backend, ObjectStore, has_upgrade, read_footer
from mvcs.upkeep.collecting.kept_data import whole_endings
from mvcs.upkeep.collecting.known_history import KnownHistory


def packs_of_undropped_data(
    backend: Backend, ended: Mapping[ObjectId, str], known: KnownHistory, left: AbstractSet[str]
) -> set[str]:
    """Return the packs that end a commit with its data, and what these name, where nothing else does.

    The tree of a commit is read only where it would lose a pack, so that this grows with what is to go.

    Args:
        backend: the store.
        ended: the commits that count, by the packs that end them.
        known: what need not be read again.
        left: packs that nothing else needs.
    """
    if not has_upgrade(backend, MOVED_BASES):
        return set()
    drops = DataDrops.of(backend)
    commits = ended.keys() - (set() if drops.damaged else drops.found.keys())
    losing = [told for told in whole_endings(backend, known, commits) if not left.isdisjoint(told[1])]
    store = ObjectStore(backend, NOTHING)
    bare = {commit for commit in dict(losing) if not _has_data(store, commit, ended[commit])}
    return set[str]().union(*(names for commit, names in losing if commit in bare))


def _has_data(store: ObjectStore, commit: ObjectId, pack: str) -> bool:
    """Tell whether the pack that counts ends a commit with its data; false where nobody can tell."""
    try:
        written = read_footer(store.backend, pack).commits[:1]
        return bool(written) and written[0].id == commit and has_data(store, Revision(written[0]))
    except (CorruptionError, *UNREADABLE_ERRORS):
        return False
