"""The folder of the demo: its own to remove, but for what somebody went on with."""

import hashlib
import json
import shutil
import sys
from pathlib import Path

from stage import DemoError

MARK = "made-by-the-demo.json"
WORKED_ON = ("run", "clone")


def make_room(top: Path) -> None:
    """Make an empty folder. What an earlier demo left is removed; if it was changed since, after a question.

    Raises:
        DemoError: the folder holds what no demo made, or the answer was no.
    """
    if top.exists() and any(top.iterdir()):
        if not (top / MARK).is_file():
            raise DemoError(
                f"{top} holds what the demo did not make; name another folder: DEMO_DIR=PATH make demo"
            )
        changes = _changes(top)
        if changes and not _agreed(top, changes):
            raise DemoError(f"{top} stays as it is; name another folder: DEMO_DIR=PATH make demo")
        shutil.rmtree(top)
    top.mkdir(parents=True, exist_ok=True)
    (top / MARK).write_text("{}")


def remember(top: Path) -> None:
    """Take down how the demo leaves its folder."""
    (top / MARK).write_text(json.dumps(_found(top), indent=1))


def _changes(top: Path) -> list[str]:
    """Return which files are new, changed or gone since the demo ended."""
    left, found = json.loads((top / MARK).read_text()), _found(top)
    return sorted(name for name in left.keys() | found.keys() if left.get(name) != found.get(name))


def _found(top: Path) -> dict[str, str]:
    """Return the digests of files that somebody could have worked on; looking at a history changes none."""
    files = [path for name in WORKED_ON for path in (top / name).rglob("*") if path.is_file()]
    kept = {path.relative_to(top): path for path in files if _is_work(path)}
    return {name.as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for name, path in kept.items()}


def _is_work(path: Path) -> bool:
    return ".mvcs" not in path.parts or "refs" in path.parts or path.name in {"HEAD", "config.toml"}


def _agreed(top: Path, changes: list[str]) -> bool:
    """Show what would be lost, and ask; where nobody can answer, the answer is no."""
    more = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
    print(f"Since the demo ended, somebody went on in {top}:\n  {', '.join(changes[:3])}{more}", flush=True)
    if not sys.stdin.isatty():
        return False
    print("Delete the folder, and what was made in it? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
