"""Which branch of which remote a branch follows; what was said of it, this clone remembers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mvcs.errors import MvcsError, NotFoundError, UsageError, meant, not_found
from mvcs.history import Revision
from mvcs.local import LocalRecords
from mvcs.refs import HEADS, REMOTES, TAGS, DamagedRecord, RefRecord
from mvcs.remotes import ahead_behind
from mvcs.repository.session import Session
from mvcs.repository.sharing.remote_stores import missing_remote

DEFAULT_REMOTE = "origin"
SUBJECT = "upstreams"


@dataclass(frozen=True)
class Upstream:
    """What a branch follows.

    Attributes:
        remote: name of the remote.
        branch: name of the branch over there.
    """

    remote: str
    branch: str

    @property
    def name(self) -> str:
        """The revision that names where it stood when it was last seen."""
        return f"{self.remote}/{self.branch}"

    @classmethod
    def split(cls, name: str) -> "Upstream":
        """Read such a revision; names of remotes hold no slash."""
        remote, _, branch = name.partition("/")
        return cls(remote, branch)


def upstream_of(session: Session, branch: str) -> Upstream | None:
    """Return what a branch follows: what was said, else the branch of its name that `origin` has."""
    name = _said(session).get(branch)
    if name is not None:
        return Upstream.split(name)
    usual = Upstream(DEFAULT_REMOTE, branch)
    return usual if _is_there(session, usual) else None


def _is_there(session: Session, upstream: Upstream) -> bool:
    """Tell whether a remote was last seen to have a branch; what is damaged of that is mended by a fetch."""
    found = session.refs.top(REMOTES, upstream.name)
    return isinstance(found, DamagedRecord) or (found is not None and found.target is not None)


def standing(session: Session, branch: str, ours: Revision) -> tuple[int, int] | None:
    """Return how many commits a branch is ahead of and behind what it follows; None where nobody knows."""
    upstream = upstream_of(session, branch)
    record = None if upstream is None else session.refs.top(REMOTES, upstream.name)
    if not isinstance(record, RefRecord) or record.target is None:
        return None
    try:
        return ahead_behind(session.graph, ours, session.graph.load(record.target))
    except MvcsError:
        return None


def remote_of(session: Session, branch: str | None) -> str:
    """Return the remote that is meant where none is: what the branch follows, the only one, `origin`."""
    said = None if branch is None else _said(session).get(branch)
    if said is not None:
        return Upstream.split(said).remote
    names = session.place.config.names("remote")
    return names[0] if len(names) == 1 else DEFAULT_REMOTE


def follow(session: Session, branch: str, name: str) -> None:
    """Remember that a branch follows `REMOTE/BRANCH`.

    Raises:
        NotFoundError: there is no such remote.
        UsageError: it is not of that form.
    """
    _checked(session, name)
    _change(session, lambda record: record.update({branch: name}))


def follow_start(session: Session, branch: str, rev: str) -> None:
    """Remember that a branch follows what it begins at, where that is a branch of a remote."""
    is_here = any(session.refs.read(kind, rev) is not None for kind in (HEADS, TAGS)) if "/" in rev else True
    if not is_here and session.refs.read(REMOTES, rev) is not None:
        follow(session, branch, rev)


def require_seen(session: Session, name: str) -> None:
    """Check that a branch of a remote was seen there.

    Raises:
        NotFoundError: it was not.
        UsageError: it is not of the form REMOTE/BRANCH.
    """
    upstream = _checked(session, name)
    if session.refs.read(REMOTES, name) is None:
        raise not_found(
            f"no branch '{upstream.branch}' was seen at '{upstream.remote}'",
            name,
            list(session.refs.survey(REMOTES).whole),
            f"'mvcs fetch {upstream.remote}' looks again, 'mvcs push -u {upstream.remote}' makes it",
        )


def _checked(session: Session, name: str) -> Upstream:
    upstream = Upstream.split(name)
    if not upstream.branch:
        raise UsageError(f"'{name}' is not of the form REMOTE/BRANCH", hint="such as origin/main")
    names = session.place.config.names("remote")
    if upstream.remote not in names:
        raise missing_remote(session, upstream.remote)
    return upstream


def unfollow(session: Session, branch: str) -> None:
    """Forget what was said of a branch."""
    _change(session, lambda record: record.pop(branch, None))


def rename(session: Session, old: str, new: str) -> None:
    """Have a branch of a new name follow what the old one did."""
    _change(session, lambda record: record.update({new: record.pop(old)}) if old in record else None)


def rename_followed(session: Session, old: str, new: str | None) -> None:
    """Have branches follow a remote under its new name; with None forget it."""

    def change(record: dict[str, Any]) -> None:
        for branch, name in _texts(record).items():
            upstream = Upstream.split(name)
            if upstream.remote == old and new is None:
                del record[branch]
            elif upstream.remote == old:
                record[branch] = f"{new}/{upstream.branch}"

    _change(session, change)


def candidates(session: Session, branch: str) -> list[Upstream]:
    """Return the branches of remotes that have this name."""
    found = [Upstream.split(name) for name in session.refs.listed(REMOTES)]
    return [upstream for upstream in found if upstream.branch == branch and _is_there(session, upstream)]


def to_follow(session: Session, branch: str) -> Upstream:
    """Return the branch of a remote that a branch which is not here has to be made from.

    Raises:
        NotFoundError: no remote has one.
        UsageError: several have one.
    """
    found = candidates(session, branch)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(upstream.name for upstream in found)
        raise UsageError(
            f"'{branch}' is a branch of several remotes: {names}",
            hint=f"mvcs switch -c {branch} {found[0].name}",
        )
    raise unknown(session, branch)


def unknown(session: Session, branch: str) -> NotFoundError:
    """Return the error for a branch that is neither here nor at a remote."""
    return NotFoundError(f"no branch named '{branch}'", hint=_instead(session, branch))


def _instead(session: Session, branch: str) -> str:
    if branch == "-":
        return "which branch one was on before is not remembered: name it; 'mvcs branch' lists them"
    try:
        session.resolver.resolve(branch)
    except MvcsError:
        there = [Upstream.split(name).branch for name in session.refs.survey(REMOTES).whole]
        known = [*session.refs.survey(HEADS).whole, *there]
        listed = "'mvcs branch -a' lists those here and those of remotes"
        return f"{meant(branch, known)} {listed}".lstrip()
    return (
        f"'{branch}' names a commit: 'mvcs checkout {branch}' stands on it, "
        f"'mvcs switch -c NAME {branch}' makes a branch there"
    )


def _said(session: Session) -> dict[str, str]:
    return _texts(LocalRecords(session.place.local).read(SUBJECT))


def _texts(record: dict[str, Any]) -> dict[str, str]:
    return {branch: name for branch, name in record.items() if isinstance(name, str) and "/" in name}


def _change(session: Session, change: Callable[[dict[str, Any]], None]) -> None:
    with LocalRecords(session.place.local).change(SUBJECT) as record:
        change(record)
