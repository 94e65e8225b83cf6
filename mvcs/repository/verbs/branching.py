"""Verbs about branches, and what they follow."""

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from mvcs.errors import ConflictError, CorruptionError, MvcsError
from mvcs.objects import ObjectId
from mvcs.refs import HEADS, REMOTES, TAGS, DamagedRecord, RefChange, RefRecord, missing_ref_error
from mvcs.reports import BranchInfo
from mvcs.repository.ref_names import begin_branch, matches, note_dropped, record_to_delete
from mvcs.repository.session import UNREADABLE
from mvcs.repository.sharing import upstreams
from mvcs.repository.verbs.base import Verbs, target_text

if TYPE_CHECKING:
    from mvcs.history import Revision


class Branching(Verbs):
    """Verbs about branches."""

    def branches(
        self,
        patterns: Collection[str] = (),
        *,
        local: bool = True,
        remote: bool = False,
        details: bool = False,
    ) -> list[BranchInfo]:
        """Return branches.

        Args:
            patterns: only those whose names match one, such as `run-*`.
            local: those of this repository.
            remote: those of remotes, as last seen.
            details: with what their commits say, what they follow, and how far both are apart.
        """
        session = self._session
        try:
            current = session.branch
        except CorruptionError:  # then none of them is
            current = None
        kinds = [kind for kind, wanted in ((HEADS, local), (REMOTES, remote)) if wanted]
        found = [
            (
                BranchInfo(
                    name, target_text(record), kind == HEADS and name == current, remote=kind == REMOTES
                ),
                record,
            )
            for kind in kinds
            for name, record in session.refs.survey(kind).told(session.progress.note).items()
            if matches(name, patterns)
        ]
        return [self._described(branch, record) if details else branch for branch, record in found]

    def _described(self, branch: BranchInfo, record: RefRecord) -> BranchInfo:
        """Add to a branch what its commit says, what it follows, and how far both are apart."""
        session = self._session
        try:
            tip = session.graph.load(record.target or ObjectId(b""), record.pack)
        except UNREADABLE as error:
            session.progress.note(f"the commit of '{branch.name}' cannot be read: {error.message}")
            return branch
        if branch.remote:
            return replace(branch, message=tip.commit.message, step=tip.commit.step)
        upstream = upstreams.upstream_of(session, branch.name)
        ahead, behind = upstreams.standing(session, branch.name, tip) or (None, None)
        name = None if upstream is None else upstream.name
        told = replace(branch, message=tip.commit.message, step=tip.commit.step)
        return replace(told, upstream=name, ahead=ahead, behind=behind)

    def create_branch(self, name: str, rev: str = "HEAD", *, force: bool = False) -> str | None:
        """Make a branch at a revision; where that is a branch of a remote, it follows it.

        Args:
            name: of the branch.
            rev: where it starts.
            force: move it there where it exists.

        Returns:
            The id of the commit that it was at, where it was moved; its reflog keeps it.

        Raises:
            ConflictError: it exists; or it is the current branch, which `reset` moves.
        """
        from mvcs.repository.branch_moves import BranchMove

        session = self._session
        revision = session.resolver.resolve(rev)
        record = session.branch_record(name) if force else None
        if record is None or record.target is None:
            self._begin_branch(name, rev, revision)
        elif name == session.branch:
            raise ConflictError(f"'{name}' is the current branch", hint=f"'mvcs reset {rev}' moves it")
        else:
            BranchMove(session, name, record, None, revision, f"branch: reset to {rev}").alone()
            upstreams.follow_start(session, name, rev)
        note_dropped(session, name, revision)
        return target_text(record) or None if record else None

    def _begin_branch(self, name: str, rev: str, revision: "Revision") -> None:
        """Make a branch at a commit, which follows it where `rev` is a branch of a remote."""
        begin_branch(self._session, name, revision)
        upstreams.follow_start(self._session, name, rev)

    def is_only_remote(self, name: str) -> bool:
        """Tell whether a name is that of a branch of remotes, and means nothing here."""
        if not upstreams.candidates(self._session, name):
            return False
        try:
            self._session.resolver.resolve(name)
        except MvcsError:
            return True
        return False

    def upstream(self, branch: str | None = None) -> str | None:
        """Return what a branch, by default the current one, follows: "origin/main"; None for nothing."""
        name = branch or self._session.branch
        found = None if name is None else upstreams.upstream_of(self._session, name)
        return None if found is None else found.name

    def set_upstream(self, branch: str, upstream: str | None) -> None:
        """Have a branch follow one of a remote, such as "origin/main"; None for nothing that was said.

        Raises:
            NotFoundError: there is no such branch, or no such remote.
        """
        if self._session.refs.read(HEADS, branch) is None:
            raise missing_ref_error(HEADS, branch)
        if upstream is None:
            upstreams.unfollow(self._session, branch)
        else:
            upstreams.require_seen(self._session, upstream)
            upstreams.follow(self._session, branch, upstream)

    def delete_branch(self, name: str, *, force: bool = False) -> str | None:
        """Delete a branch; its reflog stays.

        Returns:
            The id of the commit that it was at; None where that cannot be read.

        Raises:
            ConflictError: it is the current branch; or nothing else has its commits, which `force` allows.
        """
        session = self._session
        record = record_to_delete(session, HEADS, name)
        if name == session.branch:
            raise ConflictError(f"'{name}' is the current branch", hint="switch to another one first")
        if not force:
            self._refuse_to_lose(name, record)
        session.refs.update(HEADS, name, record, RefChange(None, None, session.author, "branch: deleted"))
        upstreams.unfollow(session, name)
        return target_text(record) or None if isinstance(record, RefRecord) else None

    def _refuse_to_lose(self, name: str, record: RefRecord | DamagedRecord) -> None:
        hint = f"delete it all the same with 'mvcs branch -D {name}'"
        if isinstance(record, DamagedRecord):
            raise ConflictError(f"where '{name}' stood cannot be read: {record.error.message}", hint=hint)
        if record.target is not None and not self._held_elsewhere(name, record.target):
            raise ConflictError(f"no other branch or tag holds the commits of '{name}'", hint=hint)

    def _held_elsewhere(self, name: str, target: ObjectId) -> bool:
        refs, graph = self._session.refs, self._session.graph
        for kind in (HEADS, TAGS, REMOTES):
            for other, record in refs.survey(kind).whole.items():
                if (kind, other) == (HEADS, name) or record.target is None:
                    continue
                if graph.is_ancestor(target, graph.load(record.target, record.pack)):
                    return True
        return False

    def rename_branch(self, old: str, new: str) -> None:
        """Give a branch another name."""
        session = self._session
        record = session.refs.read(HEADS, old)
        if record is None or record.target is None:
            raise missing_ref_error(HEADS, old)
        if old == new:
            return
        current = session.branch
        action = f"branch: renamed from {old}"
        # What was interrupted on the way is finished when it is asked for again.
        made = session.refs.read(HEADS, new)
        if made is None or (made.action, made.target) != (action, record.target):
            begin_branch(session, new, session.graph.load(record.target, record.pack), action)
        if current == old:
            session.set_head(f"ref: {new}", f"branch: renamed {old} to {new}")
        upstreams.rename(session, old, new)
        change = RefChange(None, None, session.author, f"branch: renamed to {new}")
        session.refs.update(HEADS, old, record, change)
