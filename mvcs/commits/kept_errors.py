"""Errors of a commit that keeps bounded files: what was measured now, or before where that is worse."""

from collections.abc import Iterable, Iterator, Mapping

from mvcs.commits.leaves.given_leaf import CLASSES
from mvcs.commits.leaves.tensor_errors import NAMED_CLASSES
from mvcs.objects import Commit, Tree

Measured = tuple[str, tuple[tuple[str, float], ...]]
_Told = dict[str, dict[str, float]]


def with_kept(
    measured: Iterable[Measured],
    kept: Tree | None,
    origin: Commit | None,
    names: Mapping[str, str],
) -> Iterator[Measured]:
    """Yield what a commit records.

    Args:
        measured: what was measured of what is stored now.
        kept: the files of the parent that the commit keeps.
        origin: the parent, where some of them are bounded.
        names: what it calls those that have another name now, by that name.
    """
    values, worst = _told(kept, origin, names) if kept and origin else ({}, {})
    for name, fields in measured:
        own = dict(fields)
        if name in values:
            before = values.pop(name)
            own |= {field: max(value, own.get(field, value)) for field, value in before.items()}
        elif name in worst:
            own = max(own, worst.pop(name), key=lambda found: max(found.values(), default=0.0))
        yield name, tuple(own.items())
    yield from ((name, tuple(fields.items())) for name, fields in {**values, **worst}.items())


def _told(kept: Tree, origin: Commit, names: Mapping[str, str]) -> tuple[_Told, _Told]:
    """Return what the parent says of classes of values, and which kept tensors it names as the worst."""
    told, classes = {name: dict(fields) for name, fields in origin.errors}, set(CLASSES.values())
    files = {f"{names.get(entry.path, entry.path)}.": f"{entry.path}." for entry in kept.files or ()}
    worst = {
        name: {_called(path, files): value for path, value in fields.items()}
        for name, fields in told.items()
        if name in NAMED_CLASSES and fields and all(path.startswith(tuple(files)) for path in fields)
    }
    return {name: fields for name, fields in told.items() if name in classes}, worst


def _called(path: str, files: Mapping[str, str]) -> str:
    """Return the path of a tensor in a file that may have another name now."""
    old = max((start for start in files if path.startswith(start)), key=len)
    return files[old] + path[len(old) :]
