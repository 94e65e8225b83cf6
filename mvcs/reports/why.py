"""What `why` answers: what keeps something in a store, or what gave it up."""

import datetime as dt
from dataclasses import dataclass, field

from mvcs.reports.report import Report

NEEDED, PAST, UNNEEDED = "needed", "past", "unneeded"  # DROPPED, of exact layers, is the fourth


@dataclass(frozen=True)
class WhyStep(Report):
    """One step on the way from a name to what was asked for.

    Attributes:
        kind: "branch", "tag", "remote branch", "HEAD", "reflog", "commit", "path", "tree", "chunk", "blob" or
            "pack".
        name: of a ref, an id, a path in the commit, or a pack.
        said: how it follows from the step before; empty for the first.
    """

    kind: str
    name: str
    said: str = ""


@dataclass(frozen=True)
class DropInfo(Report):
    """A record that something was given up.

    Attributes:
        record: its number in `retention/drops`.
        commit: whose layer, or data, it was.
        packs: how many packs it names.
        time: when.
        why: by which rules, or what it says of the reason, where it says something.
        data: whether it is about data, and not about an exact layer.
        taken_back: the number of a later record saying that the data are there again; None for none.
    """

    record: int
    commit: str
    packs: int
    time: dt.datetime
    why: str | None = None
    data: bool = False
    taken_back: int | None = None


@dataclass(frozen=True)
class Why(Report):
    """Why something is in the store, or is not.

    Attributes:
        kind: "commit", "tree", "chunk", "blob" or "pack".
        id: of the object, or the name of the pack.
        state: "needed" where a ref or HEAD leads to it; "past" where only a reflog does; "unneeded" where
            nothing does; "dropped" where it is gone, and a record says so.
        steps: the shortest way to it, from the name that keeps it; empty where nothing does. Of what was
            dropped, the way to the commit that had it.
        packs: where it lies, by path.
        bytes: of the object, or of the pack; None where it is gone.
        written: when the newest of these packs was written, by the store's clock.
        until: when the ref went elsewhere whose past keeps it.
        drops: records that gave it up, the newest first; it may have come back since.
        notes: what else there is to know.
        standing: "condemned" where its packs are to go, "going" while they go, and "gone"; None for others.
        stands: since when.
    """

    kind: str
    id: str
    state: str
    steps: list[WhyStep]
    packs: list[str]
    bytes: int | None = None
    written: dt.datetime | None = None
    until: dt.datetime | None = None
    drops: list[DropInfo] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    standing: str | None = None
    stands: dt.datetime | None = None
