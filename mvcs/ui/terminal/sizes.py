"""Numbers as people read them: bytes, ratios, shares, metrics."""

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def size(count: int) -> str:
    """Return a number of bytes with at most two significant places after rounding to a unit of 1000s.

    >>> size(0), size(999), size(1234), size(56_000_000)
    ('0 B', '999 B', '1.2 kB', '56 MB')
    """
    value, unit = float(count), 0
    while value >= 999.5 and unit + 1 < len(_UNITS):
        value, unit = value / 1000, unit + 1
    digits = 1 if unit and value < 9.95 else 0
    return f"{value:.{digits}f} {_UNITS[unit]}"


def ratio(raw: int, stored: int) -> str:
    """Return how many times smaller `stored` is than `raw`; "-" when that says nothing.

    >>> ratio(56_000_000, 1_200_000), ratio(3, 2), ratio(0, 0)
    ('47x', '1.5x', '-')
    """
    if raw <= 0 or stored <= 0:
        return "-"
    value = raw / stored
    return f"{value:,.0f}x" if value >= 9.95 else f"{value:.1f}x"


def share(fraction: float) -> str:
    """Return a fraction as percent, with room for the very small; from a hundred times on as times.

    >>> share(0.5), share(0.0004), share(0), share(1.0), share(166.6), share(1e9)
    ('50 %', '0.04 %', '0 %', '100 %', '167x', '1e+09x')
    """
    percent = fraction * 100
    if abs(percent) >= 9_999.5:
        return f"{fraction:,.0f}x" if abs(fraction) < 99_999.5 else f"{fraction:.3g}x"
    if not percent or percent >= 9.95:
        return f"{percent:.0f} %"
    return f"{percent:.1f} %" if percent >= 0.95 else f"{percent:.2g} %"


def number(value: float) -> str:
    """Return a metric with six significant digits; "nan", "inf" and "-inf" as such.

    >>> number(2.1), number(1e-9), number(float("nan"))
    ('2.1', '1e-09', 'nan')
    """
    return f"{value:.6g}"


def count(amount: int, noun: str, plural: str | None = None) -> str:
    """Return an amount with its noun.

    >>> count(1, "pack"), count(2, "pack"), count(0, "branch", "branches")
    ('1 pack', '2 packs', '0 branches')
    """
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"
