"""The page of benchmarks, from a ledger of results, and how a result comes into the ledger.

    python docs/benchmarks/ledger.py take NAME RESULTS.json [--load 1.5] [--command COMMAND]
    python docs/benchmarks/ledger.py check [--allow-older]
    python docs/benchmarks/ledger.py page

`commands.toml` says what is measured, by name, and which folders of the source that concerns. `take` is run
on the machine that measured: it puts what a command printed as JSON into `results`, with the build, the
machine, the day and the newest git revision that changed these folders. `check` refuses results whose folders
changed since. `page` fills in `page.md.jinja` with what the ledger has of this build, marks the older ones,
and writes docs/benchmarks.md.
"""

import argparse
import datetime as dt
import json
import os
import platform
import re
import shlex
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import Any

import jinja2
from figures import FILTERS, LEVELS, Entry

FOLDER = Path(__file__).parent
PAGE = FOLDER.with_suffix(".md")
TEMPLATE = "page.md.jinja"
ROOT = FOLDER.parent.parent
PROJECT = ROOT / "pyproject.toml"
PLACES = {"folder", "repository"}  # keys whose values are folders of the machine that measured


def listed() -> dict[str, dict[str, Any]]:
    """Return the quick and the long commands by name, and what they measure by the beginning of a name."""
    return tomllib.loads((FOLDER / "commands.toml").read_text())


def commands() -> dict[str, str]:
    """Return the command of every measurement, by its name."""
    return {**listed()["quick"], **listed()["long"]}


def measures(name: str) -> list[str]:
    """Return the folders of the source that a result of this name measures."""
    found = {start: folders for start, folders in listed()["measures"].items() if name.startswith(start)}
    return list(found[max(found, key=len)])


def git(*words: str) -> str | None:
    """Return what git prints in this repository, None where it fails or there is none."""
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout.strip()


def is_older(name: str, entry: Entry) -> bool:
    """Tell whether folders that a result measures are not as they were at its revision."""
    revision = entry.get("revision")
    return not revision or git("diff", "--quiet", revision, "--", *measures(name)) is None


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
        SystemExit: nothing of that name is measured, or what it measures has changed meanwhile.
    """
    known = commands()
    if name not in known:
        raise SystemExit(f"no '{name}' in commands.toml; there are {', '.join(known)}")
    revision, _, changed = (git("log", "-1", "--format=%H %ct", "--", *measures(name)) or "").partition(" ")
    is_dirty = bool(git("status", "--porcelain", "--", *measures(name)))
    if is_dirty or (changed and int(changed) > file.stat().st_mtime):
        raise SystemExit(
            f"{' '.join(measures(name))}: changed meanwhile; commit that, then measure {name} again"
        )
    results = without_places(json.loads(file.read_text()))
    day = dt.datetime.fromtimestamp(file.stat().st_mtime, dt.UTC).date()
    entry = {
        "command": without_folders(command or known[name]),
        "build": version("mvcs"),
        "date": day.isoformat(),
        "revision": revision or None,
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


def shown() -> dict[str, Entry]:
    """Return the results of this build, each with whether it is older than the code it measures."""
    return {
        name: entry | {"older": is_older(name, entry)}
        for name, entry in ledger().items()
        if entry["build"] == build()
    }


def check(*, allow_older: bool) -> None:
    """Refuse results that are older than the code they measure.

    Args:
        allow_older: take those of long commands.

    Raises:
        SystemExit: there are such; it names them, and the commands that measure them again.
    """
    long = listed()["long"]
    older = [name for name, entry in shown().items() if entry["older"] and not (allow_older and name in long)]
    take = "python docs/benchmarks/ledger.py take"
    again = [f"  {name}: {commands()[name]} --json out.json && {take} {name} out.json" for name in older]
    if again:
        raise SystemExit("\n".join(["older than the code that they measure:", *again]))


def page() -> str:
    """Return the page: what was measured of this build, and which commands measure the rest."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - it is no HTML
    )
    environment.filters |= FILTERS
    environment.globals |= {
        "build": build(),
        "commands": commands(),
        "ledger": shown(),
        "level_names": LEVELS,
    }
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
    checking = verbs.add_parser("check", help="refuse results that are older than the code they measure")
    checking.add_argument("--allow-older", action="store_true", help="take those of long commands")
    writing = verbs.add_parser("page", help="write docs/benchmarks.md")
    writing.add_argument("--out", type=Path, default=PAGE, help="another file instead")
    given = parser.parse_args()
    if given.verb == "take":
        print(take(given.name, given.file, given.load, given.command))
    elif given.verb == "check":
        check(allow_older=given.allow_older)
    else:
        given.out.write_text(page())


if __name__ == "__main__":
    main()
