"""Objects of Python's and numpy's that a state may hold: taken apart into a kind and parts, and made again.

`docs/format/files.md` lists the kinds. Making an object imports nothing, and calls only what stands here.
"""

import io
import pathlib
import sys
from argparse import Namespace
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, EnumType
from fractions import Fraction
from functools import partial
from operator import attrgetter
from random import Random
from re import fullmatch
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy import random as draws

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import MAX_ALIKE, as_shape

_PRIMITIVES = (type(None), bool, int, float, complex, str, bytes)
_CONTAINERS = (dict, list, tuple, set, frozenset, deque, Counter, OrderedDict)
_FACTORIES: dict[str | None, Any] = {kind.__name__: kind for kind in (*_PRIMITIVES[1:], *_CONTAINERS)}
_FACTORIES[None] = None
_MOST_BITS, _MOST_POOL = 4096, 64  # of what takes the square of them to work with
_WORDS = 625  # of the state of a Random
_POSITIONS = {"pos": 624, "buffer_pos": 4}  # in arrays, which numpy does not compare them with


def object_parts(value: Any) -> tuple[object, ...] | None:  # noqa: ANN401 - any object
    """Return the kind of an object, a text, and its parts behind it; None where it has no kind.

    Raises:
        ValueError: this one cannot be made again; the message says what it is.
    """
    kind = type(value)
    if isinstance(value, Enum):
        name = f"{kind.__module__}:{kind.__qualname__}"
        if _member(name, value.name, None) is not value:
            raise ValueError(f"'{value}', which cannot be found as a member of '{name}',")
        return "Enum", name, value.name, value.value
    if isinstance(value, np.generic) or kind is np.ndarray:
        if value.dtype.kind not in "USmM":
            return None
        if kind in (np.str_, np.bytes_) and value[-1:] in ("\0", b"\0"):
            raise ValueError(f"{value!r}, of which numpy drops the zeros at the end,")
        little = np.asarray(value, value.dtype.newbyteorder("<"))
        return "array", little.dtype.str, little.tobytes(), list(value.shape) if kind is np.ndarray else None
    return (kind.__name__, *_KINDS[kind][0](value)) if kind in _KINDS else None


def make_object(kind: object = None, *parts: Any) -> object:  # noqa: ANN401 - values of a state
    """Return the object of a kind with such parts.

    Raises:
        CorruptionError: no such object has these parts.
        UnsupportedFormatError: the kind is unknown.
    """
    if not isinstance(kind, str) or kind not in _MAKERS:
        raise UnsupportedFormatError(f"a structure holds an object of the unknown kind '{kind}'")
    try:
        return _MAKERS[kind](*parts)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # What is not found may be an integer that Python refuses to write.
        said = "a part is unknown" if isinstance(error, LookupError) else error
        raise CorruptionError(f"a structure's object of the kind '{kind}' is none: {said}") from error


def set_generator(saved: Any, here: object) -> bool:  # noqa: ANN401 - whatever a state holds
    """Give a generator of random numbers, `here`, the state of a saved one; tell whether they are alike."""
    if isinstance(here, draws.Generator) and isinstance(saved, draws.Generator):
        return set_generator(saved.bit_generator, here.bit_generator)
    alike = type(saved) is type(here) and isinstance(here, Random | draws.RandomState | draws.BitGenerator)
    if alike:
        here.__setstate__(saved.__getstate__())  # type: ignore[attr-defined]  # as pickle does
    return alike


def check_positions(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a generator of numpy's, whose positions lie in its arrays.

    Raises:
        CorruptionError: one does not: numpy would read memory of others.
    """
    for found in (state, state["state"]):
        for name, most in _POSITIONS.items():
            if isinstance(found, dict) and not 0 <= found.get(name, 0) <= most:
                raise CorruptionError(f"the '{name}' of a generator of random numbers is not in its array")
    return state


def _factory(value: defaultdict[Any, Any]) -> str | None:
    name = getattr(value.default_factory, "__name__", None)
    if _FACTORIES.get(name) is not value.default_factory:
        raise ValueError(f"a defaultdict of {value.default_factory!r:.80}, other than a dict made of it,")
    return name


def _items(value: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    if getattr(value, "__dict__", None):
        raise ValueError(f"a '{type(value).__name__}' with attributes and such keys")
    _check_keys(list(value))
    return list(value), list(value.values())


def _check_keys(keys: list[Any]) -> None:
    for key in keys:
        if not _is_key(key):
            raise ValueError(f"a key of type '{type(key).__name__}'")
    if any(count > MAX_ALIKE for count in Counter(map(hash, keys)).values()):
        raise ValueError(f"a mapping with more than {MAX_ALIKE} keys of one hash")


def _is_key(key: Any) -> bool:  # noqa: ANN401 - of a mapping
    if type(key) in (tuple, frozenset):
        return all(map(_is_key, key))
    return isinstance(key, Enum | pathlib.PurePath) or type(key) in _PRIMITIVES


def _only(kind: type, value: Any) -> Any:  # noqa: ANN401 - a part
    # A range takes the place of a list and never ends; a list that of a mapping, whose keys are not checked.
    if type(value) is not kind:
        raise ValueError(f"a part is no '{kind.__name__}'")
    return value


def _mapping(kind: type[dict[Any, Any]], keys: list[Any], values: list[Any]) -> dict[Any, Any]:
    _check_keys(_only(list, keys))
    made = kind()
    for key, value in zip(keys, _only(list, values), strict=True):
        made[key] = value
    return made


def _array(name: str, content: bytes, shape: list[int] | None) -> object:
    if not fullmatch(r"<U\d{1,8}|\|S\d{1,8}|<[mM]8(\[\d{0,9}([YMWDhms]|[munpfa]s)\])?", name):
        raise ValueError(f"its type is '{name}'")
    found = np.ndarray(as_shape(shape or []), name, bytearray(_only(bytes, content)))
    if found.nbytes != len(content) or found.size > max(len(content), 1):
        raise ValueError("it has another number of bytes")
    if "U" in name and any(np.frombuffer(content, "<u4") > sys.maxunicode):
        raise ValueError("it is no text")
    return found[()] if shape is None else found


def _text_of_time(value: Any) -> tuple[str, int]:  # noqa: ANN401 - of either type
    text = value.isoformat()
    if repr(_time(type(value), text, value.fold)) != repr(value):
        raise ValueError(f"a {type(value).__name__} in the zone {value.tzinfo!r}, other than one in UTC,")
    return text, value.fold


def _time(kind: Any, text: str, fold: int) -> object:  # noqa: ANN401 - either type
    return kind.fromisoformat(text).replace(fold=fold)


def _lowest(numerator: int, denominator: int) -> tuple[int, int]:
    if max(numerator.bit_length(), denominator.bit_length()) > _MOST_BITS:
        raise ValueError(f"a Fraction of numbers of more than {_MOST_BITS} bits")
    return numerator, denominator


def _namespace(kind: Callable[[], Any], attributes: dict[str, Any]) -> object:
    made = kind()
    vars(made).update(**attributes)
    return made


def _file(content: bytes, position: int) -> io.BytesIO:
    made = io.BytesIO(content)
    made.seek(position)
    return made


def _words(value: Random) -> tuple[Any, ...]:
    version, words, gauss = value.getstate()
    return version, np.array(words, np.uint32), gauss


def _random(version: int, words: Any, gauss: float | None) -> Random:  # noqa: ANN401 - an array
    if len(words) != _WORDS:
        raise ValueError(f"it has {len(words)} words")
    made = Random()  # noqa: S311 - a user's
    made.setstate((version, tuple(map(int, words)), gauss))
    return made


def _seed(state: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the state of a seed sequence, which takes time to work with."""
    if state and not 0 < state["pool_size"] <= _MOST_POOL:
        raise ValueError(f"a seed sequence with a pool of more than {_MOST_POOL}")
    if state and not _is_seed([state["entropy"], state["spawn_key"]]):
        raise ValueError(f"a seed of other than integers of at most {_MOST_BITS} bits")
    return state


def _is_seed(value: Any) -> bool:  # noqa: ANN401 - whatever numpy takes
    if isinstance(value, list | tuple):
        return all(map(_is_seed, value))
    if isinstance(value, np.ndarray):
        return value.size <= _MOST_BITS
    return value is None or (isinstance(value, int) and value.bit_length() <= _MOST_BITS)


def _bits(kind: Any, state: dict[str, Any], seed: dict[str, Any] | None) -> Any:  # noqa: ANN401 - numpy's
    made = kind(0)
    made.__setstate__((check_positions(state), seed and draws.SeedSequence(**(_seed(seed) or {}))))
    return made


def _legacy(state: dict[str, Any]) -> draws.RandomState:
    made = draws.RandomState(_BITS[state["bit_generator"]](0))
    made.set_state(check_positions(state))
    return made


def _member(name: str, member: str, value: object) -> object:
    """Return a member of an enum whose class is loaded, else its value; no code of that class is run."""
    module, _, names = name.partition(":")
    found: object = sys.modules.get(module)
    for part in names.split("."):
        found = vars(found).get(part) if isinstance(found, ModuleType | type) else None
    return vars(found)["_member_map_"].get(member, value) if isinstance(found, EnumType) else value


_BITS = {kind: getattr(draws, kind) for kind in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")}
_KINDS: dict[type, tuple[Callable[[Any], tuple[Any, ...]], Callable[..., Any]]] = {
    deque: (
        lambda value: (list(value), value.maxlen),
        lambda items, most: deque(_only(list, items), most),
    ),
    defaultdict: (
        lambda value: (dict(value), _factory(value)),
        lambda items, name: defaultdict(_FACTORIES[name], _only(dict, items)),
    ),
    date: (lambda value: (value.isoformat(),), date.fromisoformat),
    timedelta: (attrgetter("days", "seconds", "microseconds"), timedelta),
    Decimal: (lambda value: (str(value),), Decimal),
    Fraction: (lambda value: _lowest(*value.as_integer_ratio()), lambda *ratio: Fraction(*_lowest(*ratio))),
    io.BytesIO: (lambda value: (value.getvalue(), value.tell()), _file),
    Random: (_words, _random),
    draws.RandomState: (lambda value: (value.get_state(legacy=False),), _legacy),
    draws.Generator: (lambda value: (value.bit_generator,), draws.Generator),
}
for _kind in _BITS.values():
    _KINDS[_kind] = (
        lambda value: (value.state, _seed(getattr(value.seed_seq, "state", None))),
        partial(_bits, _kind),
    )
for _kind in (range, slice):
    _KINDS[_kind] = (attrgetter("start", "stop", "step"), _kind)
for _kind in (datetime, time):
    _KINDS[_kind] = (_text_of_time, partial(_time, _kind))
for _kind in (dict, Counter, OrderedDict):
    _KINDS[_kind] = (_items, partial(_mapping, _kind))
for _kind in (Namespace, SimpleNamespace):
    _KINDS[_kind] = (lambda value: (dict(vars(value)),), partial(_namespace, _kind))
for _kind in (pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path())):
    _KINDS[_kind] = (lambda value: (str(value),), _kind)
_MAKERS: dict[object, Callable[..., Any]] = {
    "Enum": _member,
    "array": _array,
    "PosixPath": pathlib.PurePosixPath,
    "WindowsPath": pathlib.PureWindowsPath,
    **{kind.__name__: make for kind, (_, make) in _KINDS.items()},
}
