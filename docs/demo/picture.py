"""The bars at the end: raw and stored bytes over a whole history, as the mvcs command reports them."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stage import mvcs, say

from mvcs import Repository

NAMES = {"weight": "weights", "small": "weights", "moment": "moments", "other": "other", "blobs": "other"}
WHOLE = "everything"
WIDTH = 44
PARTS = " ▏▎▍▌▋▊▉"


@dataclass
class Row:
    """Bytes of one class of leaves over all commits."""

    raw: int = 0
    stored: int = 0
    exact: int = 0

    @property
    def ratio(self) -> float:
        """Raw over stored bytes, or 0 where there is nothing to compare."""
        return self.raw / self.stored if self.raw and self.stored else 0.0


@dataclass(frozen=True)
class History:
    """Every commit of every branch, and the bytes of each class of leaves."""

    commits: list[dict[str, Any]]
    rows: dict[str, Row]

    @property
    def worst(self) -> float:
        """The largest degradation of a bounded commit; one that was not measured is infinitely bad."""
        bounded = (commit["degradation"] for commit in self.commits if commit["exactness"] != "exact")
        return max((found if isinstance(found, float) else math.inf for found in bounded), default=0.0)

    @property
    def exact(self) -> int:
        """How many commits are exact."""
        return sum(commit["exactness"] == "exact" for commit in self.commits)


def read_history(repo: Path) -> History:
    """Ask mvcs for all commits of all branches, and what each takes."""
    commits = json.loads(mvcs("log", "--all", "--json", cwd=repo, show=False))
    with Repository.open(repo) as opened:
        rows = _rows(opened.show(commit["id"]).to_json()["classes"] for commit in commits)
    rows[WHOLE] = Row(
        sum(commit["raw_bytes"] for commit in commits),
        sum(commit["stored_bytes"] for commit in commits),
        sum(row.exact for row in rows.values()),
    )
    return History(commits, rows)


def _rows(shown: Iterable[list[dict[str, Any]]]) -> dict[str, Row]:
    rows: dict[str, Row] = defaultdict(Row)
    for classes in shown:
        for entry in classes:
            row = rows[NAMES.get(entry["name"], entry["name"])]
            row.raw += entry["raw_bytes"]
            row.stored += entry["stored_bytes"]
            row.exact += entry["exact_bytes"]
    return rows


def draw_bytes(rows: Mapping[str, Row]) -> None:
    """Print bars: what was handed over and what the history takes, then the history alone."""
    largest = max((row.raw for row in rows.values()), default=0)
    for name, row in rows.items():
        if row.raw:
            _line(name, "raw", row.raw, largest)
            _line("", "history", row.stored, largest, _times(row.ratio))
    say("")
    say("The history on a scale of its own: what its bytes are")
    parts = {name: row.stored for name, row in rows.items() if name != WHOLE}
    for name, amount in parts.items():
        _line(name, "history", amount, max(parts.values()))


def _line(name: str, what: str, amount: int, largest: int, note: str = "") -> None:
    say(f"{name:11} {what:8} {bar(amount, largest):{WIDTH}} {size(amount):>10} {note:>7}".rstrip())


def _times(ratio: float) -> str:
    return f"{ratio:.1f}x" if ratio < 1000 else f"{ratio:,.0f}x"


def bar(amount: int, largest: int) -> str:
    """Return a bar of eighths of a cell; anything above nothing is seen."""
    eighths = max(1, round(8 * WIDTH * amount / largest)) if amount else 0
    return ("█" * (eighths // 8) + PARTS[eighths % 8]).rstrip()


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def size(amount: int) -> str:
    """Return a number of bytes as people read it."""
    return f"{amount / 1e6:.2f} MB" if amount >= 1e5 else f"{amount / 1e3:.1f} kB"
