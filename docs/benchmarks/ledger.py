"""The page of benchmarks, from a ledger of results, and how a result comes into the ledger.

    python docs/benchmarks/ledger.py take NAME RESULTS.json [--load 1.5] [--command COMMAND]
    python docs/benchmarks/ledger.py page

`commands.toml` says what is measured, by name. `take` is run on the machine that measured: it puts what a
command printed as JSON into `results`, with the build, the machine and the day. `page` fills in
`page.md.jinja` with what the ledger has of this build, and writes docs/benchmarks.md.
"""

import argparse
import datetime as dt
import json
import os
import platform
import re
import shlex
import tomllib
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import Any

import jinja2
from figures import FILTERS, LEVELS, Entry

FOLDER = Path(__file__).parent
PAGE = FOLDER.with_suffix(".md")
TEMPLATE = "page.md.jinja"
PROJECT = FOLDER.parent.parent / "pyproject.toml"
PLACES = {"folder", "repository"}  # keys whose values are folders of the machine that measured


def commands() -> dict[str, str]:
    """Return the command of every measurement, by its name."""
    found: dict[str, str] = tomllib.loads((FOLDER / "commands.toml").read_text())
    return found


def build() -> str:
    """Return the version that the page is about."""
    return str(tomllib.loads(PROJECT.read_text())["project"]["version"])


def ledger() -> dict[str, Entry]:
    """Return every result in the ledger, by its name."""
    files = sorted((FOLDER / "results").rglob("*.json"))
    return {
        str(file.relative_to(FOLDER / "results").with_suffix("")): json.loads(file.read_text())
        for file in files
    }


def take(name: str, file: Path, load: float | None, command: str | None) -> Path:
    """Put the results of one command into the ledger, and return where.

    Raises:
        SystemExit: nothing of that name is measured.
    """
    known = commands()
    if name not in known:
        raise SystemExit(f"no '{name}' in commands.toml; there are {', '.join(known)}")
    results = without_places(json.loads(file.read_text()))
    day = dt.datetime.fromtimestamp(file.stat().st_mtime, dt.UTC).date()
    entry = {
        "command": without_folders(command or known[name]),
        "build": version("mvcs"),
        "date": day.isoformat(),
        "machine": machine() | {"load": results.pop("load", load)},
        "results": results,
    }
    to = FOLDER / "results" / f"{name}.json"
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(json.dumps(entry, indent=1, ensure_ascii=False) + "\n")
    return to


def without_places(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return results whose folders are named without what lies above them."""
    if isinstance(value, dict):
        return {
            key: PurePath(each).name if key in PLACES and isinstance(each, str) else without_places(each)
            for key, each in value.items()
        }
    return [without_places(each) for each in value] if isinstance(value, list) else value


def without_folders(command: str) -> str:
    """Return a command whose absolute paths are their last names."""
    words = shlex.split(command)
    return shlex.join(PurePath(word).name if word.startswith("/") else word for word in words)


def machine() -> dict[str, object]:
    """Return what of this machine a figure may depend on, and nothing that tells which one it is."""
    import mvcs_native

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "architecture": platform.machine(),
        "instructions": mvcs_native.levels()[-1],
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "torch": ".".join(version("torch").split(".")[:2]),
    }


def page() -> str:
    """Return the page: what was measured of this build, and which commands measure the rest."""
    own = {name: entry for name, entry in ledger().items() if entry["build"] == build()}
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - it is no HTML
    )
    environment.filters |= FILTERS
    environment.globals |= {"build": build(), "commands": commands(), "ledger": own, "level_names": LEVELS}
    # Blocks that are left out leave empty lines behind.
    return re.sub(r"\n{3,}", "\n\n", environment.get_template(TEMPLATE).render())


def main() -> None:
    """Take a result in, or write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(required=True, dest="verb")
    taking = verbs.add_parser("take", help="put the results of a command into the ledger")
    taking.add_argument("name", help="as commands.toml has it")
    taking.add_argument("file", type=Path, help="what the command printed as JSON")
    taking.add_argument("--load", type=float, help="of the machine, where the results do not tell it")
    taking.add_argument("--command", help="where other options were given than commands.toml says")
    writing = verbs.add_parser("page", help="write docs/benchmarks.md")
    writing.add_argument("--out", type=Path, default=PAGE, help="another file instead")
    given = parser.parse_args()
    if given.verb == "take":
        print(take(given.name, given.file, given.load, given.command))
    else:
        given.out.write_text(page())


if __name__ == "__main__":
    main()
