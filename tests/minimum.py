"""Print the lowest versions that pyproject.toml allows, as constraints for `make test-minimum`.

torch stands in constraints.txt: its builds are large, and what differs below its newest is tested by itself.
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


if __name__ == "__main__":
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    sys.stdout.write("\n".join([*lowest(project["dependencies"]), ""]))
