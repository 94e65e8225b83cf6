"""What the page on codes that keep pace shows is what the code does."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import mvcs_native
from mvcs.quantize import lattice_codes, upper_halves

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/design/010-keeping-pace.md"
STEP = 232  # the byte of a step of one


def test_the_picture_is_drawn_with_the_code():
    command = [sys.executable, str(ROOT / "docs/pace.py")]
    drawn = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert drawn == (ROOT / "docs/images/pace.svg").read_text(), "python docs/pace.py > docs/images/pace.svg"


def test_the_example_is_worked_with_the_code():
    rows = re.findall(r"^\| \d \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    before, now, kept, errors, moves, products, paced = np.array([row.split(" | ") for row in rows], float).T
    weights, parent = now.astype(np.float32), before.astype(np.float32)
    codes = lattice_codes(weights, STEP, lattice_codes(parent, STEP), 0.5)
    assert codes.tolist() == kept.tolist()
    assert (weights - codes).tolist() == errors.tolist()
    assert (weights - parent).tolist() == moves.tolist()
    assert (errors * moves).tolist() == products.tolist()
    lag = products.sum()
    mvcs_native.keep_pace(weights, upper_halves(parent, "float32"), STEP, codes.size, 0, codes)
    assert codes.tolist() == paced.tolist()
    left = float(((now - paced) * moves).sum())
    assert f"The lag is {lag:g}." in PAGE.read_text().replace("\n", " ")
    assert f"{left:g} is left" in PAGE.read_text().replace("\n", " ")
    whole = (moves * moves).sum()
    assert f"restores {1 - lag / whole:.0%}".replace("%", " %") in PAGE.read_text()
    assert f"restores {1 - left / whole:.0%}".replace("%", " %") in PAGE.read_text()
    assert np.count_nonzero(lattice_codes(weights, STEP) != kept) == 3
