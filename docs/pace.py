"""How far codes are behind a row of weights that drift, as a picture, with the code that commits use.

python docs/pace.py > docs/images/pace.svg
"""

from dataclasses import dataclass

import numpy as np

import mvcs_native
from mvcs.quantize import lattice_codes, upper_halves

STEP = 232  # the byte of a step of one
WEIGHTS, COMMITS = 256, 16
DRIFT, NOISE = 0.15, 0.25  # of a weight in steps: each commit, and beside its way
LEFT, TOP, WIDE, HIGH, ASIDE = 30, 30, 420, 210, 210  # pixels
STYLE = (
    "text{font-family:sans-serif;font-size:12px}path{fill:none;stroke-width:2.5}"
    ".axis{stroke:#7890a8;stroke-width:1}.nearest{stroke:#7890a8}.kept{stroke:#c0504d}.pace{stroke:#2e8b57}"
)
WAYS = {
    "nearest": "nearest codes",
    "kept": "codes kept, hysteresis 0.5",
    "pace": "the same, keeping pace",
}


@dataclass(frozen=True)
class Walk:
    """How many commits of drift are missing at each commit, and the share of codes that changed."""

    missing: list[float]
    changed: float


def walk(way: str) -> Walk:
    """Commit a row of weights that drift, one way of choosing codes, and follow what is restored."""
    random = np.random.default_rng(0)
    start, drift = (random.standard_normal(WEIGHTS, np.float32) * scale for scale in (3, DRIFT))
    before, codes, missing, changed = start, lattice_codes(start, STEP), [], 0
    for commit in range(1, COMMITS + 1):
        weights = start + drift * commit + random.standard_normal(WEIGHTS, np.float32) * np.float32(NOISE)
        weights = weights.astype(np.float32)
        new = lattice_codes(weights, STEP, None if way == "nearest" else codes, 0.5)
        if way == "pace":
            mvcs_native.keep_pace(weights, upper_halves(before, "float32"), STEP, WEIGHTS, 0, new)
        mvcs_native.balance(weights, STEP, WEIGHTS, 0, new)
        changed += np.count_nonzero(new != codes)
        before, codes = weights, new
        errors, way_taken = (each.astype(np.float64) for each in (weights - codes, drift))
        missing.append(float(errors @ way_taken / (way_taken @ way_taken)))
    return Walk(missing, changed / WEIGHTS / COMMITS)


def across(commit: float) -> float:
    """Return where a commit stands from the left."""
    return LEFT + WIDE * commit / COMMITS


def down(missing: float) -> float:
    """Return where so many missing commits stand from the top: from 2.5 down to half a commit too many."""
    return TOP + HIGH * (2.5 - missing) / 3


def picture() -> str:
    """Return the picture: a line for each way, and how many codes changed from commit to commit."""
    drawn = [
        f'<path class="axis" d="M{LEFT} {TOP}v{HIGH}M{LEFT} {down(0):g}h{WIDE}"/>',
        f'<text x="{LEFT}" y="{TOP - 12}">commits of progress that are not restored</text>',
        f'<text x="{LEFT + WIDE}" y="{TOP + HIGH + 32}" text-anchor="end">commit</text>',
    ]
    drawn += [
        f'<text x="{across(mark):g}" y="{TOP + HIGH + 16}" text-anchor="middle">{mark}</text>'
        for mark in range(4, COMMITS + 1, 4)
    ]
    drawn += [
        f'<text x="{LEFT - 8}" y="{down(mark) + 4:g}" text-anchor="end">{mark}</text>' for mark in range(3)
    ]
    for index, (way, title) in enumerate(WAYS.items()):
        found, top = walk(way), TOP + 20 + 40 * index
        points = " ".join(
            f"{across(at + 1):g},{down(missing):.1f}" for at, missing in enumerate(found.missing)
        )
        told = f"{found.changed:.0%} of codes change a commit"
        right = LEFT + WIDE + 16
        drawn += [
            f'<path class="{way}" d="M{points}"/>',
            f'<path class="{way}" d="M{right} {top}h24"/>',
            f'<text x="{right + 32}" y="{top + 4}">{title}</text>',
            f'<text x="{right + 32}" y="{top + 19}">{told}</text>',
        ]
    view = f'viewBox="0 0 {LEFT + WIDE + ASIDE + 40} {TOP + HIGH + 44}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {view} role="img"><title>Codes that keep pace</title>',
            f"<style>{STYLE}</style>",
            '<rect width="100%" height="100%" fill="white"/>',
            *drawn,
            "</svg>",
        ]
    )


if __name__ == "__main__":
    print(picture())
