"""Standing on another branch: one that is there, a new one, or one that only a remote has."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from mvcs.errors import MvcsError, NotFoundError
from mvcs.history.graph import Revision
from mvcs.local.head import Head
from mvcs.local.head_log import HeadLog
from mvcs.refs import HEADS, check_name
from mvcs.reports.values import CheckoutReport
from mvcs.repository import upstreams
from mvcs.repository.naming import names
from mvcs.repository.session import Session
from mvcs.repository.worktree.checkout import move_to
from mvcs.repository.worktree.whereabouts import head_to_leave
from mvcs.restore.reading import parts_of


def switch_back(session: Session, *, exact: bool, force: bool) -> CheckoutReport:
    """Stand where HEAD was before it last went elsewhere: on a branch, or on a commit alone.

    Raises:
        NotFoundError: nothing tells where that was, or it is gone.
        ConflictError: something that is stored nowhere would be overwritten.
    """
    stands = HeadLog(session.place.local).left_last()
    if not stands:
        raise NotFoundError("HEAD was nowhere else before", hint="'mvcs branch' lists where it can go")
    before = Head.parse(stands)
    if before.branch is not None:
        return switch(session, before.branch, None, exact=exact, force=force)
    return move_to(session, session.resolve(before.text), None, exact=exact, force=force)


def is_only_remote(session: Session, name: str) -> bool:
    """Tell whether a name is that of a branch of remotes, and means nothing here."""
    if not upstreams.candidates(session, name):
        return False
    try:
        session.resolve(name)
    except MvcsError:
        return True
    return False


def switch(session: Session, branch: str, start: str | None, *, exact: bool, force: bool) -> CheckoutReport:
    """Stand on a branch, a new one when `start` says where it begins, and restore its files.

    A new one is made when nothing stands in the way any more.

    Raises:
        NotFoundError: there is no such branch, or `exact` values are asked for that are not stored.
        ConflictError: something that is stored nowhere would be overwritten; or a new branch is there.
    """
    head = head_to_leave(session, forced=force)
    if start is None and session.refs.read(HEADS, branch) is None:
        start = upstreams.to_follow(session, branch).name
    if start == "HEAD" and head is None:
        session.set_head(f"ref: {check_name(branch)}")
        return CheckoutReport(None, [], [], None, branch)
    if start is None:
        return _moved(session, branch, head, _tip(session, branch), None, exact=exact, force=force)
    make = partial(names.start_branch, session, branch, start)
    report = _moved(session, branch, head, session.resolve(start), make, exact=exact, force=force)
    upstream = upstreams.upstream_of(session, branch)
    return report if upstream is None else replace(report, upstream=upstream.name)


def _tip(session: Session, branch: str) -> Revision:
    record = session.refs.read(HEADS, branch)
    if record is None or record.target is None:
        raise upstreams.unknown(session, branch)
    return session.tip(branch, record)


def _moved(
    session: Session,
    branch: str,
    head: Revision | None,
    revision: Revision,
    make: Callable[[], None] | None,
    *,
    exact: bool,
    force: bool,
) -> CheckoutReport:
    if head is None or head.id != revision.id or force or exact:
        return move_to(session, revision, branch, exact=exact, force=force, agreed=make)
    if make is not None:
        make()
    session.set_head(f"ref: {branch}")
    return CheckoutReport(
        session.info(revision), [], [], None, branch, parts=parts_of(session.reader(), revision)
    )
