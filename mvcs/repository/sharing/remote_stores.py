"""Stores that have a name here: where each remote lies, and how it is opened."""

import pathlib
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from mvcs.addresses import without_secrets
from mvcs.checkpoint import DESCRIPTION_FILE
from mvcs.config import Setting
from mvcs.errors import ConflictError, MvcsError, NotFoundError, StorageError, UsageError, not_found
from mvcs.local import Description, Place, adopt, check_place, open_described
from mvcs.local_files import real_path
from mvcs.objects import ObjectId
from mvcs.refs import HEADS, REMOTES, TAGS, DamagedRecord, RefStore
from mvcs.remotes import TransferSide
from mvcs.repository.session import Session
from mvcs.store import Backend, ObjectStore, refuse_changes

_REMOTE_NAME = re.compile(r"[a-z0-9_-]+")
KINDS = (HEADS, TAGS, REMOTES)


@dataclass(frozen=True)
class RemoteStore:
    """Where a remote lies.

    Attributes:
        name: what it is called here, in messages too.
        url: its store.
        options: what opening the store takes.
    """

    name: str
    url: str
    options: Mapping[str, object]

    @classmethod
    def named(cls, session: Session, name: str) -> "RemoteStore":
        """Return a remote that was added.

        Raises:
            NotFoundError: there is none of that name.
        """
        settings = session.place.config.section(f"remote.{name}")
        url = settings.pop("url", None)
        if url is None:
            raise missing_remote(session, name)
        return cls(name, str(url), settings)

    def connect(self, session: Session, *, plain: bool) -> None:
        """Remember where it lies; options that are not given stay as they are.

        Raises:
            ConflictError: a folder on this machine has the history of another project.
            UsageError: the URL will not do, or is that of this very store; or it or an option is secret.
        """
        self._refuse_itself(session)
        self._refuse_other_project(session)
        section = f"remote.{self.name}"
        check_place(session.place.trust, section, self.url, self.options, plain=plain)
        session.place.config.connect(section, _absolute(session, self.url), self.options, plain=plain)

    def _refuse_other_project(self, session: Session) -> None:
        """Look at a folder on this machine, if a store is there; nothing else is asked before it is used."""
        if "://" in self.url or not has_refs(session.refs):
            return
        try:
            self.open(session, make=False)
        except ConflictError:
            raise
        except MvcsError:
            return  # what is wrong there is told where it is used

    def open(self, session: Session, *, make: bool, joins: bool = False) -> TransferSide:
        """Open the store.

        Args:
            session: the repository.
            make: whether an empty place becomes a store of this project, and so a store without refs.
            joins: whether this repository becomes one of the store's project where it has no refs.

        Raises:
            ConflictError: it has the history of another project.
            NotFoundError: no store is where it should lie.
            StorageError: none can be made there.
            UsageError: it is this very store.
            UnsupportedFormatError: a newer mvcs upgraded one of the two stores, so that packs of it have no
                place in the other.
        """
        place = session.place
        refuse_changes(place.backend)
        self._refuse_itself(session)
        backend, described = self._opened(place, place.description if make else None)
        refuse_changes(backend)
        if not backend.exclusive:
            session.warn(
                f"remote '{self.name}' does not refuse a second writer: push from one place at a time"
            )
        there = TransferSide.of(ObjectStore(backend, session.store.memory))
        if described.project_id == place.description.project_id:
            return there
        if not has_refs(session.refs):  # what has no history is of no project yet
            if joins:
                join(session, described)
            return there
        refuse_other_project(session, self.name, there.refs)
        if make:
            take_in(session, self.name, backend, described)
        return there

    def _opened(self, place: Place, project: Description | None) -> tuple[Backend, Description]:
        try:
            return open_described(self.url, self.options, project, place.trust)
        except (NotFoundError, StorageError) as error:
            if error.hint is not None or project is None:
                raise
            where = without_secrets(self.url)
            raise StorageError(
                f"no store can be made at '{where}': {error.message}",
                hint=f"'mvcs remote set-url {self.name} URL' names another place",
            ) from error

    def _refuse_itself(self, session: Session) -> None:
        """Refuse the store that is at work here, by whichever name."""
        there = ""
        with suppress(MvcsError):  # what is wrong with an address is told where it is opened
            there = adopt(self.url, session.place.trust)
        if _is_same(there, session.place.backend.url):
            raise UsageError(
                f"remote '{self.name}' would be the store of this repository itself",
                hint="a remote is another store: give a folder elsewhere, or the address of a bucket",
            )


def _is_same(one: str, other: str) -> bool:
    """Tell whether two addresses are of one store: folders count with links followed."""
    if "://" in one or "://" in other:
        return one.rstrip("/") == other.rstrip("/")
    return bool(one) and real_path(one) == real_path(other)


def store_of(session: Session, name: str) -> Place:
    """Return the store of a remote as one that nobody has a working folder of.

    Raises:
        NotFoundError: there is no such remote, or no store there.
    """
    there = RemoteStore.named(session, name).open(session, make=False)
    return replace(session.place, top=None, local=None, backend=there.store.backend)


def _absolute(session: Session, url: str) -> str:
    return url if "://" in url or session.place.top is None else str(real_path(pathlib.Path.cwd() / url))


def check_new(session: Session, name: str) -> None:
    """Check that a remote can be called so.

    Raises:
        UsageError: the name will not do.
        ConflictError: there is one of that name.
    """
    if not _REMOTE_NAME.fullmatch(name):
        raise UsageError(f"'{name}' cannot name a remote", hint="use lower-case letters, digits, - and _")
    if name in session.place.config.names("remote"):
        raise ConflictError(
            f"there is a remote '{name}' already",
            hint=f"'mvcs remote set-url {name} URL' moves it, 'mvcs remote rm {name}' forgets it",
        )


def settings_of(session: Session, name: str) -> dict[str, Setting]:
    """Return what is set of a remote.

    Raises:
        NotFoundError: there is none of that name.
    """
    found = session.place.config.section(f"remote.{name}")
    if not found:
        raise missing_remote(session, name)
    return found


def missing_remote(session: Session, name: str) -> NotFoundError:
    """Return the error for a remote that nobody added."""
    others = session.place.config.names("remote")
    listed = f"; there are: {', '.join(others)}" if others else ""
    command = f"{name} URL" if _REMOTE_NAME.fullmatch(name) else f"NAME {name}"
    otherwise = f"add it with 'mvcs remote add {command}'{listed}"
    return not_found(f"no remote named '{name}'", name, others, otherwise)


def forget_settings(session: Session, name: str) -> None:
    """Remove all that is set of a remote."""
    for key in session.place.config.section(f"remote.{name}"):
        session.place.config.unset(f"remote.{name}.{key}")


def shown_url(session: Session, name: str) -> str:
    """Return the URL of a remote, fit to be shown."""
    return without_secrets(str(session.place.config.get(f"remote.{name}.url")))


def addresses(session: Session) -> list[str]:
    """Return what `-C` takes for the store of each remote, 'origin' first."""
    names = sorted(session.place.config.names("remote"), key=lambda name: name != "origin")
    return [store_address(shown_url(session, name)) for name in names]


def store_address(url: str) -> str:
    """Return what `-C` takes for a store rather than for a folder to stand in."""
    return url if "://" in url else f"file://{pathlib.Path(url).absolute()}"


def refuse_other_project(session: Session, name: str, there: RefStore) -> None:
    """Check that a store that says it is of another project has nothing but what is ours.

    Args:
        session: the repository.
        name: what the other store is called here.
        there: the refs of that store.

    Raises:
        ConflictError: it has the history of another project.
    """
    if not _has_only(there, session):
        raise ConflictError(
            f"remote '{name}' holds another project, with a history of its own",
            hint=f"'mvcs remote set-url {name} URL' names another place; 'mvcs clone' takes what is there "
            "into a folder of its own",
        )


def take_in(session: Session, name: str, there: Backend, found: Description) -> None:
    """Make a store that has nothing of its own one of this project.

    Raises:
        ConflictError: another project took it in at the same moment.
    """
    project = session.place.description.project_id
    _describe(there, replace(found, project_id=project))
    if Description.read(there, name).project_id != project:
        raise ConflictError(f"remote '{name}' was made one of another project at the same moment")


def join(session: Session, found: Description) -> None:
    """Make this repository, which has no refs, one of the project of another store."""
    place = session.place
    described = replace(place.description, project_id=found.project_id)
    _describe(place.backend, described)
    session.place = replace(place, description=described)


def has_refs(refs: RefStore) -> bool:
    """Tell whether there is any branch, tag, or what is known of a remote, be it deleted."""
    return any(refs.listed(kind) for kind in KINDS)


def _describe(backend: Backend, described: Description) -> None:
    backend.replace(DESCRIPTION_FILE, described.encode())


def _has_only(refs: RefStore, session: Session) -> bool:
    """Tell whether a store names no commit, now or in its past, that is not behind a branch or tag here."""
    named = set[ObjectId]()
    for kind in KINDS:
        for name in refs.listed(kind):
            for record in refs.row(kind, name):
                if isinstance(record, DamagedRecord):
                    return False
                named.update([record.target] if record.target is not None else ())
    return not named or named <= set(_ours(session))


def _ours(session: Session) -> Iterator[ObjectId]:
    records = [*session.refs.survey(HEADS).whole.values(), *session.refs.survey(TAGS).whole.values()]
    met = set[ObjectId]()
    for record in records:
        if record.target is None or record.target in met:
            continue
        with suppress(MvcsError):  # what cannot be read is not known to be ours
            start = session.graph.load(record.target)
            for revision in session.graph.walk([start], without=set(met)):
                met.add(revision.id)
                yield revision.id
