"""The steps that verbs share which make a commit: from what stands there to what is told of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from mvcs.errors import FileFormatError, MvcsError
from mvcs.objects import RUN_KEY, short_id
from mvcs.refs import UNREADABLE, check_name
from mvcs.reports import CommitInfo
from mvcs.repository.verbs.base import Roomy

if TYPE_CHECKING:
    from mvcs.checkpoint import Captured
    from mvcs.commits import BranchPosition, CommitRequest, KeptFiles, MadeCommit
    from mvcs.history import Revision
    from mvcs.local import Journal
    from mvcs.repository.worktree.files_to_commit import AskedFiles, Taken
    from mvcs.store import WrittenCommit

_ANEW = (
    "write it again or move it away first; with --plain what cannot be read is kept as it is, byte for byte"
)


@contextmanager
def _kept_by_a_flag() -> Iterator[None]:
    """Say of a file that cannot be read what can be done."""
    try:
        yield
    except FileFormatError as error:
        error.hint = _ANEW
        raise


def _behind_run(position: "BranchPosition") -> Iterator[str]:
    """Say of a commit of files that a training run does not resume from it."""
    parent = position.parent
    if parent is not None and RUN_KEY in dict(parent.commit.provenance):
        short = short_id(parent.id)
        yield (
            f"commit {short} before it is of a training run, which does not resume behind files: "
            f"'mvcs reset {short}' takes this commit off the branch again; 'mvcs branch NAME {short}' "
            "is where the run can go on"
        )


class Committing(Roomy):
    """Steps to a commit."""

    def _captured(self, asked: "AskedFiles", parent: "Revision | None") -> "Taken":
        """Capture files."""
        from mvcs.repository.worktree import files_to_commit

        with _kept_by_a_flag():
            return files_to_commit.capture(self._session, asked, parent)

    def _taken(
        self,
        taken: "Taken",
        request: "CommitRequest",
        position: "BranchPosition",
        ready: Callable[["Revision"], None] = lambda _: None,
    ) -> CommitInfo:
        from mvcs.repository.worktree import files_to_commit
        from mvcs.repository.worktree.files_to_commit import refuse_unchanged

        refuse_unchanged(self._session, taken, request, position.parent)
        origin = taken.origin
        asked = replace(origin.asked(request), notes=(*taken.captured.notes, *_behind_run(position)))
        with _kept_by_a_flag():
            made = self._commit(taken.captured, asked, position, taken.kept, ready)
        files_to_commit.remember(self._session, taken, made)
        kept = [entry.path for entry in taken.kept.tree.files or ()] if taken.kept else []
        return replace(self._finished(made), kept=kept, left=list(taken.left), added=list(taken.added))

    def _commit(
        self,
        captured: "Captured",
        request: "CommitRequest",
        position: "BranchPosition",
        kept: "KeptFiles | None" = None,
        ready: Callable[["Revision"], None] = lambda _: None,
    ) -> "MadeCommit":
        from mvcs.local import Journal
        from mvcs.refs import GoingError
        from mvcs.upkeep import remove_leftovers

        session, lost = self._session, frozenset[str]()
        avoided = session.refs.avoided()  # also looks for upgrades, before a large state is written in vain
        remove_leftovers(session.place)
        while True:
            session.store.catalog.avoid(avoided | lost)
            journal = Journal(session.place.local)
            try:
                made = session.committer.make(captured, request, position, journal, kept, self._keep_to_quota)
                return self._published(made, request, position, journal, ready)
            except GoingError as error:
                session.committer.withdraw(journal)
                if error.packs <= lost:
                    raise
                lost |= error.packs  # and what lay there is stored anew
                position = replace(position, record=error.now) if error.now else position

    def _keep_to_quota(self, written: "WrittenCommit") -> None:
        session, size = self._session, written.stored_bytes + written.exact_bytes
        session.quota.note(size)
        if session.quota.is_passed():
            raise session.quota.refusal(session.graph, session.refs, size)

    def _published(
        self,
        made: "MadeCommit",
        request: "CommitRequest",
        position: "BranchPosition",
        journal: "Journal",
        ready: Callable[["Revision"], None],
    ) -> "MadeCommit":
        from mvcs.commits import KeptBesideError, Publication, reflog_message
        from mvcs.upkeep import remove_leftovers

        self._note_made(made.revision, position.parent)
        ready(made.revision)
        try:
            published = Publication(self._session.refs).publish(made, position, request.author)
        except KeptBesideError as error:
            journal.close()
            error.commit = self._finished(made)
            raise
        self._session.published = made.revision.id
        if position.branch is None:
            action = f"commit: {reflog_message(made.revision.commit)}"
            self._session.set_head(made.revision.id.hex(), action)
        journal.close()
        if position.parent is None:
            with suppress(MvcsError, OSError):  # what a killed first commit left waits for a branch
                remove_leftovers(self._session.place)
        return published

    def _note_made(self, made: "Revision", parent: "Revision | None") -> None:
        given = self._session.given
        given.made.add(made.id)
        if parent is not None and parent.id in given.exact and made.commit.lineage_exact:
            given.exact.add(made.id)

    def _position(
        self, branch: str | None = None, continues: str | None = None, replaces: str | None = None
    ) -> "BranchPosition":
        from mvcs.commits import BranchPosition
        from mvcs.repository.worktree.whereabouts import damage, last_known

        session = self._session
        wanted = check_name(branch) if branch else session.branch
        if wanted is None:
            return BranchPosition(
                session.resolver.resolve(continues) if continues else session.head(), None, None
            )
        try:
            record = session.branch_record(wanted) if branch else session.head_record(wanted)
        except UNREADABLE as error:
            if damage(session, wanted) is None:
                raise
            parent = last_known(session, wanted) if continues is None else None
            return BranchPosition(
                session.resolver.resolve(continues) if continues else parent, wanted, None, damage=error
            )
        tip = session.tip(wanted, record) if record and record.target else None
        if continues and tip is not None and tip.id.hex() == replaces != continues:
            return BranchPosition(session.resolver.resolve(continues), wanted, record, beside=tip)
        # What was published last may be unknown to the caller: its commit can have failed afterwards.
        known = tip is not None and (tip.id == session.published or tip.id.hex() == continues)
        if continues is not None and not known:
            parent = session.resolver.resolve(continues) if continues else None
            return BranchPosition(parent, wanted, record, overtaken=tip is not None)
        if tip is None and branch and branch != session.branch:
            tip = session.head()
        return BranchPosition(tip, wanted, record)

    def _finished(self, made: "MadeCommit") -> CommitInfo:
        from mvcs.repository.failure_log import FailureLog

        notes = (*made.notes, *self._session.after_commit(made.revision, made.before))
        FailureLog(self._session.place.local).clear()
        return self._session.info(made.revision, notes, made.timings)
