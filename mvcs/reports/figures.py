"""Bytes, ratios, shares and names of stores as people read them, on a terminal and in what is logged."""

import shlex

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


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
