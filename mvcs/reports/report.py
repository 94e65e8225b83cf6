"""What all reports share: their form as JSON, and time as they give it."""

import dataclasses
import datetime as dt
import math
import pathlib
from collections.abc import Mapping
from typing import Any

_LONG_BITS = 4096  # of an integer that Python refuses, or takes long, to write in decimal


class Report:
    """Gives every report the same JSON form: its fields by name."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `json.dumps` takes; NaN, infinities and long integers become text."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every report is a dataclass
        return {item.name: as_json(getattr(self, item.name)) for item in fields}


def as_json(value: Any) -> Any:  # noqa: ANN401 - one return for each kind of field
    """Return `value` as JSON has it."""
    if isinstance(value, Report):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and value.bit_length() > _LONG_BITS:
        return hex(value)
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, pathlib.Path) else value


def as_utc(microseconds: int) -> dt.datetime:
    """Return a time stored in objects and records as a datetime."""
    start = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    try:
        return start + dt.timedelta(microseconds=microseconds)
    except OverflowError:
        return start
