"""The commit that a branch points at, or HEAD without one; and where that cannot be read, a way on."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from mvcs.errors import CorruptionError, MvcsError, NotFoundError
from mvcs.history import Graph, Revision
from mvcs.objects import ObjectId, short_id
from mvcs.refs import HEADS, RefRecord, RefStore
from mvcs.store import UNREADABLE_ERRORS

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
        return graph.load(target)
    except (CorruptionError, NotFoundError) as error:
        message = f"branch '{branch}' points at {short_id(target)}, which {_fault(error)}"
        raise type(error)(message, hint=_way_back(graph, refs, branch, stands=stands)) from error


def _fault(error: CorruptionError | NotFoundError) -> str:
    gone = isinstance(error, NotFoundError)
    return "is not in the store" if gone else f"cannot be read: {error.message}"


def _way_back(graph: Graph, refs: RefStore, branch: str, *, stands: bool) -> str:
    back = _newest_whole(graph, refs, branch)
    fetch = "'mvcs fsck' tells more, 'mvcs repair' makes it again from its packs, or from a remote"
    if back is None:
        return f"{fetch}; 'mvcs reflog {branch}' shows where the branch pointed before"
    name = f"{branch}@{{{back}}}"
    if not stands:
        return f"{fetch}; 'mvcs branch NAME {name}' starts a branch at the newest whole commit before it"
    return (
        f"{fetch}; 'mvcs reset {name}' goes back to the newest whole commit before it, and leaves files alone"
    )


def load_head(graph: Graph, refs: RefStore, commit: ObjectId, default: str) -> Revision:
    """Return the commit that HEAD stands on without a branch.

    Args:
        graph: the commits.
        refs: the branches.
        commit: where HEAD stands.
        default: the branch to go on from, if it can be read.

    Raises:
        NotFoundError: it is not in the store; the hint tells a way on.
        CorruptionError: it is damaged; likewise.
    """
    try:
        return graph.load(commit)
    except (CorruptionError, NotFoundError) as error:
        gone = isinstance(error, NotFoundError)
        message = f"HEAD is on no branch and stands on {short_id(commit)}, which {_fault(error)}"
        raise type(error)(message, hint=_way_on(graph, refs, default, gone=gone)) from error


def _way_on(graph: Graph, refs: RefStore, default: str, *, gone: bool) -> str:
    # A clone's own collector keeps the commit; nothing tells another's of it.
    why = (
        "'mvcs gc' of another clone deletes what no branch or tag leads to"
        if gone
        else "'mvcs fsck' tells more"
    )
    branch = next(_whole_branches(graph, refs, default), None)
    if branch is None:
        return f"{why}; 'mvcs reflog HEAD' shows where it was before"
    return (
        f"{why}; 'mvcs reset {branch}' takes HEAD to the commit of '{branch}' and leaves files alone, "
        f"'mvcs switch -f {branch}' continues there with its files"
    )


def _whole_branches(graph: Graph, refs: RefStore, default: str) -> Iterator[str]:
    """Yield branches whose commits can be read, the default one first."""
    with suppress(MvcsError):
        for name in sorted(refs.listed(HEADS), key=lambda name: (name != default, name)):
            with suppress(MvcsError):
                record = refs.read(HEADS, name)
                if record is not None and _is_whole(graph, record):
                    yield name


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
        graph.load(record.target or ObjectId(b""))
    except UNREADABLE_ERRORS:
        return False
    return True
