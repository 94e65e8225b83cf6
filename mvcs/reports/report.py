"""What all reports share: their form as JSON, and times, bytes, ratios and shares as people read them."""

import dataclasses
import datetime as dt
import math
import pathlib
import shlex
from collections.abc import Mapping
from typing import Any

_LONG_BITS = 4096  # of an integer that Python refuses, or takes long, to write in decimal
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


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


def as_size(count: int) -> str:
    """Return a number of bytes with at most two significant places after rounding to a unit of 1000s.

    >>> as_size(0), as_size(999), as_size(1234), as_size(56_000_000)
    ('0 B', '999 B', '1.2 kB', '56 MB')
    """
    value, unit = float(count), 0
    while value >= 999.5 and unit + 1 < len(_UNITS):
        value, unit = value / 1000, unit + 1
    digits = 1 if unit and value < 9.95 else 0
    return f"{value:.{digits}f} {_UNITS[unit]}"


def as_ratio(raw: int, stored: int) -> str:
    """Return how many times smaller `stored` is than `raw`; "-" when that says nothing.

    >>> as_ratio(56_000_000, 1_200_000), as_ratio(3, 2), as_ratio(0, 0)
    ('47x', '1.5x', '-')
    """
    if raw <= 0 or stored <= 0:
        return "-"
    value = raw / stored
    return f"{value:,.0f}x" if value >= 9.95 else f"{value:.1f}x"


def as_share(fraction: float) -> str:
    """Return a fraction as percent, with room for the very small; from a hundred times on as times.

    >>> as_share(0.5), as_share(0.0004), as_share(0), as_share(1.0), as_share(166.6), as_share(1e9)
    ('50 %', '0.04 %', '0 %', '100 %', '167x', '1e+09x')
    """
    percent = fraction * 100
    if abs(percent) >= 9_999.5:
        return f"{fraction:,.0f}x" if abs(fraction) < 99_999.5 else f"{fraction:.3g}x"
    if not percent or percent >= 9.95:
        return f"{percent:.0f} %"
    return f"{percent:.1f} %" if percent >= 0.95 else f"{percent:.2g} %"


def of_remote(name: str | None) -> str:
    """Return the option that names a remote, with a space before it; nothing for this store.

    >>> of_remote("backup"), of_remote(None)
    (' --remote backup', '')
    """
    return "" if name is None else f" --remote {shlex.quote(name)}"
