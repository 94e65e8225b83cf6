"""Which files a commit takes when files and folders are named, and what each is called in it."""

import os
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mvcs.checkpoint.stamped import storage_error
from mvcs.errors import CorruptionError, NotFoundError, UsageError
from mvcs.objects.tree import safe_path

STORE_FOLDER = ".mvcs"


@dataclass(frozen=True, order=True)
class Chosen:
    """One file a commit takes.

    Attributes:
        name: its path in the commit.
        path: where it lies.
        named: False when it was found inside a named folder, now or for an earlier commit.
    """

    name: str
    path: pathlib.Path
    named: bool


def is_temporary(name: str) -> bool:
    """Tell whether a file's name is that of a hidden temporary file, which no commit takes."""
    return name.startswith(".") and (".tmp" in name or name.endswith((".swp", ".part", "~")))


def choose(
    paths: Sequence[pathlib.Path],
    top: pathlib.Path,
    names: Mapping[pathlib.Path, str],
    found_before: Collection[pathlib.Path],
) -> tuple[list[Chosen], list[str]]:
    """Return the files to take, sorted by their paths in the commit, and notes on what was left out.

    Raises:
        NotFoundError: a named path does not exist.
        UsageError: a path lies outside `top` and has no name, names collide, a link leaves its folder.
    """
    found: list[Chosen] = []
    notes: list[str] = []
    for path in paths:
        name = names[path] if path in names else _relative(path, top)
        if path.is_dir():
            found += _inside(path, name, notes)
        elif path.is_file():
            found.append(Chosen(_checked(name), path, named=path not in found_before))
        elif path.exists():
            raise UsageError(f"'{path}' is neither a file nor a folder")
        else:
            raise NotFoundError(f"no such file: '{path}'")
    return _distinct(found), notes


def _relative(path: pathlib.Path, top: pathlib.Path) -> str:
    # A link in a path may lead into or out of the top folder: as written first, then as resolved.
    for mine, theirs in (
        (pathlib.Path(os.path.abspath(path)), pathlib.Path(os.path.abspath(top))),  # noqa: PTH100 - links stay
        (path.parent.resolve() / path.name, top.resolve()),
    ):
        if mine.is_relative_to(theirs):
            return mine.relative_to(theirs).as_posix()
    raise UsageError(f"'{path}' lies outside '{top}'", hint="give it a name in the commit: --as NAME")


def _checked(name: str) -> str:
    try:
        return safe_path(name)
    except CorruptionError as error:
        raise UsageError(f"'{name}' cannot be the path of a file in a commit") from error


def _inside(folder: pathlib.Path, name: str, notes: list[str]) -> Iterator[Chosen]:
    prefix = "" if name in ("", ".") else f"{name}/"
    real = folder.resolve()
    for path in _walk(folder):
        if path.is_symlink() and not path.resolve().is_relative_to(real):
            raise UsageError(
                f"the link '{path}' leaves the folder '{folder}'", hint="commit what it points to by name"
            )
        inner = prefix + path.relative_to(folder).as_posix()
        if path.is_file():
            yield Chosen(_checked(inner), path, named=False)
        else:
            notes.append(f"'{inner}' was left out: it is not a file")


def _walk(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    def stop(error: OSError) -> None:
        raise storage_error("read", folder, error) from error

    for root, folders, files in os.walk(folder, onerror=stop):
        folders[:] = sorted(name for name in folders if name != STORE_FOLDER)
        linked = [name for name in folders if (pathlib.Path(root) / name).is_symlink()]
        for name in sorted([*files, *linked]):
            if not is_temporary(name):
                yield pathlib.Path(root) / name


def _distinct(found: list[Chosen]) -> list[Chosen]:
    chosen: dict[str, Chosen] = {}
    for file in sorted(found):
        other = chosen.setdefault(file.name, file)
        if not other.path.samefile(file.path):
            raise UsageError(f"'{other.path}' and '{file.path}' would both be '{file.name}' in the commit")
        chosen[file.name] = Chosen(file.name, file.path, other.named or file.named)
    for name in chosen:
        parents = map(str, pathlib.PurePosixPath(name).parents)
        above = next((parent for parent in parents if parent in chosen), None)
        if above is not None:
            raise UsageError(f"'{above}' and '{name}' cannot both be files in one commit")
    return [chosen[name] for name in sorted(chosen)]
