"""The commits that refs lead to, in one short row each: what stays in memory of a history of any length."""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mvcs.history import Graph, Revision
from mvcs.objects import ObjectId
from mvcs.progress import Progress
from mvcs.reports import BranchSize, MonthSize, as_utc
from mvcs.store import RestoreCost

_MESSAGE = 60
_GB = 1e9


@dataclass
class CommitRow:
    """One commit.

    Attributes:
        pack: the one that ends it.
        parents: its parents.
        time: when it was made.
        step: of the run, if it has one.
        message: its first line, as far as it is shown.
        raw_bytes: as handed over; 0 where its data were dropped.
        depth: as first written, until it was looked at; None where its data were dropped.
        value_bytes: of its packs of the value layer; as first written, until it was looked at.
        exact_bytes: of those of its exact layer; likewise.
        cost: of restoring it; None until it was looked at.
    """

    pack: str
    parents: tuple[ObjectId, ...]
    time: dt.datetime
    step: int | None
    message: str
    raw_bytes: int
    depth: int | None
    value_bytes: int
    exact_bytes: int
    cost: RestoreCost | None = None

    @property
    def bytes(self) -> int:
        """Bytes of both layers."""
        return self.value_bytes + self.exact_bytes

    @classmethod
    def of(cls, revision: Revision) -> "CommitRow":
        """Return the row of a commit that was not looked at yet."""
        commit, written = revision.commit, revision.written
        return cls(
            written.pack,
            commit.parents,
            as_utc(commit.time),
            commit.step,
            commit.message.strip("\n").partition("\n")[0][:_MESSAGE],
            written.raw_bytes,
            written.depth,
            written.stored_bytes,
            written.exact_bytes,
        )


@dataclass
class CommitRows:
    """The rows of a history.

    Attributes:
        rows: by commit, children mostly before parents.
    """

    rows: dict[ObjectId, CommitRow] = field(default_factory=dict)

    @classmethod
    def walked(cls, graph: Graph, tips: Iterable[Revision], progress: Progress) -> "CommitRows":
        """Walk all that lies behind some commits.

        Raises:
            CorruptionError: a commit on the way is damaged.
            NotFoundError: one is nowhere.
        """
        found = cls()
        progress.start("walking commits", None, "commits")
        for revision in graph.walk(tips):
            found.rows[revision.id] = CommitRow.of(revision)
            progress.advance(1)
        progress.finish()
        return found

    def branches(self, tips: Mapping[str, ObjectId]) -> list[BranchSize]:
        """Return what the commits of each branch take."""
        names = sorted(tips)
        masks: Counter[ObjectId] = Counter()  # a bit for each branch that leads to a commit
        for number, name in enumerate(names):
            for commit in self._behind(tips[name]):
                masks[commit] += 1 << number
        sums = [Counter[str]() for _ in names]
        for commit, mask in masks.items():
            for number in (bit for bit in range(len(names)) if mask >> bit & 1):
                row = self.rows[commit]
                sums[number].update(commits=1, raw=row.raw_bytes, stored=row.bytes)
                sums[number]["alone"] += row.bytes if mask == 1 << number else 0
        return [
            BranchSize(name, found["commits"], found["raw"], found["stored"], found["alone"])
            for name, found in zip(names, sums, strict=True)
        ]

    def _behind(self, tip: ObjectId) -> set[ObjectId]:
        found, stack = set[ObjectId](), [tip]
        while stack:
            commit = stack.pop()
            if commit not in found and commit in self.rows:
                found.add(commit)
                stack += self.rows[commit].parents
        return found

    def months(self, price: float | None) -> list[MonthSize]:
        """Return what was added in each month, oldest first, and what it costs to keep, at a price a GB."""
        added, made = Counter[str](), Counter[str]()
        for row in self.rows.values():
            month = f"{row.time:%Y-%m}"
            added[month] += row.bytes
            made[month] += 1
        result, total = list[MonthSize](), 0
        for month in sorted(made):
            total += added[month]
            cost = None if price is None else total / _GB * price
            result.append(MonthSize(month, made[month], added[month], total, cost))
        return result
