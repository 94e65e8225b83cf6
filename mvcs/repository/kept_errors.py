"""Errors of a commit that keeps bounded files: what was measured now, or before where that is worse."""

from collections.abc import Iterable, Iterator

from mvcs.objects.commit import Commit
from mvcs.objects.tree import Tree
from mvcs.repository.quantizing import CLASSES
from mvcs.repository.tensor_errors import NAMED_CLASSES

Measured = tuple[str, tuple[tuple[str, float], ...]]
_Told = dict[str, dict[str, float]]


def with_kept(measured: Iterable[Measured], kept: Tree | None, origin: Commit | None) -> Iterator[Measured]:
    """Yield what a commit records.

    Args:
        measured: what was measured of what is stored now.
        kept: the files of the parent that the commit keeps.
        origin: the parent, where some of them are bounded.
    """
    values, worst = _told(kept, origin) if kept and origin else ({}, {})
    for name, fields in measured:
        own = dict(fields)
        if name in values:
            before = values.pop(name)
            own |= {field: max(value, own.get(field, value)) for field, value in before.items()}
        elif name in worst:
            own = max(own, worst.pop(name), key=lambda found: max(found.values(), default=0.0))
        yield name, tuple(own.items())
    yield from ((name, tuple(fields.items())) for name, fields in {**values, **worst}.items())


def _told(kept: Tree, origin: Commit) -> tuple[_Told, _Told]:
    """Return what the parent says of classes of values, and which kept tensors it names as the worst."""
    told, classes = {name: dict(fields) for name, fields in origin.errors}, set(CLASSES.values())
    files = tuple(f"{entry.path}." for entry in kept.files or ())
    worst = {
        name: fields
        for name, fields in told.items()
        if name in NAMED_CLASSES and fields and all(path.startswith(files) for path in fields)
    }
    return {name: fields for name, fields in told.items() if name in classes}, worst
