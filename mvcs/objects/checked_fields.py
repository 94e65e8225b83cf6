"""Checked access to decoded values: every helper raises `CorruptionError` naming what it was reading."""

from mvcs.errors import CorruptionError, UsageError
from mvcs.objects.cbor import Value

Pairs = tuple[tuple[str, Value], ...]


class recording:  # noqa: N801 - it reads as a statement, and a generator takes longer than what is in it
    """Turn what a reader says of a value into a refusal to write it.

    Raises:
        UsageError: it would be refused when it is read.
    """

    def __init__(self, what: str, hint: str | None = None) -> None:
        """Say `what` it is in the refusal, and what would help."""
        self._what, self._hint = what, hint

    def __enter__(self) -> None:
        """Begin to read."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Refuse what was refused."""
        if isinstance(error, CorruptionError):
            raise UsageError(f"{self._what} cannot be recorded: {error.message}", hint=self._hint) from error


def as_list(value: object, what: str, length: int | None = None) -> list[Value]:
    """Check that `value` is a list, of `length` items when given."""
    if not isinstance(value, list) or (length is not None and len(value) != length):
        raise CorruptionError(f"{what} is not a list" + (f" of {length}" if length is not None else ""))
    return value


def as_text(value: object, what: str) -> str:
    """Check that `value` is text."""
    if not isinstance(value, str):
        raise CorruptionError(f"{what} is not text")
    return value


def as_bytes(value: object, what: str) -> bytes:
    """Check that `value` is a byte string."""
    if not isinstance(value, bytes):
        raise CorruptionError(f"{what} is not a byte string")
    return value


def as_integer(value: object, what: str, low: int = 0, high: int = 1 << 63) -> int:
    """Check that `value` is an integer with low <= value < high."""
    if type(value) is not int or not low <= value < high:
        raise CorruptionError(f"{what} is not an integer between {low} and {high}")
    return value


def as_bool(value: object, what: str) -> bool:
    """Check that `value` is true or false."""
    if not isinstance(value, bool):
        raise CorruptionError(f"{what} is neither true nor false")
    return value


def as_float(value: object, what: str) -> float:
    """Check that `value` is a float."""
    if not isinstance(value, float):
        raise CorruptionError(f"{what} is not a number")
    return value


def as_pairs(value: object, what: str) -> Pairs:
    """Check that `value` is an array of `[text, value]` pairs with distinct keys."""
    pairs = tuple(
        (as_text(as_list(pair, what, 2)[0], what), as_list(pair, what, 2)[1]) for pair in as_list(value, what)
    )
    if len({key for key, _ in pairs}) != len(pairs):
        raise CorruptionError(f"{what} names a key twice")
    return pairs
