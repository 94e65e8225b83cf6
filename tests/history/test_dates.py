"""Dates as people type them."""

import datetime as dt

import pytest

from mvcs.errors import UsageError
from mvcs.history.filters import Span

NOW = dt.datetime(2026, 3, 31, 12, 30, tzinfo=dt.UTC).astimezone()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", NOW),
        ("2 hours ago", NOW - dt.timedelta(hours=2)),
        ("2.hours.ago", NOW - dt.timedelta(hours=2)),
        ("90 sec", NOW - dt.timedelta(seconds=90)),
        ("An hour AGO", NOW - dt.timedelta(hours=1)),
        ("last week", NOW - dt.timedelta(days=7)),
        ("1 month ago", NOW.replace(month=2, day=28)),
        ("13 months", NOW.replace(year=2025, month=2, day=28)),
        ("2 years ago", NOW.replace(year=2024)),
        ("2026-01-31T18:00Z", dt.datetime(2026, 1, 31, 18, tzinfo=dt.UTC)),
        ("2026-01-31 18:00:05 +0200", dt.datetime(2026, 1, 31, 16, 0, 5, tzinfo=dt.UTC)),
        ("2026-01-31 18:00", dt.datetime(2026, 1, 31, 18).astimezone()),
        ("@86400", dt.datetime(1970, 1, 2, tzinfo=dt.UTC)),
    ],
)
def test_a_moment_is_read(text, moment):
    assert Span.parse(text, NOW) == Span(moment, moment)


@pytest.mark.parametrize(
    ("text", "day"), [("2026-01-31", (2026, 1, 31)), ("today", (2026, 3, 31)), ("yesterday", (2026, 3, 30))]
)
def test_a_day_is_whole(text, day):
    span = Span.parse(text, NOW)
    assert span.first == dt.datetime(*day).astimezone()
    assert span.last == dt.datetime(*day, 23, 59, 59, 999_999).astimezone()


@pytest.mark.parametrize(
    "text",
    ["", "soon", "2 parsecs ago", "9999999 years ago", "2026-02-30", "@99999999999999", "2 hours hence"],
)
def test_what_is_no_date_is_said(text):
    with pytest.raises(UsageError, match="is no date"):
        Span.parse(text, NOW)
