"""What grows with a history and what does not, as a picture of the results in the ledger.

python docs/growth.py > docs/images/growth.svg
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path

RESULTS = Path(__file__).parent / "benchmarks/results/speed/long-history.json"
LEFT, TOP, WIDE, HIGH, ASIDE = 52, 30, 420, 240, 190  # pixels
LOW, TOPMOST = 1, 100_000  # milliseconds and requests at the ends of the axis
STYLE = (
    "text{font-family:sans-serif;font-size:12px}path{fill:none;stroke-width:2.5}"
    ".axis{stroke:#7890a8;stroke-width:1}.commit_ms{stroke:#2e8b57}.restore_ms{stroke:#3a6ea5}"
    ".gc_requests{stroke:#b8860b}.log_ms{stroke:#8064a2}.rebuild_ms{stroke:#c0504d}"
)
LINES = {
    "rebuild_ms": "lineage made anew, ms",
    "gc_requests": "requests of a gc",
    "commit_ms": "a commit, ms",
    "restore_ms": "a restore by id, ms",
    "log_ms": "log -n 20, ms",
}


def down(value: float) -> float:
    """Return where a value stands from the top; the axis is logarithmic."""
    return TOP + HIGH * (1 - math.log(max(value, LOW) / LOW) / math.log(TOPMOST / LOW))


def across(commits: int, lengths: Sequence[int]) -> float:
    """Return where a length of the history stands from the left; the axis is logarithmic."""
    return LEFT + WIDE * math.log(commits / lengths[0]) / math.log(lengths[-1] / lengths[0])


def picture(rows: Sequence[dict[str, float]]) -> str:
    """Return the picture: a line for each figure, over the lengths of the history."""
    lengths = [int(row["commits"]) for row in rows]
    drawn = [f'<path class="axis" d="M{LEFT} {TOP}v{HIGH}h{WIDE}"/>']
    drawn += [
        f'<text x="{LEFT - 8}" y="{down(mark) + 4:g}" text-anchor="end">{mark:,}</text>'
        for mark in (1, 10, 100, 1000, 10_000, 100_000)
    ]
    drawn += [
        f'<text x="{across(each, lengths):.0f}" y="{TOP + HIGH + 16}" text-anchor="middle">{each:,}</text>'
        for each in lengths
    ]
    drawn += [f'<text x="{LEFT + WIDE}" y="{TOP + HIGH + 34}" text-anchor="end">commits</text>']
    for index, (name, title) in enumerate(LINES.items()):
        values = [row["rebuild_s"] * 1000 if name == "rebuild_ms" else row[name] for row in rows]
        points = " ".join(
            f"{across(each, lengths):.1f},{down(value):.1f}"
            for each, value in zip(lengths, values, strict=True)
        )
        right, top = LEFT + WIDE + 16, TOP + 20 + 32 * index
        drawn += [
            f'<path class="{name}" d="M{points}"/>',
            f'<path class="{name}" d="M{right} {top}h24"/>',
            f'<text x="{right + 32}" y="{top + 4}">{title}</text>',
        ]
    view = f'viewBox="0 0 {LEFT + WIDE + ASIDE + 40} {TOP + HIGH + 44}"'
    title = "What grows with a history"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {view} role="img"><title>{title}</title>'
    background = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", background, *drawn, "</svg>"])


if __name__ == "__main__":
    print(picture(json.loads(RESULTS.read_text())["results"]["rows"]))
