"""What verbs answer that name commits, or give them to other stores."""

import datetime as dt
from dataclasses import dataclass

from mvcs.repository.reports import CheckoutReport, Report


@dataclass(frozen=True)
class BranchInfo(Report):
    """A branch and where it stands."""

    name: str
    commit: str
    current: bool


@dataclass(frozen=True)
class TagInfo(Report):
    """A tag and what it names."""

    name: str
    commit: str
    message: str
    author: str
    time: dt.datetime


@dataclass(frozen=True)
class NoteInfo(Report):
    """Metrics added to a commit later."""

    author: str
    time: dt.datetime
    metrics: dict[str, float]


@dataclass(frozen=True)
class ReflogEntry(Report):
    """One change of a branch.

    Attributes:
        number: how many changes came after it: `main@{2}` names the commit of number 2 of main.
        commit: where the branch went; None where it was deleted.
        time: when.
        author: who changed it.
        action: what was done.
    """

    number: int
    commit: str | None
    time: dt.datetime
    author: str
    action: str


@dataclass(frozen=True)
class RefUpdate(Report):
    """One ref that moved in another place."""

    name: str
    old: str | None
    new: str | None
    forced: bool = False


@dataclass(frozen=True)
class PushReport(Report):
    """What a push did."""

    remote: str
    updated: list[RefUpdate]
    packs_sent: int
    bytes_sent: int
    packs_skipped: int
    packs_mended: int


@dataclass(frozen=True)
class FetchReport(Report):
    """What a fetch did."""

    remote: str
    updated: list[RefUpdate]
    packs_received: int
    bytes_received: int
    packs_mended: int


@dataclass(frozen=True)
class PullReport(Report):
    """A fetch and the checkout after it."""

    fetch: FetchReport
    checkout: CheckoutReport | None
    fast_forward: bool
