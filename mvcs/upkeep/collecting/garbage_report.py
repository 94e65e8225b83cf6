"""What a collection would delete, or has deleted, and what waits."""

from dataclasses import dataclass, field

from mvcs.reports import Report


@dataclass(frozen=True)
class Garbage(Report):
    """A file that nothing needs.

    Attributes:
        path: where it lies in the store.
        bytes: its size.
        age: seconds since it was written, by the store's clock.
        reason: why nothing needs it.
        left: seconds that it still waits, where it is condemned.
        is_condemned: whether that was said by an earlier run.
    """

    path: str
    bytes: int
    age: float
    reason: str
    left: float = 0.0
    is_condemned: bool = False


@dataclass(frozen=True)
class GcReport(Report):
    """What a collection would delete, or has deleted.

    Attributes:
        executed: whether it was deleted.
        garbage: what goes, newest first.
        waiting: what nothing needs, and is younger than the grace.
        bytes: bytes of the garbage.
        grace: seconds that a pack has to be old.
        notes: why more is kept than refs need.
        condemned: what goes when its wait is over, unless something needs it until then.
        wait: seconds that it waits.
        branches: conflict branches that another branch contains, and that go.
        remote: the remote whose store it is about; None for this one.
    """

    executed: bool
    garbage: list[Garbage]
    waiting: list[Garbage]
    bytes: int
    grace: float
    notes: list[str] = field(default_factory=list)
    condemned: list[Garbage] = field(default_factory=list)
    wait: float = 0.0
    branches: list[str] = field(default_factory=list)
    remote: str | None = None
