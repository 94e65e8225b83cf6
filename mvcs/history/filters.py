"""Which commits are wanted, by time, author and message, and dates as people type them.

Dates are as `2026-01-31`, `2026-01-31 18:00`, `2 hours ago`, `yesterday`.
"""

import calendar
import datetime as dt
import re
from dataclasses import dataclass

from mvcs.errors import UsageError
from mvcs.objects import Commit

_START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TICK = dt.timedelta(microseconds=1)
When = str | dt.datetime
"""A moment, or a date as a person types it."""
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
class CommitFilter:
    """What a commit has to be like.

    Attributes:
        since: made at this time or later, in microseconds since 1970-01-01 UTC.
        until: made at this time or earlier.
        author: found in its author.
        message: found in its message.
    """

    since: int | None = None
    until: int | None = None
    author: re.Pattern[str] | None = None
    message: re.Pattern[str] | None = None

    @classmethod
    def of(
        cls,
        since: When | None = None,
        until: When | None = None,
        author: str | None = None,
        message: str | None = None,
        *,
        ignore_case: bool = False,
    ) -> "CommitFilter":
        """Read what a person typed.

        Args:
            since: made then or later; a day begins at midnight.
            until: made then or earlier; a day ends at midnight.
            author: a regular expression.
            message: a regular expression; `^` and `$` match at every line.
            ignore_case: whether upper and lower case are alike.

        Raises:
            UsageError: a date or an expression cannot be read.
        """
        now = dt.datetime.now().astimezone()
        return cls(
            None if since is None else _microseconds(_span(since, now).first),
            None if until is None else _microseconds(_span(until, now).last),
            None if author is None else _pattern(author, ignore_case=ignore_case),
            None if message is None else _pattern(message, ignore_case=ignore_case),
        )

    def takes(self, commit: Commit) -> bool:
        """Tell whether a commit is like that."""
        return (
            (self.since is None or commit.time >= self.since)
            and (self.until is None or commit.time <= self.until)
            and (self.author is None or self.author.search(commit.author) is not None)
            and (self.message is None or self.message.search(commit.message) is not None)
        )


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


def _span(when: When, now: dt.datetime) -> Span:
    if isinstance(when, str):
        return Span.parse(when, now)
    moment = when.astimezone() if when.tzinfo is None else when
    return Span(moment, moment)


def _microseconds(moment: dt.datetime) -> int:
    return (moment - _START) // _TICK


def _pattern(text: str, *, ignore_case: bool) -> re.Pattern[str]:
    try:
        return re.compile(text, re.MULTILINE | (re.IGNORECASE if ignore_case else 0))
    except re.error as error:
        raise UsageError(
            f"'{text}' is no regular expression: {error.msg}", hint=r"write \( for a parenthesis itself"
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
