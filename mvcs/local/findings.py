"""What the last checks of this clone found wrong with its store, and how far samples of its packs came.

From findings a repair begins. Anybody may have written the record, so nothing is done on its word alone: a
repair looks for itself. Samples take a part of the packs at a time, in the order of their paths, so that
after a round all were looked at. Commits walk through the value packs as well, a little each, and compare
checksums (`store_watch`). A sample is larger, decodes what it takes, and goes through exact layers too.
"""

import pathlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from mvcs.errors import MvcsError
from mvcs.local.records import LocalRecords
from mvcs.refs import now_microseconds
from mvcs.reports import FsckReport, Problem, as_utc
from mvcs.store import pack_name

SUBJECT, PACK = "findings", "pack"
MOST, MOST_TEXT = 4096, 1000  # problems, and characters of each text
_LATEST = 1 << 57  # microseconds, some thousand years from now
SAMPLED = "sampled"
_LATEST_SECOND = 1 << 40  # seconds


@dataclass(frozen=True)
class Findings:
    """What was found.

    Attributes:
        problems: what is wrong.
        times: when each of them was found, in microseconds since 1970-01-01 UTC; None where nothing tells.
    """

    problems: tuple[Problem, ...] = ()
    times: tuple[int | None, ...] = ()

    @classmethod
    def load(cls, local: pathlib.Path | None) -> "Findings":
        """Read what is remembered; what is not as it was written counts as nothing."""
        record = LocalRecords(local).read(SUBJECT)
        rows, times = record.get("problems"), record.get("times")
        found = tuple(_problems(rows)) if isinstance(rows, list) else ()
        known = times if isinstance(times, list) and len(times) == len(found) else [None] * len(found)
        return cls(found, tuple(map(_time, known)))

    def told(self, known: Collection[str] = ()) -> str | None:
        """Say that something was found wrong and what to do; None where nothing was, or all of it is known.

        Args:
            known: subjects that a person hears of anyway.
        """
        rows = zip(self.problems, self.times, strict=True)
        left = [(problem, time) for problem, time in rows if problem.subject not in known]
        packs = sum(problem.kind == PACK for problem, _ in left)
        if not left:
            return None
        newest = max((time for _, time in left if time is not None), default=None)
        when = "an earlier fsck" if newest is None else f"the fsck of {as_utc(newest):%Y-%m-%d %H:%M} UTC"
        earlier = " (or one before)" if any(time != newest for _, time in left) else ""
        counts = {"damaged pack": packs, "other problem": len(left) - packs}
        found = [f"{many} {what}{'s' * (many > 1)}" for what, many in counts.items() if many]
        return f"{when}{earlier} found {' and '.join(found)}: 'mvcs repair' mends that, or says what is lost"


def save_findings(
    local: pathlib.Path | None, report: FsckReport, looked: Callable[[str], bool] | None = None
) -> None:
    """Remember what a check found in the place of what was known; it may fail.

    Args:
        local: `.mvcs`.
        report: what it found.
        looked: tells whether it read the bytes of the pack at a path: what is known of others stays known.
            None for a check of all.
    """
    known, now = Findings.load(local), now_microseconds()
    found = {(problem.kind, problem.subject) for problem in report.problems}
    kept = [
        (problem, time)
        for problem, time in zip(known.problems, known.times, strict=True)
        if looked
        and problem.kind == PACK
        and not looked(problem.subject)
        and (problem.kind, problem.subject) not in found
    ]
    with suppress(MvcsError), LocalRecords(local).change(SUBJECT) as record:
        record.clear()
        record["problems"] = [_row(problem) for problem in (*report.problems, *(one for one, _ in kept))][
            :MOST
        ]
        record["times"] = [*(now for _ in report.problems), *(time for _, time in kept)][:MOST]


def _time(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < _LATEST else None


def _row(problem: Problem) -> list[str]:
    return [text[:MOST_TEXT] for text in (problem.kind, problem.subject, problem.message, problem.hint or "")]


def _problems(rows: list[object]) -> Iterable[Problem]:
    for row in rows[:MOST]:
        if isinstance(row, list) and len(row) == 4 and all(isinstance(text, str) for text in row):
            kind, subject, message, hint = (text[:MOST_TEXT] for text in row)
            yield Problem(kind, subject, message, hint or None)


@dataclass(frozen=True)
class Sample:
    """Packs that are looked at together.

    Attributes:
        paths: where they lie.
        after: the last path of this round so far; "" where the round ends with them.
        begun: when this round began, in seconds.
        before: when the round before began; None where there was none.
        done: the part of all bytes that this round has seen after them, from 0 to 1.
    """

    paths: tuple[str, ...]
    after: str
    begun: int
    before: int | None
    done: float

    @classmethod
    def due(cls, local: pathlib.Path | None, sizes: Mapping[str, int], share: float) -> "Sample":
        """Return the packs that are next: at least one, and so many that they have a share of all bytes."""
        record = LocalRecords(local).read(SAMPLED)
        packs = sorted(path for path in sizes if pack_name(path))
        after = record.get("after")
        after = after if isinstance(after, str) else ""
        begun, before = (_seconds(record.get(name)) for name in ("begun", "before"))
        total = sum(sizes[path] for path in packs)
        ahead = [path for path in packs if path > after]
        if not ahead or not after:
            begun, before, ahead = int(time.time()), begun, packs
        taken, size = list[str](), 0
        for path in ahead:
            if taken and size >= share * total:
                break
            taken.append(path)
            size += sizes[path]
        is_last = len(taken) == len(ahead)
        seen = sum(sizes[path] for path in packs if taken and path <= taken[-1])
        return cls(
            tuple(taken),
            "" if is_last or not taken else taken[-1],
            begun or int(time.time()),
            before,
            1.0 if is_last or not total else seen / total,
        )

    def looked(self, local: pathlib.Path | None) -> None:
        """Remember that these were looked at.

        Raises:
            StorageError: the record cannot be written.
        """
        with LocalRecords(local).change(SAMPLED) as record:
            record.clear()
            record |= {"after": self.after, "begun": self.begun}
            if self.before is not None:
                record["before"] = self.before

    @property
    def since(self) -> int | None:
        """Since when every pack was looked at, in seconds; None before the first round has ended."""
        return self.begun if not self.after else self.before


def _seconds(value: object) -> int | None:
    return value if type(value) is int and 0 < value < _LATEST_SECOND else None
