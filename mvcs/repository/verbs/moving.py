"""Verbs that move HEAD, or the branch it is on, with the files of the folder behind it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mvcs.errors import NotFoundError
from mvcs.local import Head, HeadLog
from mvcs.objects import is_whole
from mvcs.refs import HEADS, check_name
from mvcs.reports import CheckoutReport, ResetReport
from mvcs.repository.sharing import upstreams
from mvcs.repository.verbs.naming import Naming

if TYPE_CHECKING:
    from mvcs.history import Revision
    from mvcs.repository.branch_moves import BranchMove


class Moving(Naming):
    """Verbs that move HEAD."""

    def checkout_files(self, rev: str, *, exact: bool = False, force: bool = False) -> CheckoutReport:
        """Restore the files of a commit in place and move HEAD; a branch that a remote has is made here.

        Raises:
            ConflictError: something that is stored nowhere would be overwritten.
            NotFoundError: no such commit; or it holds a state whose data were dropped, or are lost. `force`
                goes there all the same.
        """
        from mvcs.repository.worktree.checkout import move_to

        session = self._session
        try:
            revision = session.resolver.resolve(rev)
        except NotFoundError:
            if not self.is_only_remote(rev):
                raise
            return self.switch(rev, exact=exact, force=force)
        named = session.branch if rev == "HEAD" else rev
        is_branch = named is not None and not is_whole(named) and session.refs.read(HEADS, named) is not None
        branch = named if is_branch else None
        return move_to(session, revision, branch, exact=exact, force=force, needs_data=not force)

    def reset(self, rev: str = "HEAD", *, hard: bool = False, force: bool = False) -> ResetReport:
        """Move the current branch to a commit; the reflog keeps where it was.

        Args:
            rev: where to.
            hard: bring the files along; otherwise they stay as they are.
            force: with `hard`, overwrite also what is stored nowhere.

        Raises:
            NotFoundError: no such commit.
            ConflictError: something that is stored nowhere would be overwritten; or another writer moved the
                branch meanwhile, and nothing changed.
        """
        from mvcs.repository.branch_moves import BranchMove
        from mvcs.repository.worktree.whereabouts import RESET, head_to_leave, refuse_unfinished
        from mvcs.restore import state_parts

        session = self._session
        revision = session.resolver.resolve(rev)
        before, branch = head_to_leave(session, forced=force or not hard), session.branch
        if not hard:
            refuse_unfinished(session, before)
        record = None if branch is None else session.head_record(branch)
        move, moves, action = None, before is None or before.id != revision.id, f"reset: moving to {rev}"
        if branch is not None and moves:
            move = BranchMove(session, branch, record, before, revision, action, RESET)
        files = self._follow(revision, move, force=force) if hard else None
        if not hard and move is not None:
            move.alone()
        elif not hard and moves:
            session.set_head(revision.id.hex(), action)
        left = before.id if before is not None else record.target if record is not None else None
        parts = state_parts(session.reader(), revision)
        return ResetReport(
            session.info(revision), branch, left.hex() if left and moves else None, files, parts
        )

    def _follow(self, revision: "Revision", move: "BranchMove | None", *, force: bool) -> CheckoutReport:
        """Restore the files of a commit, to which the branch moves, if it is not there."""
        from mvcs.repository.worktree.checkout import move_to

        if move is not None:
            return move.with_files(force=force)
        return move_to(self._session, revision, self._session.branch, exact=False, force=force)

    def switch(
        self, branch: str, *, create_from: str | None = None, exact: bool = False, force: bool = False
    ) -> CheckoutReport:
        """Stand on a branch, a new one when `create_from` says where it starts, and restore its files.

        A branch at the commit HEAD stands on already leaves the files alone, changes and all, unless its
        `exact` values are asked for. A branch that only one remote has is made here, and follows that.
        "-" is where HEAD was before it last went elsewhere.

        Raises:
            NotFoundError: there is no such branch, or `exact` values are asked for that are not stored.
            ConflictError: something that is stored nowhere would be overwritten.
        """
        from mvcs.repository.worktree.checkout import move_to
        from mvcs.repository.worktree.whereabouts import head_to_leave

        if branch == "-" and create_from is None:
            return self._switch_back(exact=exact, force=force)
        session, start = self._session, create_from
        head = head_to_leave(session, forced=force)
        if start is None and session.refs.read(HEADS, branch) is None:
            start = upstreams.to_follow(session, branch).name
        if start == "HEAD" and head is None:
            session.set_head(f"ref: {check_name(branch)}")
            return CheckoutReport(None, [], [], None, branch)
        revision = self._tip(branch) if start is None else session.resolver.resolve(start)
        make = None if start is None else partial(self._begin_branch, branch, start, revision)
        if head is None or head.id != revision.id or force or exact:
            report = move_to(session, revision, branch, exact=exact, force=force, agreed=make)
        else:
            report = self._stay(revision, branch, make)
        upstream = None if start is None else upstreams.upstream_of(session, branch)
        return report if upstream is None else replace(report, upstream=upstream.name)

    def _switch_back(self, *, exact: bool, force: bool) -> CheckoutReport:
        """Stand where HEAD was before it last went elsewhere: on a branch, or on a commit alone."""
        from mvcs.repository.worktree.checkout import move_to

        session = self._session
        stands = HeadLog(session.place.local).left_last()
        if not stands:
            raise NotFoundError("HEAD was nowhere else before", hint="'mvcs branch' lists where it can go")
        before = Head.parse(stands)
        if before.branch is not None:
            return self.switch(before.branch, exact=exact, force=force)
        return move_to(session, session.resolver.resolve(before.text), None, exact=exact, force=force)

    def _tip(self, branch: str) -> "Revision":
        record = self._session.refs.read(HEADS, branch)
        if record is None or record.target is None:
            raise upstreams.unknown(self._session, branch)
        return self._session.tip(branch, record)

    def _stay(self, revision: "Revision", branch: str, make: Callable[[], None] | None) -> CheckoutReport:
        """Stand on a branch at HEAD's commit, and leave the files as they are."""
        from mvcs.restore import state_parts

        if make is not None:
            make()
        session = self._session
        session.set_head(f"ref: {branch}")
        parts = state_parts(session.reader(), revision)
        return CheckoutReport(session.info(revision), [], [], None, branch, parts=parts)
