"""The picture of what grows with a history shows what was measured."""

import subprocess
import sys
from pathlib import Path
from xml.dom import minidom

ROOT = Path(__file__).parents[2]


def test_the_picture_is_drawn_from_the_ledger():
    command = [sys.executable, str(ROOT / "docs/growth.py")]
    drawn = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    picture = ROOT / "docs/images/growth.svg"
    assert drawn == picture.read_text(), "python docs/growth.py > docs/images/growth.svg"
    paths = minidom.parse(str(picture)).getElementsByTagName("path")  # noqa: S318 - it is our own
    assert len(paths) == 11
