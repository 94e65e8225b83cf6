"""What fsck answers."""

import datetime as dt
from dataclasses import dataclass, field

from mvcs.reports.report import Report

FULL, PACKS, QUICK = "full", "packs", "quick"


@dataclass(frozen=True)
class Problem(Report):
    """One thing fsck found wrong.

    Attributes:
        kind: what kind of thing it is.
        subject: which one; the path of a pack, with all that cannot be read on its account.
        message: what is wrong with it.
        hint: what to do next.
        objects: ids of the objects that cannot be read because of it, in hexadecimal.
    """

    kind: str
    subject: str
    message: str
    hint: str | None = None
    objects: list[str] = field(default_factory=list)


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
class SampleReport(Report):
    """Packs of which a check took a part in turn.

    Attributes:
        packs: how many were read.
        bytes: of these.
        done: the part of all bytes that this round has seen, from 0 to 1.
        begun: when this round began.
        since: since when every pack was read in turn; None before the first round has ended.
    """

    packs: int
    bytes: int
    done: float
    begun: dt.datetime
    since: dt.datetime | None


@dataclass(frozen=True)
class FsckReport(Report):
    """What fsck found.

    Attributes:
        ok: whether nothing is wrong.
        objects: how many there are, as footers say; of a sample those in it.
        bytes: of the packs that hold these.
        problems: what is wrong.
        notes: what is worth knowing but not wrong.
        looks: looks of this clone before this one.
        sample: what it read where it read a part.
        level: "full"; "packs" where bytes were compared with checksums and nothing was decoded; "quick" where
            no contents were read.
    """

    ok: bool
    objects: int
    bytes: int
    problems: list[Problem]
    notes: list[str] = field(default_factory=list)
    looks: list[LookReport] = field(default_factory=list)
    sample: SampleReport | None = None
    level: str = FULL
