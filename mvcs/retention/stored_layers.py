"""What a store has of exact layers, and the record of what it was never given."""

from collections.abc import Iterable

from mvcs.history import Revision
from mvcs.refs import now_microseconds
from mvcs.retention.drops import Drop, DropLog
from mvcs.store import EXACT_FOLDER, Backend, exact_packs, pack_name, pack_path


def layer_bytes(backend: Backend, revisions: Iterable[Revision]) -> int:
    """Return the bytes of what is there of the exact layers of commits."""
    names = {name for revision in revisions for name in revision.written.exact_packs}
    if not names:
        return 0
    return sum(size for path, size in backend.sizes(EXACT_FOLDER).items() if pack_name(path) in names)


def record_absent(backend: Backend, revisions: Iterable[Revision]) -> None:
    """Note which packs of exact layers a transfer left behind, so that fsck over there does not miss them.

    A pack that lies there is never noted, whoever says that it is a commit's.
    """
    bounded = [revision for revision in revisions if revision.written.exact_packs]
    if not bounded:
        return
    present, time = exact_packs(backend), now_microseconds()
    drops = (
        Drop(revision.id, tuple(name for name in revision.written.exact_packs if name not in present), time)
        for revision in bounded
    )
    absent = tuple(drop for drop in drops if drop.packs)
    if absent:
        DropLog(backend).append(absent)


def has_exact_layer(backend: Backend, revision: Revision) -> bool:
    """Tell whether every pack of a bounded commit's exact layer is there."""
    packs = revision.written.exact_packs
    return bool(packs) and all(backend.size(pack_path(name, exact=True)) is not None for name in packs)
