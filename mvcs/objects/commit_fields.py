"""The fields of a commit as they are read: each is checked by itself."""

from collections.abc import Callable, Mapping
from typing import Final

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import cbor
from mvcs.objects.checked_fields import as_bool, as_float, as_integer, as_list, as_pairs, as_text
from mvcs.objects.ids import ObjectId, as_id

EXACT, BOUNDED = "exact", "bounded"
MAX_PARENTS = 64
_TIME_LIMIT = 1 << 62

Extension = tuple[str, bool, cbor.Value]
"""What a later version says of a commit: a name, whether a reader has to know it, and a value."""


def metric_pairs(value: object, what: str) -> tuple[tuple[str, float], ...]:
    """Check decoded `[name, float]` pairs."""
    return tuple((name, as_float(number, what)) for name, number in as_pairs(value, what))


def _time(value: object) -> int:
    return as_integer(value, "a commit's time", -_TIME_LIMIT, _TIME_LIMIT)


def _step(value: object) -> int | None:
    return None if value is None else as_integer(value, "a commit's step", -(1 << 63))


def _optional_id(value: object) -> ObjectId | None:
    return None if value is None else as_id(value)


def _exactness(value: object) -> str:
    if value not in (EXACT, BOUNDED):
        raise UnsupportedFormatError(f"a commit is exact in a way this version does not know: {value!r}")
    return value


def _errors(value: object) -> tuple[tuple[str, tuple[tuple[str, float], ...]], ...]:
    what = "a commit's errors"
    return tuple((name, metric_pairs(sums, what)) for name, sums in as_pairs(value, what))


def _extensions(value: object) -> tuple[Extension, ...]:
    what = "an extension of a commit"
    found = []
    for item in as_list(value, "a commit's extensions"):
        name, required, content = as_list(item, what, 3)
        found.append((as_text(name, what), as_bool(required, what), content))
        if required:
            raise UnsupportedFormatError(
                f"a commit has {name!r}, which this version has to know and does not",
                hint="a newer mvcs wrote it; upgrade and try again",
            )
    if len({name for name, _, _ in found}) != len(found):
        raise CorruptionError("a commit names an extension twice")
    return tuple(found)


def _parents(value: object) -> tuple[ObjectId, ...]:
    named = as_list(value, "a commit's parents")
    if len(named) > MAX_PARENTS:
        raise CorruptionError(f"a commit has {len(named)} parents, more than {MAX_PARENTS}")
    parents = tuple(map(as_id, named))
    if len(set(parents)) != len(parents):
        raise CorruptionError("a commit names a parent twice")
    return parents


PARSERS: Final[Mapping[str, Callable[[object], object]]] = {
    "tree": as_id,
    "parents": _parents,
    "author": lambda value: as_text(value, "a commit's author"),
    "time": _time,
    "message": lambda value: as_text(value, "a commit's message"),
    "step": _step,
    "metrics": lambda value: metric_pairs(value, "a commit's metrics"),
    "exactness": _exactness,
    "lineage_exact": lambda value: None if value is None else as_bool(value, "a commit's lineage_exact"),
    "restored_from": _optional_id,
    "quantized_against": _optional_id,
    "quantizer": lambda value: None if value is None else as_pairs(value, "a commit's quantizer"),
    "errors": _errors,
    "degradation": lambda value: None if value is None else as_float(value, "a commit's degradation"),
    "provenance": lambda value: as_pairs(value, "a commit's provenance"),
    "extensions": _extensions,
}
