"""What a commit reads when files and folders are named, or none: where each lies, and what it is called."""

import os
import pathlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from mvcs.checkpoint import KnownFiles, committed_name, link_instead_error, missing_error
from mvcs.errors import ConflictError, NotFoundError, UsageError
from mvcs.local_files import normal_path, real_path
from mvcs.objects import FileFormat, Tree, files_in, is_inside
from mvcs.repository.worktree.file_index import Index
from mvcs.restore import link_on_the_way

_OF_HEAD = "'mvcs rm' leaves out a file of HEAD, and 'mvcs restore' brings it back"


@dataclass(frozen=True)
class NamedFiles:
    """What is read for a commit.

    Attributes:
        paths: files and folders.
        names: what some of them are called in the commit, instead of where they lie.
        named: what the user named, or HEAD's files, by the path in the commit; whether it is a folder.
        known: the files that HEAD has.
        opaque: those of the paths that HEAD keeps as they are, byte for byte.
        beyond: files that HEAD has in a folder that is named, and that lie elsewhere, by their paths in HEAD.
    """

    paths: tuple[pathlib.Path, ...]
    names: Mapping[pathlib.Path, str]
    named: Mapping[str, bool]
    known: KnownFiles
    opaque: tuple[pathlib.Path, ...]
    beyond: Mapping[str, pathlib.Path]

    @classmethod
    def of(
        cls,
        top: pathlib.Path,
        paths: Sequence[pathlib.Path],
        names: Mapping[pathlib.Path, str],
        index: Index,
        head: Tree | None,
    ) -> "NamedFiles":
        """Look for what was named, or for HEAD's files where nothing was.

        Raises:
            NotFoundError: something is not there.
            UsageError: there is nothing to read; a path lies outside the folder and has no name; or its file
                could not be restored in its place, behind a link.
            ConflictError: a link stands in the place of HEAD's files.
        """
        chosen = list(paths) or head_files(top, index, head)
        elsewhere = index.names()
        called = {path: elsewhere[at] for path in chosen if (at := normal_path(path)) in elsewhere} | dict(
            names
        )
        _refuse_missing(chosen, top, called, head)
        _refuse_links(chosen, top, called, typed=bool(paths))
        named = {committed_name(path, top, called): path.is_dir() for path in chosen}
        known = known_files(top, index, head)
        folders = [name for name, is_folder in named.items() if is_folder]
        beyond = {
            name: place
            for place, name in known.places.items()
            if name not in named and any(is_inside(name, folder) for folder in folders)
        }
        there = {place: name for name, place in beyond.items() if place.is_file()}
        read = (*chosen, *there)
        return cls(read, called | there, named, known, _opaque(top, index, head, read), beyond)


def head_files(top: pathlib.Path, index: Index, head: Tree | None) -> list[pathlib.Path]:
    """Return where HEAD's files lie.

    Raises:
        UsageError: it has none.
    """
    entries = (head.files if head else None) or ()
    if entries:
        return [index.locate(top, entry.path) for entry in entries]
    if head is None or head.files is not None:
        raise UsageError("no file is named, and HEAD holds none", hint="mvcs commit FILE... -m MESSAGE")
    raise UsageError(
        "no file is named, and HEAD holds no files but a state, committed from Python",
        hint="the training hook or repo.commit(state) commits the next; a file by its name: "
        "mvcs commit FILE... -m MESSAGE",
    )


def known_files(top: pathlib.Path, index: Index, head: Tree | None) -> KnownFiles:
    """Return the files that HEAD has, and where those lie that were committed under another name."""
    entries = (head.files if head else None) or ()
    found = frozenset(entry.path for entry in entries)
    elsewhere = {name: index.locate(top, name) for name in index.places if name in found}
    places = {normal_path(place): name for name, place in elsewhere.items() if place != top / name}
    bytewise = [entry.path for entry in entries if entry.format in (FileFormat.OPAQUE, FileFormat.BINARY)]
    return KnownFiles(found, places, frozenset(bytewise))


def _opaque(
    top: pathlib.Path, index: Index, head: Tree | None, paths: Sequence[pathlib.Path]
) -> tuple[pathlib.Path, ...]:
    entries = (head.files if head else None) or ()
    opaque = {
        normal_path(index.locate(top, entry.path)) for entry in entries if entry.format is FileFormat.OPAQUE
    }
    return tuple(path for path in paths if normal_path(path) in opaque)


def _refuse_missing(
    chosen: Sequence[pathlib.Path], top: pathlib.Path, names: Mapping[pathlib.Path, str], head: Tree | None
) -> None:
    """Say of a file that HEAD has and the folder has not what can be done.

    Raises:
        NotFoundError: one of the paths is so.
        UsageError: a path lies outside `top` and has no name.
    """
    for path in chosen:
        with suppress(OSError):  # what else is wrong with it shows when it is read
            if path.exists():
                continue
            if path.is_symlink():
                raise missing_error(path)
            if head is not None and files_in(head, [committed_name(path, top, names)]):
                raise NotFoundError(f"no such file: '{path}'", hint=_OF_HEAD)


def _refuse_links(
    chosen: Sequence[pathlib.Path], top: pathlib.Path, names: Mapping[pathlib.Path, str], *, typed: bool
) -> None:
    """Refuse to commit what could not be restored in its place, since no link is written through.

    Raises:
        UsageError: something that was `typed` lies behind a link to a folder, or is one.
        ConflictError: a file of HEAD does.
    """
    for path in chosen:
        name = committed_name(path, top, names)
        link = link_on_the_way(top, f"{name}/x" if path.is_dir() else name)
        if link is not None:
            raise _behind_link(path, name, link) if typed else _instead_of_files(link, top)


def _instead_of_files(link: pathlib.Path, top: pathlib.Path) -> ConflictError:
    return link_instead_error(link.relative_to(top).as_posix(), "a link to a folder")


def _behind_link(path: pathlib.Path, name: str, link: pathlib.Path) -> UsageError:
    there = f"lies behind the symbolic link '{link}', and could not be restored there"
    if normal_path(path) == link:
        return UsageError(
            f"'{path}' is a link to a folder, and its files could not be restored there",
            hint=_hint(path, link),
        )
    if not normal_path(path).is_relative_to(link):
        return UsageError(f"in the commit '{name}' {there}", hint="choose another name")
    return UsageError(f"'{path}' {there}", hint=_hint(path, link))


def _hint(path: pathlib.Path, link: pathlib.Path) -> str:
    real = real_path(path)
    if real.is_relative_to(real_path(link.parent)):
        return f"name where it lies: '{os.path.relpath(real)}'"
    return "name another place for it in the commit: --as NAME"
