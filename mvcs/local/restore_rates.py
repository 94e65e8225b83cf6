"""How quick this machine is with this store: measured once, and remembered with the day."""

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass

from mvcs.delta import Encoding
from mvcs.local.records import LocalRecords
from mvcs.store import RestoreRates

SUBJECT = "rates"
_NUMBERS = ("request_seconds", "read_bytes", "range_seconds", "object_seconds", "restored_bytes")


@dataclass(frozen=True)
class MeasuredRates:
    """Rates, and when they were measured.

    Attributes:
        rates: of this machine and one store.
        time: microseconds since 1970-01-01 UTC.
    """

    rates: RestoreRates
    time: int


def known_rates(local: pathlib.Path | None, store: str) -> MeasuredRates | None:
    """Return what was measured for the store at an address; None where nothing whole is remembered."""
    record = LocalRecords(local).read(SUBJECT).get(store)
    try:
        return _parsed(record) if isinstance(record, dict) else None
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _parsed(record: Mapping[str, object]) -> MeasuredRates | None:
    numbers = [_positive(record[name]) for name in _NUMBERS]
    decoded = record["decoded_bytes"]
    if not isinstance(decoded, dict) or not decoded:
        return None
    rates = {Encoding[str(name).upper()]: _positive(value) for name, value in decoded.items()}
    request, read, each_range, each_object, restored = numbers
    time = record["time"]
    if not isinstance(time, int) or not 0 <= time < 1 << 62:
        return None
    return MeasuredRates(RestoreRates(request, read, each_range, each_object, rates, restored), time)


def _positive(value: object) -> float:
    if not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ValueError("a rate is a positive number")
    return float(value)


def remember_rates(local: pathlib.Path | None, store: str, found: MeasuredRates) -> None:
    """Remember what was measured; a bare store remembers nothing.

    Raises:
        StorageError: it cannot be written.
    """
    rates = found.rates
    with LocalRecords(local).change(SUBJECT, durable=False) as record:
        record[store] = {
            **{name: getattr(rates, name) for name in _NUMBERS},
            "decoded_bytes": {encoding.name.lower(): rate for encoding, rate in rates.decoded_bytes.items()},
            "time": found.time,
        }
