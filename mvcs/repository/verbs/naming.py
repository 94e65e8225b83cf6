"""Verbs that give commits names or say more of them: branches, what they follow, tags, notes, the reflog."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mvcs.errors import ConflictError, CorruptionError, MvcsError, UsageError
from mvcs.local import HEAD
from mvcs.objects import Note, ObjectId, Tag
from mvcs.refs import (
    HEADS,
    NOTES,
    REMOTES,
    TAGS,
    DamagedRecord,
    RefChange,
    RefRecord,
    now_microseconds,
)
from mvcs.reports import BranchInfo, CommitInfo, NoteInfo, ReflogEntry, TagInfo, as_utc
from mvcs.repository.ref_names import begin_branch, check_new, matches, note_dropped, record_to_delete
from mvcs.repository.session import note_infos
from mvcs.repository.sharing import upstreams
from mvcs.repository.verbs.base import Verbs, target_text
from mvcs.store import UNREADABLE_ERRORS

if TYPE_CHECKING:
    from mvcs.history import Revision


class Naming(Verbs):
    """Verbs that name commits."""

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
            tip = session.graph.load(record.target or ObjectId(b""))
        except UNREADABLE_ERRORS as error:
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
            raise self._session.refs.missing(HEADS, branch)
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
        session.refs.update(HEADS, name, record, RefChange(None, session.author, "branch: deleted"))
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
                if graph.is_ancestor(target, graph.load(record.target)):
                    return True
        return False

    def rename_branch(self, old: str, new: str) -> None:
        """Give a branch another name."""
        session = self._session
        record = session.refs.read(HEADS, old)
        if record is None or record.target is None:
            raise session.refs.missing(HEADS, old)
        if old == new:
            return
        current = session.branch
        action = f"branch: renamed from {old}"
        # What was interrupted on the way is finished when it is asked for again.
        made = session.refs.read(HEADS, new)
        if made is None or (made.action, made.target) != (action, record.target):
            begin_branch(session, new, session.graph.load(record.target), action)
        if current == old:
            session.set_head(f"ref: {new}", f"branch: renamed {old} to {new}")
        upstreams.rename(session, old, new)
        change = RefChange(None, session.author, f"branch: renamed to {new}")
        session.refs.update(HEADS, old, record, change)

    def tags(self, patterns: Collection[str] = ()) -> list[TagInfo]:
        """Return all tags, or those whose names match one of the patterns, such as `v1.*`."""
        session = self._session
        records = session.refs.survey(TAGS).told(session.progress.note)
        tags = [
            (name, Tag.decode(record.content)) for name, record in records.items() if matches(name, patterns)
        ]
        return [
            TagInfo(name, tag.target.hex(), tag.message, tag.author, as_utc(tag.time)) for name, tag in tags
        ]

    def create_tag(self, name: str, rev: str = "HEAD", message: str = "") -> None:
        """Name a commit for good."""
        session = self._session
        revision = session.resolver.resolve(rev)
        check_new(session, TAGS, name)
        tag = Tag(revision.id, session.author, now_microseconds(), message)
        change = RefChange(revision.id, session.author, "tag: created", tag.encode())
        session.refs.update(TAGS, name, session.refs.newest(TAGS, name), change)
        note_dropped(session, name, revision)

    def delete_tag(self, name: str) -> None:
        """Delete a tag."""
        record = record_to_delete(self._session, TAGS, name)
        change = RefChange(None, self._session.author, "tag: deleted")
        self._session.refs.update(TAGS, name, record, change)

    def note(self, rev: str, metrics: Mapping[str, float]) -> CommitInfo:
        """Add metrics to a commit after it was made."""
        session = self._session
        revision = session.resolver.resolve(rev)
        if not metrics:
            raise UsageError("a note needs at least one metric", hint="mvcs note REV --metric NAME=VALUE")
        pairs = tuple((name, float(value)) for name, value in metrics.items())
        note = Note(revision.id, pairs, session.author, now_microseconds())
        change = RefChange(note.id, session.author, "note: " + ", ".join(metrics), note.encode())
        session.refs.append(NOTES, revision.id.hex(), change)
        session.indexing.record(revision)
        return session.info(revision)

    def notes(self, rev: str = "HEAD") -> list[NoteInfo]:
        """Return what was added to a commit later."""
        session = self._session
        return note_infos(session.refs, session.resolver.resolve(rev).id, session.progress.note)

    def reflog(self, name: str | None = None) -> list[ReflogEntry]:
        """Return the changes of a branch, newest first."""
        from mvcs.repository.head_moves import moves_of

        return moves_of(self._session, name or self._session.branch or HEAD)

    def decorations(self) -> dict[str, list[str]]:
        """Return for each commit that has them the names to show beside it."""
        session = self._session
        names: dict[str, list[str]] = {}
        current, tell = session.branch, session.progress.note
        if current is None:
            names.setdefault(session.head_text, []).append("HEAD")
        for name, record in session.refs.survey(HEADS).told(tell).items():
            shown = f"HEAD -> {name}" if name == current else name
            row = names.setdefault(target_text(record), [])
            row.insert(0 if name == current else len(row), shown)
        for name, record in session.refs.survey(TAGS).told(tell).items():
            names.setdefault(target_text(record), []).append(f"tag: {name}")
        for name, record in session.refs.survey(REMOTES).told(tell).items():
            names.setdefault(target_text(record), []).append(name)
        return names
