"""What verbs answer that name commits, or give them to other stores."""

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from mvcs.reports.checkouts import CheckoutReport
from mvcs.reports.report import Report


@dataclass(frozen=True)
class BranchInfo(Report):
    """A branch and where it stands; what is None was not asked for, or is not there.

    Attributes:
        name: its name; of a remote's branch, "origin/main".
        commit: its newest commit.
        current: whether HEAD is on it.
        remote: whether it is a remote's, as last seen.
        message: what that commit says.
        upstream: what it follows.
        ahead: how many commits it has that its upstream lacks.
        behind: how many its upstream has that it lacks.
        step: of that commit, where it was asked for and has one.
    """

    name: str
    commit: str
    current: bool
    remote: bool = False
    message: str | None = None
    upstream: str | None = None
    ahead: int | None = None
    behind: int | None = None
    step: int | None = None


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
        commit: where the branch went; None where it was deleted, or the record is damaged.
        time: when; None where the record is damaged.
        author: who changed it.
        action: what was done.
        damage: what is wrong with the record; None where it is whole.
    """

    number: int
    commit: str | None
    time: dt.datetime | None
    author: str
    action: str
    damage: str | None = None


@dataclass(frozen=True)
class RefUpdate(Report):
    """One ref that moved in another place; its kind is "branch" or "tag"."""

    name: str
    old: str | None
    new: str | None
    forced: bool = False
    kind: str = "branch"


@dataclass(frozen=True)
class PushReport(Report):
    """What a push did; `upstreams` names the branches that follow one of the remote from now on."""

    remote: str
    updated: list[RefUpdate]
    packs_sent: int
    bytes_sent: int
    packs_skipped: int
    packs_mended: int
    upstreams: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RemoteBranch(Report):
    """A branch of a remote: its newest commit there, and how that compares with what was last seen."""

    name: str
    commit: str
    state: str


@dataclass(frozen=True)
class RemoteInfo(Report):
    """What is known of a remote.

    Attributes:
        name: what it is called here.
        url: where it lies.
        options: what opening it takes.
        default_branch: where a clone of it stands; None where it was not asked.
        branches: those it has.
        followers: which branches here follow one of them.
    """

    name: str
    url: str
    options: dict[str, Any]
    default_branch: str | None
    branches: list[RemoteBranch]
    followers: dict[str, str]


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
