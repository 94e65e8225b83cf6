"""Print what pyproject.toml asks for but torch: at its lowest versions, or with `--any` as it stands there.

The first are constraints for `make test-minimum`: torch stands in constraints.txt, its builds are large, and
what differs below its newest is tested by itself. The second are what `make test-without-torch` installs.
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


def lowest(requirements: list[str]) -> list[str]:
    """Return each requirement at its lowest version."""
    found = (re.match(r"([A-Za-z0-9_-]+)>=([0-9.]+)", requirement) for requirement in requirements)
    return [f"{match[1]}=={match[2]}" for match in found if match and match[1] != "torch"]


def others(requirements: list[str]) -> list[str]:
    """Return all requirements but torch."""
    return [requirement for requirement in requirements if not requirement.startswith("torch>")]


if __name__ == "__main__":
    wanted = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
    sys.stdout.write("\n".join([*(others(wanted) if "--any" in sys.argv else lowest(wanted)), ""]))
