"""Numbers as people read them: bytes, ratios, shares, metrics."""

from mvcs.reports import as_ratio as ratio
from mvcs.reports import as_share as share
from mvcs.reports import as_size as size

__all__ = ["count", "number", "ratio", "seconds", "share", "size"]


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


def seconds(amount: float) -> str:
    """Return a length of time with two significant places.

    >>> seconds(0.0123), seconds(1.26), seconds(75), seconds(0)
    ('0.012 s', '1.3 s', '75 s', '0 s')
    """
    return f"{amount:.2g} s" if amount < 9.95 else f"{amount:,.0f} s"
