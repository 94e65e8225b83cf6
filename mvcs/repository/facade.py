"""The repository as callers see it: one method per verb; the modules beside this one do the work."""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Self

from mvcs.checkpoint.captured import Captured
from mvcs.checkpoint.state import capture_state
from mvcs.errors import NotFoundError, UsageError
from mvcs.history.graph import Revision
from mvcs.progress import SILENT, Progress
from mvcs.quantize.config import QuantizerConfig
from mvcs.refs import HEADS, TAGS, check_name
from mvcs.refs.refstore import missing
from mvcs.repository import checking, layout, looking, naming, reports, restoring, sharing, worktree
from mvcs.repository.committing import CommitRequest, Committer, LostRaceError, Made, Position
from mvcs.repository.comparing import Side, compare, side_of
from mvcs.repository.session import Session
from mvcs.repository.working import captured_chunks, hashed_tree

DEFAULT_REMOTE = "origin"


class Repository:
    """A history of states or files. Open it with `open`, `init` or `clone`; safe for one thread at a time."""

    def __init__(self, place: layout.Place, progress: Progress = SILENT) -> None:
        """Use `open`, `init` or `clone` instead."""
        self._session = Session(place, progress)
        session = self._session
        self._committer = Committer(session.store, session.graph, session.refs, session.limits, progress)

    @classmethod
    def init(
        cls,
        path: str | pathlib.Path = ".",
        *,
        store: str | None = None,
        options: Mapping[str, object] | None = None,
        progress: Progress = SILENT,
    ) -> "Repository":
        """Make `path/.mvcs`; with `store` the shared part lies at that URL.

        Raises:
            ConflictError: there is one already.
            StorageError: it cannot be written.
        """
        return cls(layout.initialise(pathlib.Path(path), store, options), progress)

    @classmethod
    def open(
        cls,
        path: str | pathlib.Path = ".",
        *,
        options: Mapping[str, object] | None = None,
        progress: Progress = SILENT,
    ) -> "Repository":
        """Open the repository at a folder or above it, `.mvcs` itself, or a bare store by path or URL.

        Raises:
            NotFoundError: there is none.
            UnsupportedFormatError: a newer mvcs made it.
        """
        return cls(layout.find(str(path), options), progress)

    @classmethod
    def clone(
        cls,
        url: str,
        path: str | pathlib.Path | None = None,
        *,
        options: Mapping[str, object] | None = None,
        progress: Progress = SILENT,
    ) -> "Repository":
        """Copy a whole project, without exact layers, into a new folder and restore its files there.

        Raises:
            NotFoundError: there is no store at `url`.
            ConflictError: the folder is a repository already.
        """
        source = sharing.described(url, options)
        target = pathlib.Path(path or url.rstrip("/").rpartition("/")[2] or "clone")
        place = layout.initialise(target, None, None, source)
        repository = cls(place, progress)
        sharing.add_remote(repository._session, DEFAULT_REMOTE, url, options or {})
        sharing.fill_clone(repository._session, DEFAULT_REMOTE)
        return repository

    def close(self) -> None:
        """Let go of the lineage index; the repository keeps nothing else open."""
        self._session.indexing.close()

    def __enter__(self) -> Self:
        """Return the repository."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the repository."""
        self.close()

    @property
    def top(self) -> pathlib.Path | None:
        """The working folder; None for a bare store."""
        return self._session.place.top

    @property
    def url(self) -> str:
        """Where the store lies."""
        return self._session.place.backend.url

    @property
    def writable_together(self) -> bool:
        """Whether several writers may change refs at the same time."""
        return self._session.place.backend.exclusive

    @property
    def warnings(self) -> list[str]:
        """What a person should hear once."""
        return self._session.warnings

    @property
    def branch(self) -> str | None:
        """The branch HEAD is on; None when it is detached."""
        return self._session.branch

    def head(self) -> reports.CommitInfo | None:
        """Return the commit HEAD stands on; None before the first."""
        revision = self._session.head()
        return None if revision is None else self._session.info(revision)

    def resolve(self, rev: str) -> reports.CommitInfo:
        """Return the commit that a revision names.

        Raises:
            NotFoundError: nothing has that name.
            UsageError: it names more than one commit.
        """
        return self._session.info(self._session.resolve(rev))

    # Committing

    def commit(  # noqa: PLR0913 - flat keywords are what a training script wants to write
        self,
        state: object,
        *,
        message: str = "",
        step: int | None = None,
        metrics: Mapping[str, float] | None = None,
        bins: int | None = None,
        prune: float = 0.0,
        protect: float = 0.0,
        sigma: float | None = None,
        author: str | None = None,
        restored_from: str | None = None,
        branch: str | None = None,
        provenance: Mapping[str, str] | None = None,
    ) -> reports.CommitInfo:
        """Record a state: a nested dict of tensors, arrays, numbers and text.

        Args:
            state: what to record; it must not change until this returns.
            message: what to say of it.
            step: optimizer step.
            metrics: by name.
            bins: quantize weights of two and more dimensions to so many values; None keeps everything exact.
            prune: fraction of the smallest magnitudes that become zero.
            protect: fraction of the largest magnitudes that are kept exactly.
            sigma: weight of frequency against magnitude in k-means (Inshrinkerator, section 4.4).
                None weights by counts.
            author: who commits; the configured name by default.
            restored_from: the bounded commit whose values this state continued from.
            branch: commit there instead of on HEAD's branch.
            provenance: versions and settings worth keeping.

        Raises:
            StateError: something in the state cannot be stored; the message names its path.
            ConflictError: another writer moved the branch; the commit is kept on the branch the error names.
            StorageError: the store cannot be written.
        """
        request = CommitRequest(
            message,
            author or self._session.author,
            step,
            metrics or {},
            quantizer(bins, prune, protect, sigma),
            self._session.resolve(restored_from) if restored_from else None,
            provenance or {},
        )
        made = self._commit(capture_state(state), request, branch)
        return self._finished(made)

    def commit_files(  # noqa: PLR0913 - flat keywords, as in `commit`
        self,
        paths: Sequence[str | pathlib.Path] = (),
        *,
        message: str,
        names: Mapping[str | pathlib.Path, str] | None = None,
        step: int | None = None,
        metrics: Mapping[str, float] | None = None,
        bins: int | None = None,
        prune: float = 0.0,
        protect: float = 0.0,
        sigma: float | None = None,
        author: str | None = None,
    ) -> reports.CommitInfo:
        """Record exactly these files and folders; none named means HEAD's.

        Raises:
            FileFormatError: a file is not a checkpoint.
            ConflictError: another writer moved the branch; the commit is kept on the branch the error names.
        """
        named = {pathlib.Path(path): name for path, name in (names or {}).items()}
        captured, index, origin = worktree.capture(
            self._session, [pathlib.Path(path) for path in paths], named
        )
        request = CommitRequest(
            message,
            author or self._session.author,
            step,
            metrics or {},
            quantizer(bins, prune, protect, sigma),
            self._session.resolve(origin) if origin else None,
            {},
            captured.notes,
        )
        made = self._commit(captured, request, None)
        worktree.remember(self._session, index, made)
        return self._finished(made)

    def _commit(self, captured: Captured, request: CommitRequest, branch: str | None) -> Made:
        position = self._position(branch)
        made = self._committer.make(captured, request, position)
        try:
            published = self._committer.publish(made, position, request.author)
        except LostRaceError as error:
            error.commit = self._finished(made)
            raise
        if position.branch is None:
            self._session.set_head(made.revision.id.hex())
        return published

    def _position(self, branch: str | None) -> Position:
        wanted = check_name(branch) if branch else self._session.branch
        if wanted is None:
            return Position(self._session.head(), None, None)
        record = self._session.branch_record(wanted)
        target = None if record is None else record.target
        parent = self._session.graph.load(target, record.pack) if record and target else None
        if parent is None and branch and branch != self._session.branch:
            parent = self._session.head()
        return Position(parent, wanted, record)

    def _finished(self, made: Made) -> reports.CommitInfo:
        notes = (*made.notes, *self._session.after_commit(made.revision))
        self._session.clear_failures()
        return self._session.info(made.revision, notes, made.timings)

    # Restoring

    def checkout(
        self, rev: str = "HEAD", *, exact: bool = False, numpy: bool = False, tensors: str | None = None
    ) -> Any:  # noqa: ANN401 - a state is anything
        """Return the state of a commit: torch tensors, or numpy arrays on request, each verified.

        Args:
            rev: the commit.
            exact: the exact layer of a bounded commit, all leaves or none.
            numpy: arrays instead of tensors; torch is not needed then.
            tensors: only the tensors whose path matches this glob, as a flat dict.

        Raises:
            NotFoundError: no such commit, no matching tensor, or the exact layer is not stored any more.
            CorruptionError: stored bytes are damaged.
        """
        reading = self._reading(rev, exact=exact)
        return restoring.build_state(reading, numpy=numpy, pattern=tensors)

    def restore(
        self, rev: str = "HEAD", *, prefer_exact: bool = True, numpy: bool = False
    ) -> reports.Restored:
        """Return a state and how exact it is: the exact layer when all of it is stored, else the values."""
        revision = self._session.resolve(rev)
        opened = restoring.open_best if prefer_exact else restoring.open_reading
        reading = opened(self._session.store, revision, self._session.progress)
        state = restoring.build_state(reading, numpy=numpy, pattern=None)
        return reports.Restored(state, self._session.info(revision), reading.layer, reading.lossy)

    def checkout_files(self, rev: str, *, exact: bool = False, force: bool = False) -> reports.CheckoutReport:
        """Restore the files of a commit in place and move HEAD.

        Raises:
            ConflictError: something that is stored nowhere would be overwritten.
        """
        return worktree.checkout(self._session, rev, exact=exact, force=force)

    def export(
        self, rev: str, target: str | pathlib.Path, *, tensors: str | None = None, exact: bool = False
    ) -> reports.ExportReport:
        """Write a commit, or the tensors that match, somewhere else; the suffix tells the format."""
        reading = self._reading(rev, exact=exact)
        path = pathlib.Path(target)
        count, left_out = restoring.export_to(reading, path, tensors)
        size = sum(
            part.stat().st_size for part in ([path] if path.is_file() else path.rglob("*")) if part.is_file()
        )
        info = self._session.info(reading.revision)
        return reports.ExportReport(info, str(path), count, size, left_out, reading.layer)

    def switch(
        self, branch: str, *, create_from: str | None = None, force: bool = False
    ) -> reports.CheckoutReport:
        """Stand on a branch, a new one when `create_from` says where it starts, and restore its files."""
        session = self._session
        if create_from is not None:
            if session.head() is None and create_from == "HEAD":
                session.set_head(f"ref: {check_name(branch)}")
                return reports.CheckoutReport(None, [], [], restoring.EXACT_LAYER, branch)
            naming.create_branch(session, branch, session.resolve(create_from))
        record = session.refs.read(HEADS, branch)
        if record is None or record.target is None:
            raise missing(HEADS, branch)
        revision = session.graph.load(record.target, record.pack)
        if create_from == "HEAD":
            session.set_head(f"ref: {branch}")
            return reports.CheckoutReport(session.info(revision), [], [], restoring.EXACT_LAYER, branch)
        return worktree.move_to(session, revision, branch, exact=False, force=force)

    def _reading(self, rev: str, *, exact: bool = False) -> restoring.Reading:
        session = self._session
        return restoring.open_reading(session.store, session.resolve(rev), session.progress, exact=exact)

    # Looking

    def status(self) -> reports.Status:
        """Return where the working folder stands."""
        return worktree.status(self._session)

    def log(
        self, rev: str = "HEAD", *, limit: int | None = None, all_branches: bool = False
    ) -> Iterator[reports.CommitInfo]:
        """Yield commits, newest first."""
        session = self._session
        starts = self._all_tips() if all_branches else [session.resolve(rev)]
        for revision in islice(session.graph.walk(starts), limit):
            yield session.info(revision)

    def _all_tips(self) -> list[Revision]:
        session = self._session
        records = [*session.refs.all(HEADS).values(), *session.refs.all(TAGS).values()]
        return [
            session.graph.load(record.target, record.pack) for record in records if record.target is not None
        ]

    def decorations(self) -> dict[str, list[str]]:
        """Return for each commit that has them the names to show beside it."""
        return naming.decorations(self._session)

    def show(self, rev: str = "HEAD") -> reports.CommitDetails:
        """Return everything about a commit that its tree and footers tell."""
        reading = self._reading(rev)
        return looking.details(reading, self._session.info(reading.revision))

    def diff(self, a: str = "HEAD", b: str | None = None) -> reports.Diff:
        """Compare two commits, or one with the working files."""
        session = self._session
        revision = session.resolve(a)
        left = restoring.open_best(session.store, revision, session.progress)
        if b is None:
            captured, _, _ = worktree.capture(session, [], {})
            right = Side(hashed_tree(captured), lambda index: captured_chunks(captured, index))
            return compare(side_of(left), right, (session.info(revision), None), session.progress)
        other = session.resolve(b)
        opened = restoring.open_best(session.store, other, session.progress)
        infos = session.info(revision), session.info(other)
        return compare(side_of(left), side_of(opened), infos, session.progress)

    def cat_file(self, name: str) -> reports.CatFile:
        """Return the object that a revision or an id prefix names."""
        try:
            revision = self._session.resolve(name)
        except NotFoundError:
            revision = None
        return looking.cat(name, revision, self._session.store)

    def fsck(self, *, full: bool = True) -> reports.FsckReport:
        """Check the whole store; it only reads."""
        return checking.check(self._session.place.backend, self._session.progress, full=full)

    # Names

    def branches(self) -> list[reports.BranchInfo]:
        """Return all branches."""
        return naming.branches(self._session)

    def create_branch(self, name: str, rev: str = "HEAD") -> None:
        """Make a branch at a revision."""
        naming.create_branch(self._session, name, self._session.resolve(rev))

    def delete_branch(self, name: str, *, force: bool = False) -> None:
        """Delete a branch; its reflog stays."""
        naming.delete_branch(self._session, name, force=force)

    def rename_branch(self, old: str, new: str) -> None:
        """Give a branch another name."""
        naming.rename_branch(self._session, old, new)

    def tags(self) -> list[reports.TagInfo]:
        """Return all tags."""
        return naming.tags(self._session)

    def create_tag(self, name: str, rev: str = "HEAD", message: str = "") -> None:
        """Name a commit for good."""
        naming.create_tag(self._session, name, self._session.resolve(rev), message)

    def delete_tag(self, name: str) -> None:
        """Delete a tag."""
        naming.delete_tag(self._session, name)

    def note(self, rev: str, metrics: Mapping[str, float]) -> reports.CommitInfo:
        """Add metrics to a commit after it was made."""
        revision = self._session.resolve(rev)
        naming.add_note(self._session, revision, metrics)
        self._session.indexing.record(revision)
        return self._session.info(revision)

    def notes(self, rev: str = "HEAD") -> list[reports.NoteInfo]:
        """Return what was added to a commit later."""
        return looking.note_infos(self._session.refs, self._session.resolve(rev).id)

    def reflog(self, name: str | None = None) -> list[reports.ReflogEntry]:
        """Return the changes of a branch, newest first."""
        return naming.reflog(self._session, name)

    # Sharing

    def remotes(self) -> dict[str, str]:
        """Return name and URL of every remote."""
        return sharing.remotes(self._session)

    def add_remote(self, name: str, url: str, options: Mapping[str, object] | None = None) -> None:
        """Remember a remote."""
        sharing.add_remote(self._session, name, url, options or {})

    def remove_remote(self, name: str) -> None:
        """Forget a remote."""
        sharing.remove_remote(self._session, name)

    def push(
        self,
        remote: str = DEFAULT_REMOTE,
        refs: list[str] | None = None,
        *,
        tags: bool = False,
        all_branches: bool = False,
        exact: bool = False,
        force: bool = False,
    ) -> reports.PushReport:
        """Copy what refs need to a remote and move them there; the current branch by default."""
        session = self._session
        return sharing.push(
            session, remote, refs, tags=tags, all_branches=all_branches, exact=exact, force=force
        )

    def fetch(self, remote: str = DEFAULT_REMOTE) -> reports.FetchReport:
        """Copy everything a remote has; no branch here moves."""
        return sharing.fetch(self._session, remote)

    def pull(self, remote: str = DEFAULT_REMOTE, branch: str | None = None) -> reports.PullReport:
        """Fetch and move the current branch forward."""
        return sharing.pull(self._session, remote, branch)

    # Settings and index

    def config_get(self, key: str) -> Any:  # noqa: ANN401 - text, number or boolean
        """Return a setting or its default."""
        return self._session.place.config.get(key)

    def config_set(self, key: str, value: str) -> None:
        """Change a setting."""
        self._session.place.config.set(key, value)

    def config_unset(self, key: str) -> None:
        """Remove a setting."""
        self._session.place.config.unset(key)

    def config_list(self) -> dict[str, Any]:
        """Return every setting that was made."""
        return dict(self._session.place.config.items())

    def lineage_rebuild(self) -> Any:  # noqa: ANN401 - the index's own report
        """Make the lineage index anew from the store."""
        return self._session.indexing.rebuild()

    def lineage_status(self) -> dict[str, Any]:
        """Return where the index lies, whether it is usable, and how many commits it knows."""
        return self._session.indexing.status()

    def lineage_query(self, sql: str, limit: int = 1000) -> tuple[list[str], list[tuple[object, ...]]]:
        """Ask the index in SQL; it is opened read-only."""
        return self._session.indexing.lineage.query(sql, limit)

    def report_failure(self, text: str) -> None:
        """Keep what went wrong in the background, for `status` to show."""
        self._session.report_failure(text)


def quantizer(bins: int | None, prune: float, protect: float, sigma: float | None) -> QuantizerConfig | None:
    """Return the configuration that options ask for; None for an exact commit.

    Raises:
        UsageError: an option without `bins`, or out of range.
    """
    if bins is None:
        if prune or protect or sigma is not None:
            raise UsageError("prune, protect and sigma need bins", hint="add --bins 16, for example")
        return None
    return QuantizerConfig(bins=bins, prune=prune, protect=protect, sigma=sigma)
