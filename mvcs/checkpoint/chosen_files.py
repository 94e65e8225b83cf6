"""Which files a commit takes when files and folders are named, and what each is called in it."""

import pathlib
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, partial

from mvcs.checkpoint.folder_walk import NO_FILES, FolderWalk, FoundKind, KnownFiles, status_of, store_around
from mvcs.checkpoint.ignore_rules import IGNORE_FILE, IgnoreRules
from mvcs.checkpoint.state.stamped import file_kind
from mvcs.errors import ConflictError, NotFoundError, UsageError, some_of
from mvcs.local_files import normal_path, real_path
from mvcs.objects import UnfitPath, is_acting_name, unfit_paths, unfit_text

_SHOWN = 5
_HOW_TO_LEAVE_OUT = (
    f"rename what is named here, or leave it out of folders by a line in '{IGNORE_FILE}'; "
    "'mvcs commit FILE --as NAME' calls a file otherwise in the commit"
)


@dataclass(frozen=True, order=True)
class Chosen:
    """One file a commit takes.

    Attributes:
        name: its path in the commit.
        path: where it lies.
        named: False when it was found inside a named folder, now or for an earlier commit.
        found_before: it was for an earlier commit, which keeps it as it is.
    """

    name: str
    path: pathlib.Path
    named: bool
    found_before: bool = False


def choose(
    paths: Sequence[pathlib.Path],
    top: pathlib.Path,
    names: Mapping[pathlib.Path, str],
    found_before: Collection[pathlib.Path],
    known: KnownFiles = NO_FILES,
    *,
    any_names: bool = False,
) -> tuple[list[Chosen], list[str]]:
    """Return the files to take, sorted by their paths in the commit, and notes on what was left out.

    With `any_names` they are not committed, and may be called what no file of a commit may.

    Raises:
        NotFoundError: a named path does not exist.
        UsageError: a path lies outside `top` and has no name, names collide, a link leaves its folder, or a
            named path is no file or lies in a store; or paths could not be restored on every system.
        ConflictError: a link stands where the commit before has files.
    """
    found: list[Chosen] = []
    left_out, rules = LeftOut(), cache(partial(IgnoreRules.of, top))
    for path in paths:
        name = committed_name(path, top, names)
        status = status_of(path)
        if status is None:
            raise missing_error(path)
        if _is_stored(path, top, found_before):
            left_out.others.append(f"'{name}' was left out: it lies in a store of mvcs")
        elif stat.S_ISDIR(status.st_mode):
            found += _inside(FolderWalk(path, name, top, rules(), known), left_out)
        elif not stat.S_ISREG(status.st_mode):
            raise UsageError(f"'{path}' is {file_kind(status)}, not a file or a folder")
        elif path in found_before and any(map(is_acting_name, name.split("/"))):
            left_out.acting.append(name)
        else:
            found.append(Chosen(name, path, path not in found_before, path in found_before))
    if not any_names:
        refuse_unfit(unfit_paths(file.name for file in found), _HOW_TO_LEAVE_OUT)
    return _distinct(found), left_out.notes()


@dataclass
class LeftOut:
    """What a commit leaves out of the folders it is given.

    Attributes:
        acting: folders and files that version control tools act on.
        others: what is not a file, each with what it is.
    """

    acting: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Return a line for all that acts, and one for each of the others."""
        if not self.acting:
            return self.others
        shown = some_of([f"'{name}'" for name in self.acting], _SHOWN)
        return [f"{shown} left out: version control tools would act on it", *self.others]


def missing_error(path: pathlib.Path) -> NotFoundError:
    """Return the error for a path that leads nowhere."""
    if path.is_symlink():
        return NotFoundError(
            f"'{path}' is a link that leads nowhere", hint="put back what it led to, or remove the link"
        )
    return NotFoundError(f"no such file: '{path}'", hint=_named_instead(path))


def _named_instead(path: pathlib.Path) -> str:
    """Return what to do about a path that is not there, with one beside it that is called nearly so."""
    near: list[str] = []
    with suppress(OSError):
        near = get_close_matches(path.name, [other.name for other in path.parent.iterdir()], n=1)
    return f"did you mean '{path.with_name(near[0])}'?" if near else "name a file or a folder that is there"


def _is_stored(path: pathlib.Path, top: pathlib.Path, found_before: Collection[pathlib.Path]) -> bool:
    """Tell whether a path lies in a store, where an earlier commit may have found it.

    Raises:
        UsageError: it does, and somebody named it.
    """
    store = store_around(path, top)
    if store is not None and path not in found_before:
        raise UsageError(
            f"'{path}' lies in the store '{store}'", hint="a store is copied with 'mvcs push', not committed"
        )
    return store is not None


def _inside(walk: FolderWalk, left_out: LeftOut) -> Iterator[Chosen]:
    for found in walk.found():
        if found.kind is FoundKind.FILE:
            yield Chosen(found.name, found.path, named=False)
        elif found.kind is FoundKind.ACTING:
            left_out.acting.append(found.name)
        elif found.kind is FoundKind.LINK_OUT:
            raise UsageError(f"'{found.path}' is {found.what}", hint=_of_real_files(found.path))
        else:
            if found.kind is FoundKind.LINK and found.name in walk.known:
                raise link_instead_error(found.name, found.what)
            left_out.others.append(f"'{found.name}' was left out: it is {found.what}")


def link_instead_error(name: str, what: str) -> ConflictError:
    """Return the error for files that the commit before has, and that a link stands for by now."""
    return ConflictError(
        f"HEAD has files at '{name}', which is {what} now: a commit does not follow it",
        hint="put the files themselves in its place, or leave them out of the next commit: "
        f"mvcs rm --cached '{name}' -m MESSAGE",
    )


def _of_real_files(link: pathlib.Path) -> str:
    """Return what to commit instead of a folder with a link that leaves it."""
    if "blobs" not in real_path(link).parts:
        return f"commit what it points to with --as NAME, or leave it out by a line in '{IGNORE_FILE}'"
    return "this is a hub's cache: commit what save_pretrained writes, or a download with local_dir="


def _distinct(found: list[Chosen]) -> list[Chosen]:
    chosen: dict[str, Chosen] = {}
    for file in sorted(found):
        other = chosen.setdefault(file.name, file)
        if not other.path.samefile(file.path):
            raise UsageError(f"'{other.path}' and '{file.path}' would both be '{file.name}' in the commit")
        chosen[file.name] = Chosen(
            file.name, file.path, other.named or file.named, other.found_before and file.found_before
        )
    for name in chosen:
        parents = map(str, pathlib.PurePosixPath(name).parents)
        above = next((parent for parent in parents if parent in chosen), None)
        if above is not None:
            raise UsageError(f"'{above}' and '{name}' cannot both be files in one commit")
    return [chosen[name] for name in sorted(chosen)]


def committed_name(path: pathlib.Path, top: pathlib.Path, names: Mapping[pathlib.Path, str]) -> str:
    """Return the path in the commit of a file or folder that was named.

    Raises:
        UsageError: it lies outside `top` and has no name.
    """
    return names[path] if path in names else _relative(path, top)


def _relative(path: pathlib.Path, top: pathlib.Path) -> str:
    # A link in a path may lead into or out of the top folder: as written first, then as resolved.
    for mine, theirs in (
        (normal_path(path), normal_path(top)),
        (real_path(path.parent) / path.name, real_path(top)),
    ):
        if mine.is_relative_to(theirs):
            return mine.relative_to(theirs).as_posix()
    raise UsageError(f"'{path}' lies outside '{top}'", hint="give it a name in the commit: --as NAME")


def refuse_unfit(found: Sequence[UnfitPath], hint: str) -> None:
    """Refuse to make a commit whose files could not be brought into every folder.

    Raises:
        UsageError: something was found; the error names it by reasons.
    """
    if found:
        ends = "cannot be the path of a file in a commit", "cannot be paths of files in a commit"
        raise UsageError(unfit_text(found, *ends), hint=hint)
