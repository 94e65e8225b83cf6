"""The table at the end: raw against stored bytes over a whole history, as the mvcs command reports them."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stage import mvcs, say

NAMES = {"weight": "weights", "small": "weights", "moment": "moments", "other": "other", "blobs": "other"}


@dataclass
class Row:
    """Bytes of one class of leaves over all commits."""

    raw: int = 0
    stored: int = 0
    exact: int = 0


def byte_table(repo: Path) -> None:
    """Print raw and stored bytes per class over every commit of every branch."""
    commits = json.loads(mvcs("log", "--all", "--json", cwd=repo, show=False))
    shown = [json.loads(mvcs("show", commit["id"], "--json", cwd=repo, show=False)) for commit in commits]
    rows = _rows(details["classes"] for details in shown)
    rows["everything"] = Row(
        sum(commit["raw_bytes"] for commit in commits),
        sum(commit["stored_bytes"] for commit in commits),
        sum(row.exact for row in rows.values()),
    )
    say(f"{len(commits)} commits, {sum(commit['exactness'] == 'exact' for commit in commits)} of them exact")
    say(f"{'':12} {'raw':>12} {'history':>12} {'':>6} {'exact layers kept':>18}")
    for name, row in rows.items():
        ratio = f"{row.raw / row.stored:.1f}x" if row.raw and row.stored else ""
        say(f"{name:12} {_size(row.raw):>12} {_size(row.stored):>12} {ratio:>6} {_size(row.exact):>18}")


def _rows(shown: Iterable[list[dict[str, Any]]]) -> dict[str, Row]:
    rows: dict[str, Row] = defaultdict(Row)
    for classes in shown:
        for entry in classes:
            row = rows[NAMES.get(entry["name"], entry["name"])]
            row.raw += entry["raw_bytes"]
            row.stored += entry["stored_bytes"]
            row.exact += entry["exact_bytes"]
    return rows


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def size(amount: int) -> str:
    """Return a number of bytes as people read it."""
    return f"{amount / 1e6:.2f} MB" if amount >= 1e5 else f"{amount / 1e3:.1f} kB"


_size = size
