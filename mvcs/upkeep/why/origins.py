"""Where ways into a history begin: refs, their past, and HEAD; and what they reach, the nearest first."""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from mvcs.config import DAY_SECONDS, GRACE_DAYS
from mvcs.history import Graph, Revision
from mvcs.local import Place
from mvcs.objects import ObjectId, short_id
from mvcs.refs import HEADS, REMOTES, TAGS, DamagedRecord, RefRecord, RefStore
from mvcs.reports import WhyStep
from mvcs.store import UNREADABLE_ERRORS
from mvcs.upkeep.collecting.leftovers import held

_NOUNS = {HEADS: "branch", TAGS: "tag", REMOTES: "remote branch"}


@dataclass(frozen=True)
class Origin:
    """What leads to a commit without another one.

    Attributes:
        step: how it is called.
        commit: where it stands, or stood.
        pack: a hint where that lies.
        until: when it went elsewhere, in microseconds since 1970-01-01 UTC; None where it stands there.
    """

    step: WhyStep
    commit: ObjectId
    pack: str | None
    until: int | None = None


@dataclass(frozen=True)
class Reached:
    """A commit, and the shortest way to it.

    Attributes:
        revision: the commit.
        origin: where the way begins.
        back: how many commits back it lies.
    """

    revision: Revision
    origin: Origin
    back: int

    @property
    def steps(self) -> list[WhyStep]:
        """The way to it."""
        commit = self.revision.commit
        far = "where it stands" if self.origin.until is None else "where it stood"
        said = far if not self.back else f"{self.back} commit{'s' if self.back > 1 else ''} back"
        step = "" if commit.step is None else f", step {commit.step}"
        message = commit.message.strip("\n").partition("\n")[0]
        told = f"{said}{step}{': ' if message else ''}{message}"
        return [self.origin.step, WhyStep("commit", self.revision.id.hex(), told)]


class Origins:
    """All that leads into the history of a store.

    Attributes:
        now: where refs and HEAD stand.
        past: where they stood, as far as records are kept, the newest of each first.
        doubts: what cannot be read.
    """

    def __init__(self, place: Place) -> None:
        """Read all records of refs."""
        self.now: list[Origin] = []
        self.past: list[Origin] = []
        self.doubts: list[str] = []
        refs = RefStore(place.backend)
        for kind in (HEADS, TAGS, REMOTES):
            for name in refs.listed(kind):
                self._take(kind, name, refs.row(kind, name))
        self._head(place)

    def _take(self, kind: str, name: str, row: Iterable[RefRecord | DamagedRecord]) -> None:
        until: int | None = None
        for back, record in enumerate(row):
            if isinstance(record, DamagedRecord):
                self.doubts.append(record.error.message)
                continue
            if record.target is not None and not back:
                self.now.append(Origin(WhyStep(_NOUNS[kind], name), record.target, record.pack))
            elif record.target is not None:
                step = WhyStep("reflog", f"{name}@{{{back}}}", _NOUNS[kind])
                self.past.append(Origin(step, record.target, record.pack, until))
            until = record.time

    def _head(self, place: Place) -> None:
        with suppress(*UNREADABLE_ERRORS):
            found = held(place, GRACE_DAYS * DAY_SECONDS)
            if found.commit is not None:
                self.now.append(Origin(WhyStep("HEAD", "HEAD", "on no branch"), found.commit, None))
            said = f"HEAD stood there within the last {GRACE_DAYS:.0f} days"
            steps = ((WhyStep("reflog", f"HEAD@{short_id(each)}", said), each) for each in sorted(found.past))
            self.past += [Origin(step, commit, None, 0) for step, commit in steps]


def reached(graph: Graph, origins: Iterable[Origin]) -> Iterator[Reached]:
    """Yield all commits behind some origins, each once, the nearest first; damage ends a way."""
    queue: deque[Reached] = deque()
    seen: set[ObjectId] = set()
    for origin in origins:
        if origin.commit not in seen:
            with suppress(*UNREADABLE_ERRORS):
                queue.append(Reached(graph.load(origin.commit, origin.pack), origin, 0))
                seen.add(origin.commit)
    while queue:
        found = queue.popleft()
        yield found
        for parent in found.revision.commit.parents:
            if parent not in seen:
                seen.add(parent)
                with suppress(*UNREADABLE_ERRORS):
                    older = graph.get(parent, found.revision)
                    queue.append(Reached(older, found.origin, found.back + 1))
