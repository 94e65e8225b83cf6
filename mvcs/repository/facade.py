"""The repository as callers see it: one method per verb, grouped in `verbs`; other modules do the work."""

import os
import pathlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, cast
from weakref import WeakSet

from mvcs.addresses import public_address
from mvcs.errors import ConflictError, UsageError
from mvcs.local import LocalRecords, Place, Trust, find, initialise, is_begun, is_new, refuse_occupied
from mvcs.progress import SILENT, Progress
from mvcs.reports import CommitInfo
from mvcs.repository.session import Session
from mvcs.repository.sharing.remote_stores import RemoteStore
from mvcs.repository.sharing.upstreams import DEFAULT_REMOTE
from mvcs.repository.verbs.looking import Looking
from mvcs.repository.verbs.maintaining import Maintaining
from mvcs.repository.verbs.moving import Moving
from mvcs.repository.verbs.restoring import Restoring
from mvcs.repository.verbs.revising import Revising
from mvcs.repository.verbs.settings import Settings
from mvcs.repository.verbs.sharing import Sharing
from mvcs.restore import Allowance

if TYPE_CHECKING:
    from mvcs.commits import Mechanisms


class Repository(Revising, Restoring, Looking, Moving, Sharing, Settings, Maintaining):
    """A history of states or files. Open it with `open`, `init` or `clone`; safe for one thread at a time.

    A forked process may use it too, and reads anew; where the store is not on this machine, it opens its own.
    """

    def __init__(
        self,
        place: Place,
        progress: Progress = SILENT,
        max_bytes: int | None = None,
        mechanisms: "Mechanisms | None" = None,
    ) -> None:
        """Use `open`, `init` or `clone` instead; mechanisms are left out for measuring alone."""
        self._session = Session(place, progress, allowance=Allowance(max_bytes), mechanisms=mechanisms)
        _OPEN.add(self)

    @classmethod
    def init(
        cls,
        path: str | pathlib.Path = ".",
        *,
        store: str | None = None,
        options: Mapping[str, object] | None = None,
        plain: bool = False,
        trust: Trust | None = None,
        progress: Progress = SILENT,
    ) -> "Repository":
        """Make `path/.mvcs`; with `store` the shared part lies at that URL.

        Foreign files there are named in `warnings` and left alone.

        Args:
            path: the folder.
            store: where the shared part lies instead of in `path/.mvcs`.
            options: what opening the store takes; written into the settings.
            plain: write options also when they are not known to be harmless.
            trust: which owners and kinds of stores are trusted; by default what this user trusts.
            progress: is told of long work.

        Raises:
            UsageError: the URL or an option is secret, and would stand in a plain file.
            ConflictError: there is one already.
            StorageError: it cannot be written.
        """
        from mvcs.local import foreign_files_note, ignore_note

        trusted = trust or Trust.of_user()
        new = is_new(pathlib.Path(path))
        place = initialise(pathlib.Path(path), store, options, trust=trusted, plain=plain)
        repository = cls(place, progress)
        repository._remember_lineage(is_new=new)
        notes = (
            foreign_files_note(repository._session.place.backend),
            ignore_note(pathlib.Path(path)) if new else None,
        )
        repository.warnings.extend(filter(None, notes))
        return repository

    @classmethod
    def open(
        cls,
        path: str | pathlib.Path = ".",
        *,
        options: Mapping[str, object] | None = None,
        max_bytes: int | None = None,
        trust: Trust | None = None,
        progress: Progress = SILENT,
    ) -> "Repository":
        """Open the repository at a folder or above it, `.mvcs` itself, or a bare store by path or URL.

        Args:
            path: where it is.
            options: what the store's backend needs to know.
            max_bytes: refuse to restore more; by default what memory, or the disk, holds.
            trust: which owners and kinds of stores are trusted; by default what this user trusts.
            progress: is told of long work.

        Raises:
            NotFoundError: there is none.
            UsageError: it belongs to another user, or its store is of a kind that is not opened.
            UnsupportedFormatError: a newer mvcs made it.
        """
        return cls(find(str(path), options, trust or Trust.of_user()), progress, max_bytes)

    @classmethod
    def clone(
        cls,
        url: str,
        path: str | pathlib.Path | None = None,
        *,
        branch: str | None = None,
        options: Mapping[str, object] | None = None,
        plain: bool = False,
        max_bytes: int | None = None,
        trust: Trust | None = None,
        progress: Progress = SILENT,
    ) -> "Repository":
        """Copy a whole project, without exact layers, into a new folder and restore a branch's files there.

        HEAD is detached where `branch` is a tag.

        An interrupted clone is taken up again by the same call: packs that arrived are not copied twice.
        Secrets in the URL or the options are used and not remembered; `plain` remembers options that are not
        known to be harmless.

        Raises:
            NotFoundError: there is no store at `url`, or no `branch` there; nothing was made.
            ConflictError: the folder holds something already.
            LimitError: its files take more than `max_bytes`, or than the disk has; all but them is there.
        """
        from mvcs.local import ignore_note
        from mvcs.repository import clone_source

        trusted = trust or Trust.of_user()
        source = RemoteStore(DEFAULT_REMOTE, url, options or {})
        description = clone_source.describe(source, trusted, branch)
        target = pathlib.Path(path or public_address(url).rstrip("/").rpartition("/")[2] or "clone")
        refuse_occupied(target)
        new = is_new(target)
        place = initialise(target, None, None, description, trust=trusted)
        repository = cls(place, progress, max_bytes)
        repository._remember_lineage(is_new=new)
        clone_source.remember(repository._session, source, plain=plain)
        clone_source.fill(repository._session, source, branch)
        repository.warnings.extend(filter(None, [ignore_note(target) if new else None]))
        return repository

    def _remember_lineage(self, *, is_new: bool) -> None:
        from mvcs.repository.lineage_record import LineageRecord

        if is_new:  # what is taken up again may have given values before its records were lost
            LineageRecord(self._session).begin()

    def close(self) -> None:
        """Remember what was seen of branches and tags; nothing is kept open."""
        self._session.close()

    def __enter__(self) -> Self:
        """Return the repository."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the repository."""
        self.close()

    def __repr__(self) -> str:
        where = self.url if self.top is None else str(self.top.absolute())
        branch = f" on {self.branch}" if self.top is not None and self.branch else ""
        return f"<Repository '{public_address(where)}'{branch}>"

    @property
    def top(self) -> pathlib.Path | None:
        """The working folder; None for a bare store."""
        return self._session.place.top

    @property
    def url(self) -> str:
        """Where the store lies."""
        return self._session.place.backend.url

    @property
    def trust(self) -> Trust:
        """Which owners and kinds of stores are trusted here."""
        return self._session.place.trust

    @property
    def local_records(self) -> LocalRecords:
        """What this clone alone remembers; nothing in a bare store."""
        return LocalRecords(self._session.place.local)

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

    def head(self) -> CommitInfo | None:
        """Return the commit HEAD stands on; None before the first."""
        revision = self._session.head()
        return None if revision is None else self._session.info(revision)

    def resolve(self, rev: str) -> CommitInfo:
        """Return the commit that a revision names.

        Raises:
            NotFoundError: nothing has that name.
            UsageError: it names more than one commit.
        """
        return self._session.info(self._session.resolver.resolve(rev))

    def resolve_file(self, rev: str) -> tuple[CommitInfo, str | None]:
        """Return the commit that `REV` or `REV:FILE` names, and the path of the file, if one is named.

        Raises:
            NotFoundError: nothing has that name.
            UsageError: it names more than one commit.
        """
        revision, path = self._session.resolver.resolve_file(rev)
        return self._session.info(revision), path


def open_or_init(
    path: str | pathlib.Path = ".",
    *,
    store: str | None = None,
    options: Mapping[str, object] | None = None,
    max_bytes: int | None = None,
    trust: Trust | None = None,
    progress: Progress = SILENT,
) -> Repository:
    """Open the repository in a folder, or make one there; one in a folder above is another.

    A URL, or the folder of a bare store, is opened only.

    Args:
        path: the folder.
        store: where the shared part of a new one lies, instead of in `path/.mvcs`.
        options: what opening the store takes.
        max_bytes: refuse to restore more; by default what memory, or the disk, holds.
        trust: which owners and kinds of stores are trusted; by default what this user trusts.
        progress: is told of long work.

    Raises:
        NotFoundError: there is nothing at the URL.
        UsageError: it belongs to another user, or its store is of a kind that is not opened.
        UnsupportedFormatError: a newer mvcs made it.
        StorageError: it cannot be written.
    """
    if not is_begun(str(path)):
        with suppress(ConflictError):  # another process was as quick
            Repository.init(path, store=store, options=options, trust=trust, progress=progress).close()
    return Repository.open(path, options=options, max_bytes=max_bytes, trust=trust, progress=progress)


_OPEN: WeakSet[Repository] = WeakSet()


class _Inherited:
    """The session of a forked process with a store elsewhere."""

    def close(self) -> None:
        """Have nothing to remember."""

    def __getattr__(self, name: str) -> NoReturn:
        raise UsageError("this repository was opened by another process", hint="open it again in this one")


def _begin_in_child() -> None:
    """Begin anew in a forked process, as locks may be held by threads that it has not."""
    for repository in list(_OPEN):
        session = repository._session  # noqa: SLF001 - of the class above
        if isinstance(session, Session):
            fresh = replace(session) if session.place.backend.near else cast("Session", _Inherited())
            repository._session = fresh  # noqa: SLF001 - of the class above


os.register_at_fork(after_in_child=_begin_in_child)
