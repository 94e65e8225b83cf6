"""Names for other stores: what they are called, where they lie, and what they were last seen to have."""

import pathlib
import re
from collections.abc import Mapping
from contextlib import suppress

from mvcs.addresses import without_secrets
from mvcs.config import Setting
from mvcs.errors import ConflictError, MvcsError, NotFoundError, UsageError
from mvcs.local.place import check_place, open_described
from mvcs.local.settings_shown import shown
from mvcs.local.store_description import Description
from mvcs.local_files import real_path
from mvcs.refs import HEADS, REMOTES, RefRecord
from mvcs.refs.refstore import Change
from mvcs.remotes.stores import Side
from mvcs.reports.refs import RemoteBranch, RemoteInfo
from mvcs.repository.session import Session
from mvcs.repository.upstreams import Upstream, rename_followed, upstream_of
from mvcs.store.reading.catalog import pack_path
from mvcs.store.reading.objects import ObjectStore

_REMOTE_NAME = re.compile(r"[a-z0-9_-]+")


def remotes(session: Session) -> dict[str, str]:
    """Return name and URL of every remote, fit to be shown."""
    config = session.place.config
    return {name: without_secrets(str(config.get(f"remote.{name}.url"))) for name in config.names("remote")}


def addresses(session: Session) -> list[str]:
    """Return what `-C` takes for the store of each remote, 'origin' first."""
    known = remotes(session)
    return [store_address(known[name]) for name in sorted(known, key=lambda name: name != "origin")]


def store_address(url: str) -> str:
    """Return what `-C` takes for a store rather than for a folder to stand in."""
    return url if "://" in url else f"file://{pathlib.Path(url).absolute()}"


def add_remote(
    session: Session, name: str, url: str, options: Mapping[str, object], *, plain: bool = False
) -> None:
    """Remember a remote.

    Raises:
        UsageError: the name or the URL will not do, or the URL holds a secret.
        ConflictError: there is one of that name.
    """
    _check_new(session, name)
    check_place(session.place.trust, f"remote.{name}", url, options, plain=plain)
    session.place.config.connect(f"remote.{name}", _absolute(session, url), options, plain=plain)


def _check_new(session: Session, name: str) -> None:
    if not _REMOTE_NAME.fullmatch(name):
        raise UsageError(f"'{name}' cannot name a remote", hint="use lower-case letters, digits, - and _")
    if name in remotes(session):
        raise ConflictError(
            f"there is a remote '{name}' already",
            hint=f"'mvcs remote set-url {name} URL' moves it, 'mvcs remote rm {name}' forgets it",
        )


def _absolute(session: Session, url: str) -> str:
    return url if "://" in url or session.place.top is None else str(real_path(pathlib.Path.cwd() / url))


def set_remote_url(
    session: Session, name: str, url: str, options: Mapping[str, object], *, plain: bool = False
) -> None:
    """Change where a remote lies; options that are not given stay as they are.

    Raises:
        NotFoundError: there is none of that name.
        UsageError: the URL will not do, or it or an option is secret.
    """
    _settings(session, name)
    check_place(session.place.trust, f"remote.{name}", url, options, plain=plain)
    session.place.config.connect(f"remote.{name}", _absolute(session, url), options, plain=plain)


def rename_remote(session: Session, old: str, new: str) -> None:
    """Give a remote another name; where its branches stood, and what follows them, goes along.

    Raises:
        NotFoundError: there is none of that name.
        UsageError: the new name will not do.
        ConflictError: there is one of the new name.
    """
    settings = _settings(session, old)
    _check_new(session, new)
    url = str(settings.pop("url", ""))
    session.place.config.connect(f"remote.{new}", url, settings, plain=True)
    for ref, record in _seen(session, old).items():
        name = f"{new}/{Upstream.split(ref).branch}"
        change = Change(record.target, record.pack, session.author, f"remote: renamed from {old}")
        session.refs.update(REMOTES, name, session.refs.top(REMOTES, name), change)
    rename_followed(session, old, new)
    _forget(session, old, f"remote: renamed to {new}")


def remove_remote(session: Session, name: str) -> None:
    """Forget a remote and where its branches stood.

    Raises:
        NotFoundError: there is none of that name.
    """
    _settings(session, name)
    _forget(session, name, "remote: removed")
    rename_followed(session, name, None)


def _settings(session: Session, name: str) -> dict[str, Setting]:
    found = session.place.config.section(f"remote.{name}")
    if not found:
        raise missing_remote(session, name)
    return found


def missing_remote(session: Session, name: str) -> NotFoundError:
    """Return the error for a remote that nobody added."""
    others = ", ".join(remotes(session))
    listed = f"; there are: {others}" if others else ""
    command = f"{name} URL" if _REMOTE_NAME.fullmatch(name) else f"NAME {name}"
    return NotFoundError(f"no remote named '{name}'", hint=f"add it with 'mvcs remote add {command}'{listed}")


def _seen(session: Session, remote: str) -> dict[str, RefRecord]:
    """Return the branches of a remote as they were last seen."""
    found = session.refs.survey(REMOTES).told(session.progress.note)
    return {name: record for name, record in found.items() if Upstream.split(name).remote == remote}


def _forget(session: Session, remote: str, action: str) -> None:
    for key in session.place.config.section(f"remote.{remote}"):
        session.place.config.unset(f"remote.{remote}.{key}")
    survey = session.refs.survey(REMOTES)
    for name in (*survey.whole, *survey.damaged):
        if Upstream.split(name).remote == remote:
            change = Change(None, None, session.author, action)
            session.refs.update(REMOTES, name, session.refs.top(REMOTES, name), change)


def describe_remote(session: Session, name: str, *, ask: bool = True) -> RemoteInfo:
    """Return what is known of a remote; with `ask` it is compared with what it has now.

    Raises:
        NotFoundError: there is none of that name, or no store where it should lie.
    """
    settings = _settings(session, name)
    seen = {Upstream.split(ref).branch: _hex(record) for ref, record in _seen(session, name).items()}
    default, now = None, dict(seen)
    if ask:
        there = open_remote(session, name, make=False)
        default = Description.read(there.store.backend, name).default_branch
        now = {
            branch: _hex(record)
            for branch, record in there.refs.survey(HEADS).told(session.progress.note).items()
        }
    return RemoteInfo(
        name,
        remotes(session)[name],
        {key: shown(f"remote.{name}.{key}", value) for key, value in settings.items() if key != "url"},
        default,
        [_compared(branch, seen.get(branch), now.get(branch), ask=ask) for branch in sorted({**seen, **now})],
        _followers(session, name),
    )


def _followers(session: Session, remote: str) -> dict[str, str]:
    """Return which branches here follow one of a remote."""
    pairs = ((branch, upstream_of(session, branch)) for branch in session.refs.survey(HEADS).whole)
    return {branch: found.name for branch, found in pairs if found is not None and found.remote == remote}


def _compared(name: str, seen: str | None, now: str | None, *, ask: bool) -> RemoteBranch:
    if not ask:
        return RemoteBranch(name, seen or "", "as last seen")
    if now is None:
        return RemoteBranch(name, seen or "", "gone over there; the next fetch forgets it")
    states = {None: "new; the next fetch brings it", now: "as last seen"}
    return RemoteBranch(name, now, states.get(seen, "moved on; the next fetch brings it"))


def _hex(record: RefRecord) -> str:
    return record.target.hex() if record.target else ""


def open_remote(session: Session, remote: str, *, make: bool) -> Side:
    """Open a remote; with `make` an empty place becomes a store of this project.

    Raises:
        NotFoundError: there is no remote of that name, or no store where it should lie.
    """
    settings = session.place.config.section(f"remote.{remote}")
    url = settings.pop("url", None)
    if url is None:
        raise missing_remote(session, remote)
    return open_named(session, remote, str(url), settings, make=make)


def keeps_exact(session: Session, remote: str, rev: str) -> bool:
    """Tell whether the store of a remote has the exact layer of a commit, as far as it can be asked."""
    names = session.resolve(rev).written.exact_packs
    with suppress(MvcsError):
        there = open_remote(session, remote, make=False).store.backend
        return bool(names) and all(there.size(pack_path(name, exact=True)) is not None for name in names)
    return False


def open_named(session: Session, remote: str, url: str, options: Mapping[str, object], *, make: bool) -> Side:
    """Open the store at a URL, which messages call by the name of a remote."""
    backend = open_described(url, options, session.place.description if make else None, session.place.trust)
    if not backend.exclusive:
        session.warn(f"remote '{remote}' does not refuse a second writer: push from one place at a time")
    return Side.of(ObjectStore(backend))
