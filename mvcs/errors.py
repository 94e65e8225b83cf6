"""Everything mvcs raises on purpose, grouped by what a handler would do about it.

    MvcsError                   base class: catch it to catch them all     exit code 1
    ├── UsageError              the call itself is wrong                              2
    ├── StateError              an object in the state cannot be stored               1
    ├── FileFormatError         a file is not a checkpoint that mvcs reads            1
    │   └── UnsafeFileError     reading it would run code                             1
    ├── EvaluationError         the user's evaluation failed                          1
    ├── LimitError              larger than what is allowed                           1
    ├── NothingToCommitError    a commit would say nothing new                        1
    ├── NotFoundError           no such repository, revision, path or object          3
    ├── ConflictError           somebody else was there first; nothing was lost       4
    ├── CorruptionError         bytes do not match what names them                    5
    │   └── LostError           what a commit needs is nowhere; a NotFoundError too       5
    ├── UnsupportedFormatError  written by a newer mvcs                               6
    └── StorageError            disk or network refused                               7

Messages are lower case without a full stop: what failed, on what. The hint says what to do next.
What is secret in an address is hidden here, so that no place that raises can forget it.
"""

import math
import operator
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import SupportsFloat, SupportsIndex

from mvcs.addresses import without_secrets


def some_of(items: Sequence[str], most: int, joint: str = ", ") -> str:
    """Return the first of several things as a message names them, and how many more there are."""
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return joint.join(items[:most]) + more


def meant(word: str, known: Collection[str], nearness: float = 0.6) -> str:
    """Return `did you mean 'WORD'?` for the known word that was meant; nothing where none is near enough.

    Large and small letters are the same.

    Args:
        word: what was given.
        known: what there is.
        nearness: how alike two words are at least, from 0 to 1.
    """
    from difflib import get_close_matches

    folded, names = word.casefold(), {name.casefold(): name for name in known}
    near = [name for name in names if _swapped(folded, name)]
    near = near or get_close_matches(folded, names, n=1, cutoff=nearness)
    return f"did you mean '{names[near[0]]}'?" if near else ""


def not_found(message: str, word: str, known: Collection[str], otherwise: str) -> "NotFoundError":
    """Return the error for a name that is none of those known; its hint begins with what was meant."""
    return NotFoundError(message, hint=f"{meant(word, known)} {otherwise}".lstrip())


def _swapped(word: str, other: str) -> bool:
    """Tell whether two words differ by two neighbours that changed places, as in short ones they do."""
    places = [place for place, (one, two) in enumerate(zip(word, other, strict=False)) if one != two]
    if len(word) != len(other) or len(places) != 2 or places[0] + 1 != places[1]:
        return False
    first, second = places
    return word[first] + word[second] == other[second] + other[first]


def no_option(name: str, known: Collection[str]) -> TypeError:
    """Return the error for a keyword that nothing takes, with the one that was meant where one is near."""
    return TypeError("; ".join(filter(None, (f"there is no option '{name}'", meant(name, known)))))


def real(name: str, value: object, hint: str) -> float:
    """Return an argument that has to be a number, and not NaN.

    Raises:
        UsageError: it is text, a truth value or anything else.
    """
    found = number(name, value, hint)
    if math.isnan(found):
        raise UsageError(f"{name} cannot be {value!r}", hint=hint)
    return found


def number(name: str, value: object, hint: str) -> float:
    """Return an argument that has to be a number; NaN is one, and an array or tensor of one element too.

    Raises:
        UsageError: it is text, a truth value or anything else.
    """
    with suppress(TypeError, ValueError, RuntimeError, OverflowError):
        single = value.item() if hasattr(value, "item") else value
        if isinstance(single, SupportsFloat) and not isinstance(single, bool):
            return float(single)
    raise UsageError(f"{name} cannot be {value!r}", hint=hint)


def text(name: str, value: object) -> None:
    """Refuse an argument that is no text.

    Raises:
        UsageError: it is anything else.
    """
    if not isinstance(value, str):
        raise UsageError(f"{name} cannot be {value!r}", hint="give text")


def whole(name: str, value: object, hint: str, *, least: int = 1) -> int:
    """Return an argument that has to be a whole number of at least `least`.

    Raises:
        UsageError: it is smaller, has a fraction, or is no number.
    """
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        with suppress(TypeError):  # a tensor is asked for its index, and may have none
            found = operator.index(value)
            if found >= least:
                return found
    raise UsageError(f"{name} cannot be {value!r}", hint=hint)


def one_of(name: str, value: object, words: Collection[str]) -> None:
    """Refuse an argument that is none of some words.

    Raises:
        UsageError: it is another word, or no text.
    """
    if not (isinstance(value, str) and value in words):
        raise UsageError(f"{name} cannot be {value!r}", hint=f"use {' or '.join(map(repr, words))}")


class MvcsError(Exception):
    """Base of every error mvcs raises on purpose."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        """Keep the message and the optional hint apart, so that a caller can render them apart."""
        self.message = without_secrets(message)
        self.hint = None if hint is None else without_secrets(hint)
        super().__init__(self.message)
        if self.hint is not None:
            self.add_note(f"hint: {self.hint}")  # a traceback shows notes, and so does a notebook


class UsageError(MvcsError, ValueError):
    """The call itself is wrong: an argument out of range, options that exclude each other."""

    exit_code = 2


class StateError(MvcsError, TypeError):
    """A state holds an object that cannot be stored; the message names its path."""


class FileFormatError(MvcsError, ValueError):
    """A file is not a checkpoint of the format its name claims."""


class UnsafeFileError(FileFormatError):
    """A file asks to run code while it is read; it was not run."""


class EvaluationError(MvcsError):
    """The user's evaluation failed, or did what an evaluation may not do; the run is as it was."""


class LimitError(MvcsError):
    """Something is larger than what is allowed, or than this machine could hold; nothing was begun."""


class NothingToCommitError(MvcsError):
    """A commit would say nothing new, and was asked not to be made then; nothing was."""


class NotFoundError(MvcsError, LookupError):
    """No such repository, revision, path or object."""

    exit_code = 3


class ConflictError(MvcsError):
    """Somebody else changed the same thing first, or work would be overwritten; nothing was lost."""

    exit_code = 4


class CorruptionError(MvcsError):
    """Stored bytes do not match the id or the checksum that names them."""

    exit_code = 5


class LostError(NotFoundError, CorruptionError):
    """What a commit needs is nowhere in the store, and was not dropped on purpose."""

    exit_code = CorruptionError.exit_code


class UnsupportedFormatError(MvcsError):
    """Data written in a format, or with a feature, that this version does not know."""

    exit_code = 6


class StorageError(MvcsError, OSError):
    """The disk or the network refused an operation."""

    exit_code = 7


def denied(error: BaseException | None) -> PermissionError | None:
    """Return the error of the system behind another where permissions are the reason."""
    while error is not None and not isinstance(error, PermissionError):
        error = error.__cause__
    return error


def raise_if_denied(error: BaseException) -> None:
    """Raise an error again that comes of permissions: whoever may not read a file finds no damage in it."""
    if denied(error):
        raise error
