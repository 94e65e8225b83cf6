"""A commit in the place of the last one: said anew, or with other files."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from mvcs.checkpoint import Captured
from mvcs.commits import BranchPosition, CommitRequest, KeptFiles
from mvcs.errors import MvcsError, NotFoundError
from mvcs.history import Revision
from mvcs.objects import short_id
from mvcs.refs import REMOTES
from mvcs.repository.session import Session
from mvcs.repository.worktree.file_index import Index
from mvcs.repository.worktree.files_to_commit import Taken
from mvcs.repository.worktree.interrupted_moves import refuse_unfinished
from mvcs.repository.worktree.origins import Origin
from mvcs.restore import open_reading
from mvcs.search import METRIC


@dataclass(frozen=True)
class Amendment:
    """The last commit, and what is to stand in its place.

    Attributes:
        session: the repository.
        old: the commit whose place is taken.
        position: where the new one goes.
    """

    session: Session
    old: Revision
    position: BranchPosition

    @classmethod
    def of(cls, session: Session, position: BranchPosition) -> "Amendment":
        """Take the place of the commit that a new one would continue.

        Raises:
            NotFoundError: there is none.
            ConflictError: a pull was stopped, and its files have not come.
        """
        old = position.parent
        if old is None:
            raise NotFoundError("there is no commit yet, and so none to amend")
        refuse_unfinished(session, old)
        ancestors = tuple(session.graph.parents(old))
        return cls(session, old, replace(position, ancestors=ancestors))

    def asked(
        self, message: str | None, author: str | None, step: int | None, *, anew: bool = False
    ) -> CommitRequest:
        """Return a request that says what the old commit said where nothing else is said.

        What mvcs itself measured of the old files is not said of others: those that are recorded `anew`.
        """
        commit = self.old.commit
        known = dict(commit.metrics)
        if anew and commit.goal(METRIC) is not None:
            known.pop(METRIC, None)
        return CommitRequest(
            commit.message if message is None else message,
            commit.author if author is None else author,
            commit.step if step is None else step,
            known | dict(self.session.later(self.old.id)),
        )

    def with_metrics(self, request: CommitRequest, metrics: Mapping[str, float]) -> CommitRequest:
        """Return the request with these metrics as well."""
        return replace(request, metrics={**request.metrics, **metrics})

    def carried(self, origin: Origin) -> Origin:
        """Return where files come from; what the old commit continued from stays known."""
        before = self.old.commit.restored_from
        if origin.restored_from is not None or before is None:
            return origin
        with suppress(MvcsError):
            return replace(origin, restored_from=self.session.graph.load(before, None))
        return origin

    def reworded(self, request: CommitRequest) -> tuple[CommitRequest, KeptFiles]:
        """Return what says the old commit anew, and keeps all it has."""
        tree = open_reading(self.session.reader(), self.old, self.session.progress).tree
        commit = self.old.commit
        provenance = {name: str(value) for name, value in commit.provenance}
        return replace(request, rewords=commit, provenance=provenance), KeptFiles(tree, self.old)

    def taken(self, kept: KeptFiles) -> Taken:
        """Return what is known of the files in the folder, which stay as they are."""
        index, top = Index.of(self.session), self.session.require_top()
        paths = [entry.path for entry in kept.tree.files or ()]
        settled = [path for path in paths if index.untouched(top, path, self.old.id.hex())]
        return Taken(Captured((), files=()), index, Origin(), kept, (), tuple(settled))

    def notes(self) -> list[str]:
        """Say where the old commit was seen that others may go on from."""
        session, names = self.session, []
        for name, record in session.refs.survey(REMOTES).told(session.progress.note).items():
            with suppress(MvcsError):  # what is damaged is reported by what needs it
                tip = session.graph.load(record.target, record.pack) if record.target else None
                if tip is not None and session.graph.is_ancestor(self.old.id, tip):
                    names.append(name)
        if not names:
            return []
        remote = names[0].partition("/")[0]
        seen = f"{short_id(self.old.id)} was pushed to {', '.join(names)}, and others may continue from it"
        return [f"{seen}; 'mvcs push {remote} --force' puts the new one in its place"]
