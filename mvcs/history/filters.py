"""Which commits are wanted: by time, author and message."""

import datetime as dt
import re
from dataclasses import dataclass

from mvcs.errors import UsageError
from mvcs.history.dates import Span
from mvcs.objects import Commit

_START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TICK = dt.timedelta(microseconds=1)

When = str | dt.datetime
"""A moment, or a date as a person types it."""


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
