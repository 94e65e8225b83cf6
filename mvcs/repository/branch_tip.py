"""The commit that a branch points at; and where that cannot be read, the newest earlier one that can."""

from itertools import islice

from mvcs.errors import CorruptionError, MvcsError, NotFoundError, UnsupportedFormatError
from mvcs.history import Graph, Revision
from mvcs.objects import ObjectId, short_id
from mvcs.refs import HEADS, RefRecord, RefStore

SEARCHED = 16  # records that are tried for a way back


def load_tip(graph: Graph, refs: RefStore, branch: str, record: RefRecord, *, stands: bool) -> Revision:
    """Return the commit that a record of a branch names.

    Args:
        graph: the commits.
        refs: the branches.
        branch: its name.
        record: which names a commit.
        stands: whether HEAD is on the branch.

    Raises:
        NotFoundError: it is not in the store; the hint tells a way back.
        CorruptionError: it is damaged; likewise.
    """
    target = record.target or ObjectId(b"")
    try:
        return graph.follow(target, record.pack)
    except (CorruptionError, NotFoundError) as error:
        gone = isinstance(error, NotFoundError)
        why = "is not in the store" if gone else f"cannot be read: {error.message}"
        message = f"branch '{branch}' points at {short_id(target)}, which {why}"
        raise type(error)(message, hint=_way_back(graph, refs, branch, stands=stands)) from error


def _way_back(graph: Graph, refs: RefStore, branch: str, *, stands: bool) -> str:
    back = _newest_whole(graph, refs, branch)
    fetch = "'mvcs fsck' tells more, 'mvcs repair' brings it back from a remote that has it"
    if back is None:
        return f"{fetch}; 'mvcs reflog {branch}' shows where the branch pointed before"
    name = f"{branch}@{{{back}}}"
    if not stands:
        return f"{fetch}; 'mvcs branch NAME {name}' starts a branch at the newest whole commit before it"
    return (
        f"{fetch}; 'mvcs reset {name}' goes back to the newest whole commit before it, and leaves files alone"
    )


def _newest_whole(graph: Graph, refs: RefStore, branch: str) -> int | None:
    """Return how many records back a branch pointed at a commit that can be read."""
    try:
        for back, found in enumerate(islice(refs.row(HEADS, branch), SEARCHED)):
            if isinstance(found, RefRecord) and found.target is not None and _is_whole(graph, found):
                return back
    except MvcsError:
        return None  # the branch's own records are what is wrong
    return None


def _is_whole(graph: Graph, record: RefRecord) -> bool:
    try:
        graph.load(record.target or ObjectId(b""), record.pack)
    except (CorruptionError, NotFoundError, UnsupportedFormatError):
        return False
    return True
