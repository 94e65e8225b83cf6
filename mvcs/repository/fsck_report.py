"""What fsck answers."""

import datetime as dt
from dataclasses import dataclass, field

from mvcs.repository.reports import Report


@dataclass(frozen=True)
class Problem(Report):
    """One thing fsck found wrong."""

    kind: str
    subject: str
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class LookReport(Report):
    """Packs that no commit and no fsck of this clone has looked at since a time; at none where it is None.

    What was written or fetched later was looked at then.
    """

    folder: str
    packs: int
    bytes: int
    since: dt.datetime | None


@dataclass(frozen=True)
class FsckReport(Report):
    """What fsck found; `looks` are those before it."""

    ok: bool
    objects: int
    bytes: int
    problems: list[Problem]
    notes: list[str] = field(default_factory=list)
    looks: list[LookReport] = field(default_factory=list)
