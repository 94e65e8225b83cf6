"""Dates as people type them: `2026-01-31`, `2026-01-31 18:00`, `2 hours ago`, `yesterday`."""

import calendar
import datetime as dt
import re
from dataclasses import dataclass

from mvcs.errors import UsageError

_LAST = dt.timedelta(microseconds=1)
_DAY = dt.timedelta(days=1)
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604_800}
_SHORT = {"sec": "second", "min": "minute", "hr": "hour"}
_MONTHS = {"month": 1, "year": 12}
_ONE = ("a", "an", "one", "last")
_AGO = re.compile(r"(?P<count>[0-9]{1,9}|a|an|one|last) ?(?P<unit>[a-z]+?)s?")
_EPOCH = re.compile(r"@(-?[0-9]{1,12})")
# What the log prints has a space before its offset.
_OFFSET = re.compile(r" (?=[+-][0-9]{2}:?[0-9]{2}$)")


@dataclass(frozen=True)
class Span:
    """What a date means: one moment, or a whole day.

    Attributes:
        first: its first moment.
        last: its last moment.
    """

    first: dt.datetime
    last: dt.datetime

    @classmethod
    def parse(cls, text: str, now: dt.datetime) -> "Span":
        """Read a date; one without an offset is on this machine's clock.

        Args:
            text: a day or a moment in ISO 8601, `@` and seconds since 1970, `now`, `today`, `yesterday`, or
                how long ago, as `2 hours ago` or `1.week.ago`.
            now: what it is relative to, with an offset.

        Raises:
            UsageError: it is none of these.
        """
        words = " ".join(text.lower().replace(".", " ").split()) if "ago" in text.lower() else text.strip()
        try:
            return _named(words.lower(), now) or _ago(words.lower(), now) or _written(words)
        except (ValueError, OverflowError) as error:
            raise UsageError(
                f"'{text}' is no date",
                hint="dates are as 2026-01-31, '2026-01-31 18:00', '2 hours ago', 'last week' or yesterday",
            ) from error


def _named(words: str, now: dt.datetime) -> Span | None:
    if words == "now":
        return Span(now, now)
    days = {"today": 0, "yesterday": 1}
    return _day(now.date() - days[words] * _DAY) if words in days else None


def _day(date: dt.date) -> Span:
    """Return a day on this machine's clock; some last 23 or 25 hours."""
    first, after = (dt.datetime.combine(day, dt.time()).astimezone() for day in (date, date + _DAY))
    return Span(first, after - _LAST)


def _ago(words: str, now: dt.datetime) -> Span | None:
    """Read how long ago; `2 hours` and `last week` go without the word."""
    match = _AGO.fullmatch(words.removesuffix(" ago"))
    if match is None:
        return None
    count = 1 if match["count"] in _ONE else int(match["count"])
    unit = _SHORT.get(match["unit"], match["unit"])
    if unit in _MONTHS:
        then = _months_before(now, count * _MONTHS[unit])
    elif unit in _SECONDS:
        then = now - dt.timedelta(seconds=count * _SECONDS[unit])
    else:
        raise ValueError(unit)
    return Span(then, then)


def _months_before(now: dt.datetime, count: int) -> dt.datetime:
    """Return the same day some months earlier, or the last one that month has."""
    year, month = divmod(now.year * 12 + now.month - 1 - count, 12)
    if year < 1:
        raise OverflowError(year)
    day = min(now.day, calendar.monthrange(year, month + 1)[1])
    return now.replace(year=year, month=month + 1, day=day)


def _written(text: str) -> Span:
    epoch = _EPOCH.fullmatch(text)
    if epoch is not None:
        moment = dt.datetime.fromtimestamp(int(epoch[1]), dt.UTC)
        return Span(moment, moment)
    text = _OFFSET.sub("", text)
    try:
        return _day(dt.date.fromisoformat(text))
    except ValueError:
        moment = dt.datetime.fromisoformat(text)
    moment = moment.astimezone() if moment.tzinfo is None else moment
    return Span(moment, moment)
