"""Files that a checkout restored and nobody changed since: there is nothing in them to commit."""

from mvcs.commits import CommitRequest, nothing_new_error, says_nothing_more
from mvcs.history import Revision
from mvcs.repository.session import Session
from mvcs.repository.worktree.file_index import file_states
from mvcs.repository.worktree.files_to_commit import Taken
from mvcs.restore import EXACT_LAYER, open_reading


def refuse_unchanged(session: Session, taken: Taken, request: CommitRequest, parent: Revision | None) -> None:
    """Refuse a commit of files that its parent restored, and nobody changed, where its request does.

    Rounded files would make another tree: one that says that they were handed over like this.

    Raises:
        NothingToCommitError: there is nothing but such files, and step and metrics are those of the parent.
    """
    if parent is None or not says_nothing_more(request, parent) or taken.left:
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
        raise nothing_new_error(parent)
