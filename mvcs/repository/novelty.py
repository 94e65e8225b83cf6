"""What a commit would have that its parent has not; one that has nothing is refused where that is asked."""

from typing import TYPE_CHECKING

from mvcs.errors import NothingToCommitError
from mvcs.history.graph import Revision
from mvcs.objects.commit import Commit
from mvcs.objects.ids import ObjectId, short
from mvcs.repository.describing import CommitRequest
from mvcs.repository.restoring import EXACT_LAYER, open_reading
from mvcs.repository.working import file_states

if TYPE_CHECKING:
    from mvcs.repository.session import Session
    from mvcs.repository.worktree import Taken


def refuse_same_tree(request: CommitRequest, tree: ObjectId, parent: Revision | None) -> None:
    """Refuse a commit that has nothing new, where its request does.

    Args:
        request: what the commit is to say.
        tree: what it holds.
        parent: the commit it continues.

    Raises:
        NothingToCommitError: tree, step and metrics are those of the parent.
    """
    if parent is not None and _is_refused(request, parent) and tree == parent.commit.tree:
        raise _nothing(parent)


def refuse_restored(
    session: "Session", taken: "Taken", request: CommitRequest, parent: Revision | None
) -> None:
    """Refuse a commit of files that its parent restored, and nobody changed, where its request does.

    Rounded files would make another tree: one that says that they were handed over like this.

    Raises:
        NothingToCommitError: there is nothing but such files, and step and metrics are those of the parent.
    """
    if parent is None or not _is_refused(request, parent) or taken.left:
        return
    paths = [entry.path for entry in taken.captured.files or ()]
    seen = [taken.index.files.get(path) for path in paths]
    here = [
        found for found in seen if found and found.commit == parent.id.hex() and found.layer != EXACT_LAYER
    ]
    rounded = request.quantizer and tuple(request.quantizer.to_fields()) == parent.commit.quantizer
    if len(here) < len(seen) or (request.quantizer and not (rounded and all(found.lossy for found in here))):
        return
    states = file_states(
        session.require_top(), taken.index, open_reading(session.reader(), parent, session.progress)
    )
    if all(states.get(path) == "unmodified" for path in paths):
        raise _nothing(parent)


def _is_refused(request: CommitRequest, parent: Revision) -> bool:
    return not request.allow_empty and not _says_more(request, parent.commit)


def _says_more(request: CommitRequest, before: Commit) -> bool:
    known = {name: str(number) for name, number in before.metrics}
    asked = {name: str(float(number)) for name, number in request.metrics.items()}
    return request.step not in (None, before.step) or not asked.items() <= known.items()


def _nothing(parent: Revision) -> NothingToCommitError:
    return NothingToCommitError(
        f"nothing to commit: content, step and metrics are those of {short(parent.id)}",
        hint="a new file has to be named: 'mvcs commit FILE -m MESSAGE'; 'mvcs commit --amend -m MESSAGE' "
        "changes the last message; with --allow-empty it is committed all the same",
    )
