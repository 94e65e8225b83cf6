"""What `show`, `cat-file`, `checkout_plan` and `why` tell of commits and what they hold."""

import datetime as dt
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mvcs.reports.commits import CommitInfo
from mvcs.reports.report import Report

NEEDED, PAST, UNNEEDED = "needed", "past", "unneeded"  # DROPPED, of exact layers, is the fourth


@dataclass(frozen=True)
class TensorInfo(Report):
    """One tensor of a commit and how it is stored.

    Attributes:
        path: where it stands.
        dtype: its element type.
        shape: its sizes.
        role: "weight", "small", "moment", "gradient" or "other".
        value_id: id of what a checkout restores.
        exact_id: id of its exact values, where they are others.
        encoding: how its bytes are stored.
        raw_bytes: bytes in memory.
        stored_bytes: bytes of its value in packs, whichever commit wrote them.
        depth: the longest chain of deltas behind it.
        new_bytes: those of its stored bytes that this commit itself wrote.
        where: "new"; "shared" where another tensor of the commit has all its bytes; "unchanged" where an
            earlier commit wrote them; where nothing but a rule is stored that, as "constant".
        twin: the first tensor that it shares its bytes with.
        aliases: further places where the same tensor stands, as tied weights do.
    """

    path: str
    dtype: str
    shape: list[int]
    role: str
    value_id: str
    exact_id: str | None
    encoding: str
    raw_bytes: int
    stored_bytes: int
    depth: int
    new_bytes: int
    where: str
    twin: str | None = None
    aliases: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ClassInfo(Report):
    """Sizes of one class of leaves in one commit.

    Attributes:
        name: "weight", "small", "moment", "gradient", "other", "blobs" or "metadata".
        raw_bytes: as handed over.
        stored_bytes: entries of the value layer that this commit wrote.
        exact_bytes: entries of its exact layer, while it is kept.
        depth: the longest chain of deltas behind it, as far as it was looked for.
    """

    name: str
    raw_bytes: int
    stored_bytes: int
    exact_bytes: int
    depth: int = 0


@dataclass(frozen=True)
class Shortfall(Report):
    """Why a commit is less than 30 times smaller than its state.

    Attributes:
        cause: what costs most of its bytes; one of `Cause`.
        told: a sentence: how many times smaller it is, why, and what can be done about it.
    """

    cause: str
    told: str


@dataclass(frozen=True)
class RestoreFigures(Report):
    """What restoring a whole commit reads, of its value layer.

    Attributes:
        requests: ranges of packs, footers and descriptions included.
        read_bytes: bytes of these.
        depth: the longest chain of deltas behind any of it, as it lies now.
        seconds: how long it takes here; None where this machine was not measured.
    """

    requests: int
    read_bytes: int
    depth: int
    seconds: float | None = None


@dataclass(frozen=True)
class CommitDetails(Report):
    """Everything `show` tells of a commit.

    Attributes:
        commit: the commit.
        quantizer: the settings it was rounded by; None for an exact one.
        tensors: how each is stored.
        classes: sizes by class of leaves.
        files: paths of the files it holds; None for a state.
        values: numbers and texts beside the tensors, by path.
        provenance: versions and settings that were worth keeping.
        shortfall: why it is less than 30 times smaller than its state; None where it is not, or takes little.
        restore: what restoring all of its values takes; None where that cannot be told.
        dropped: when its data were dropped and why, and whether they are there still; else empty.
    """

    commit: CommitInfo
    quantizer: dict[str, Any] | None
    tensors: list[TensorInfo]
    classes: list[ClassInfo]
    files: list[str] | None
    values: dict[str, Any]
    provenance: dict[str, Any]
    shortfall: Shortfall | None = None
    restore: RestoreFigures | None = None
    dropped: str = ""


@dataclass(frozen=True)
class FileInfo(Report):
    """One file of a commit.

    Attributes:
        path: from the top of the repository.
        format: "safetensors", "torch", "npz", "binary" or "opaque".
        bytes: of what it holds.
    """

    path: str
    format: str
    bytes: int


@dataclass(frozen=True)
class CatFile(Report):
    """One object, decoded as far as it goes."""

    kind: str
    id: str
    size: int
    value: Any
    content: bytes


@dataclass(frozen=True)
class CheckoutPlan(Report):
    """What a checkout of a commit will read.

    Attributes:
        commit: the commit.
        layer: "exact" or "value".
        target: where it would be written; None in place, or for a state in memory.
        raw_bytes: of what comes.
        requests: ranges of packs that are read, footers and descriptions included.
        read_bytes: bytes of these.
        entries: that are decoded.
        depth: the longest chain of deltas behind any of it.
        seconds: of the processor that it takes here, but for writing files; None where this machine was not
            measured.
        measured: when it was.
        written: files that would be written in place.
        unchanged: those that are already as they come back.
        checked_bytes: of `read_bytes`, what is read to see that files which go are stored.
    """

    commit: CommitInfo
    layer: str
    target: str | None
    raw_bytes: int
    requests: int
    read_bytes: int
    entries: int
    depth: int
    seconds: float | None = None
    measured: dt.datetime | None = None
    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    checked_bytes: int = 0


class Cause(StrEnum):
    """What costs most of the bytes of a commit."""

    NOT_BOUNDED = "not bounded"
    EVALUATION_FAILED = "evaluation failed"
    NOTHING_KEPT_THE_BOUND = "nothing kept the bound"
    FIRST_COMMIT = "first commit"
    NOT_NEAR = "not near"
    NOISE = "noise"
    LOSSY_RESTORE = "lossy restore"
    WEIGHTS = "weights"
    EXACT_WEIGHTS = "exact weights"
    SMALL_TENSORS = "small tensors"
    MOMENTS = "moments"
    EXACT_MOMENTS = "exact moments"
    UNKNOWN_OPTIMIZER = "unknown optimizer"
    OTHERS = "others"
    BLOBS = "blobs"
    METADATA = "metadata"


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
        record: its number in `retention/drops`; of data, among the records of the commit's manifest.
        commit: whose layer, or data, it was.
        packs: how many packs of an exact layer it names.
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
