"""Status: where the working folder stands against HEAD and what its branch follows."""

from collections.abc import Mapping
from contextlib import suppress

from mvcs.checkpoint import unreadable_here
from mvcs.errors import MvcsError, StorageError, some_of
from mvcs.history import Revision
from mvcs.objects import short_id
from mvcs.refs import CONFLICT, HEADS
from mvcs.reports import FileStatus, Status
from mvcs.repository.session import UNREADABLE, Session
from mvcs.repository.upstreams import standing, upstream_of
from mvcs.repository.worktree.file_index import Index, file_states
from mvcs.repository.worktree.interrupted_moves import InterruptedMove
from mvcs.repository.worktree.untracked import Uncommitted
from mvcs.repository.worktree.whereabouts import damage, last_known
from mvcs.restore import Reading, open_reading


def status(session: Session) -> Status:
    """Return where the working folder stands against HEAD; a store that refuses is a problem to show."""
    problems = [f"a background commit failed: {line}" for line in session.failures()]
    head, last = None, None
    try:
        head = last = session.head()
    except UNREADABLE as error:
        if session.branch is None or damage(session, session.branch) is None:
            raise
        last = last_known(session, session.branch)
        problems.append(_unreadable(error, last))
    stopped = InterruptedMove.of(session, head)
    problems += [f"{stopped.text}; {stopped.hint}"] if stopped else []
    states: dict[str, str] = {}
    parts = None
    if last is not None and session.place.top is not None:
        try:
            reading = open_reading(session.reader(), last, session.progress)
            states, parts = _states(session, reading), reading.tree.parts
            problems += _untold(reading, states)
        except StorageError as error:
            problems.append(f"the files of HEAD cannot be compared: {error.message}")
    entries = [FileStatus(path, state) for path, state in states.items()]
    others: list[str] = []
    if session.place.top is not None:
        found = Uncommitted.of(session.place.top, set(states))
        entries += [FileStatus(path, "untracked") for path in found.checkpoints]
        others = found.others
    info = None if head is None else session.info(head)
    branch = session.branch
    upstream = None if branch is None else upstream_of(session, branch)
    counts = standing(session, branch, head) if branch is not None and head is not None else None
    followed = None if upstream is None else upstream.name
    conflicts = [] if branch is None else _conflicts(session, branch)
    return Status(
        *(branch, info, entries, problems, counts, followed, head is not last, parts, others, conflicts)
    )


def _conflicts(session: Session, branch: str) -> list[str]:
    """Return the conflict branches of a branch; one whose record is damaged is the matter of fsck."""
    found = []
    for name in session.refs.listed(HEADS):
        with suppress(*UNREADABLE):
            if name.startswith(branch + CONFLICT) and session.refs.read(HEADS, name) is not None:
                found.append(name)
    return found


def _unreadable(error: MvcsError, last: Revision | None) -> str:
    """Say what is wrong with HEAD's branch, how to go on, and what is shown meanwhile."""
    hint = f"; {error.hint}" if error.hint else ""
    shown = f"; files are compared with {short_id(last.id)}, where it was last known to be" if last else ""
    return f"{error.message}{hint}{shown}"


def _untold(reading: Reading, states: Mapping[str, str]) -> list[str]:
    """Name files of torch that may be as committed, where nothing can read them."""
    changed = [entry for entry in reading.tree.files or () if states[entry.path] == "modified"]
    untold = [f"'{entry.path}'" for entry in changed if unreadable_here(entry)]
    if not untold:
        return []
    return [
        f"whether {some_of(untold, 3)} changed cannot be told: reading needs torch, which is not installed"
    ]


def _states(session: Session, reading: Reading) -> dict[str, str]:
    top, index = session.require_top(), Index.of(session)
    known = dict(index.files)
    states = file_states(top, index, reading)
    with suppress(OSError):  # what was read is then read again the next time
        index.confirm(session.place.local or top, known)
    return states
