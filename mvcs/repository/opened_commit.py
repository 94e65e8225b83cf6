"""A commit opened for whoever asked for it, within what the session allows."""

from mvcs.history import Revision
from mvcs.repository.session import Session
from mvcs.repository.sharing.remote_stores import addresses
from mvcs.restore import Reading, located_chunks, open_reading


def refuse_without_data(reading: Reading) -> None:
    """Check that what a state is made from is there: a checkout in place reads none of it.

    Raises:
        NotFoundError: it was dropped on purpose, or is lost.
    """
    for leaf in reading.tree.leaves if reading.tree.files is None else ():
        located_chunks(reading.store, leaf)


def open_for(session: Session, revision: Revision, *, exact: bool) -> Reading:
    """Open a commit; where exact values are not stored, the error names the stores of remotes.

    Raises:
        NotFoundError: `exact` is asked for and the exact layer is not (or no longer) stored.
        CorruptionError: something on the way is damaged.
    """
    return open_reading(
        session.reader(),
        revision,
        session.progress,
        exact=exact,
        allowance=session.allowance,
        elsewhere=addresses(session),
    )
