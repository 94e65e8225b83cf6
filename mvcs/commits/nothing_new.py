"""What a commit would have that its parent has not; one that has nothing is refused where that is asked."""

from mvcs.commits.request import CommitRequest
from mvcs.errors import NothingToCommitError
from mvcs.history import Revision
from mvcs.objects import Commit, ObjectId, short_id


def refuse_same_tree(request: CommitRequest, tree: ObjectId, parent: Revision | None) -> None:
    """Refuse a commit that has nothing new, where its request does.

    Args:
        request: what the commit is to say.
        tree: what it holds.
        parent: the commit it continues.

    Raises:
        NothingToCommitError: tree, step and metrics are those of the parent.
    """
    if parent is not None and says_nothing_more(request, parent) and tree == parent.commit.tree:
        raise nothing_new_error(parent)


def says_nothing_more(request: CommitRequest, parent: Revision) -> bool:
    """Tell whether a request refuses empty commits, and has the step and the metrics of the parent."""
    return not request.allow_empty and not _says_more(request, parent.commit)


def nothing_new_error(parent: Revision) -> NothingToCommitError:
    """Return what is raised where a commit would be its parent once more."""
    return NothingToCommitError(
        f"nothing to commit: content, step and metrics are those of {short_id(parent.id)}",
        hint="a new file has to be named: 'mvcs commit FILE -m MESSAGE'; 'mvcs commit --amend -m MESSAGE' "
        "changes the last message; with --allow-empty it is committed all the same",
    )


def _says_more(request: CommitRequest, before: Commit) -> bool:
    known = {name: str(number) for name, number in before.metrics}
    asked = {name: str(float(number)) for name, number in request.metrics.items()}
    return request.step not in (None, before.step) or not asked.items() <= known.items()
