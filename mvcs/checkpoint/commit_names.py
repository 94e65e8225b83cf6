"""What files and folders that are named are called in a commit."""

import pathlib
from collections.abc import Mapping, Sequence

from mvcs.errors import UsageError
from mvcs.local_files import normal_path, real_path
from mvcs.objects import UnfitPath, unfit_text


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
