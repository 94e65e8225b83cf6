"""Going on behind records that name the commit which was seen: nothing was lost against them."""

from mvcs.errors import ConflictError
from mvcs.refs.damage import FoundRecord
from mvcs.refs.record import RefChange, RefRecord
from mvcs.refs.refstore import RefStore
from mvcs.refs.writer_duties import GoingError


def update_behind(
    refs: RefStore, kind: str, name: str, expected: FoundRecord | None, change: RefChange
) -> RefRecord:
    """Write the next record of a ref, also behind records with the target that `expected` has.

    Where packs moved, a ref got a record with the same target and another pack.

    Raises:
        ConflictError: another writer was first, and the ref names something else.
        GoingError: what it leads to is being deleted.
        MvcsError: as of `RefStore.update`.
    """
    while True:
        try:
            return refs.update(kind, name, expected, change)
        except GoingError:
            raise  # a record that says the same was written to take ours back
        except ConflictError:
            newest = refs.newest(kind, name)
            if newest is None or not isinstance(expected, RefRecord) or newest.number <= expected.number:
                raise
            if newest.target is None or (newest.target, newest.content) != (
                expected.target,
                expected.content,
            ):
                raise
            expected = newest
