"""What another user's umask keeps from us is no damage: we hear whose it is, and what to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository

OWNER = 54321
# Runs commands one after the other as a user who may not pass over permissions, as the user of tests may.
RUN = """
import contextlib, io, json, sys
from mvcs.cli import main
found = []
for words in json.load(sys.stdin):
    said, shown = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(shown):
        code = main(words)
        said.flush()
    found.append([code, said.buffer.getvalue().decode()])
print(json.dumps(found))
"""
READING = [
    "status",
    "log",
    "show",
    "fsck",
    "gc",
    "checkout HEAD~1 --force",
    "diff HEAD~1 HEAD",
    "repair --dry-run",
]


def run(folder: Path, *commands: str) -> list[tuple[int, str]]:
    drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*drop, sys.executable, "-c", RUN],
        input=json.dumps([command.split() for command in commands]),
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return [(code, said) for code, said in json.loads(done.stdout)]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with three commits in a store beside it."""
    with Repository.init(tmp_path / "work", store=str(tmp_path / "shared")) as repo:
        for number in range(3):
            repo.commit({"w": np.full(64, number, np.float32)}, message=f"{number}")
        repo.set_retention(last=2)
        repo.pin("HEAD")
    with Repository.open(tmp_path / "work") as repo:
        repo.add_remote("far", str(tmp_path / "far"))
        repo.push("far")
    return tmp_path / "work"


def give_away(path: Path, mode: int = 0o600) -> str:
    """Make a path somebody else's; return whom the hint names."""
    path.chmod(mode if os.geteuid() == 0 else 0)
    if os.geteuid() == 0:
        os.chown(path, OWNER, OWNER)
        return f"belongs to user {OWNER}"
    return "is yours"


PLACES = {
    "the newest record of a branch": ("refs/heads/main/*", min),
    "an old record of a branch": ("refs/heads/main/*", max),
    "the first pack": ("packs/*/*.pack", lambda paths: min(paths, key=lambda path: path.stat().st_mtime_ns)),
    "the last pack": ("packs/*/*.pack", lambda paths: max(paths, key=lambda path: path.stat().st_mtime_ns)),
    "the rules": ("retention/rules/*", min),
    "the pins": ("retention/pins/*", min),
    "all branches": ("refs/heads", min),
    "all packs": ("packs", min),
    "the store's description": ("mvcs.json", min),
}


@pytest.mark.parametrize("name", PLACES)
def test_what_may_not_be_read_is_no_damage(work: Path, name: str) -> None:
    pattern, choose = PLACES[name]
    place = choose(list((work.parent / "shared").glob(pattern)))
    whose = give_away(place, 0o700 if place.is_dir() else 0o600)
    found = run(work, *READING)
    denied = [said for code, said in found if code]
    assert {code for code, _ in found} <= {0, 7}, found
    assert denied
    for said in denied:
        assert "permission denied" in said
        assert f"'{place}' {whose}" in said
        assert "chmod" in said
        assert not any(word in said for word in ("damaged", "move it", "--force", "branch -d"))
    # To be let in is all that it takes.
    place.chmod(0o777 if place.is_dir() else 0o666)
    assert [code for code, _ in run(work, "fsck", "log", "checkout HEAD --force")] == [0, 0, 0]


@pytest.mark.parametrize("place", ["HEAD", "local/head.json"])
def test_what_a_clone_remembers_and_may_not_read_is_no_damage(work: Path, place: str) -> None:
    path = work / ".mvcs" / place
    before = path.read_bytes()
    path.chmod(0)
    found = run(work, "status", "fsck", "switch -c other")
    assert {code for code, _ in found} <= {0, 7}, found
    assert any(
        f"'{path}' is yours (----------): 'chmod u+rwX {path}' lets you in" in said
        for code, said in found
        if code == 7
    )
    assert path.read_bytes() == before


@pytest.mark.skipif(
    os.geteuid() != 0, reason="to write beside a file of another user, its folder has to be theirs"
)
def test_what_may_not_be_written_says_whose_the_folder_is(work: Path) -> None:
    for path in [work.parent / "far", *(work.parent / "far").rglob("*")]:
        give_away(path, 0o755 if path.is_dir() else 0o644)
    with Repository.open(work) as repo:
        repo.commit({"w": np.zeros(64, np.float32)}, message="one more")
    [(code, said)] = run(work, "push far")
    assert code == 7
    assert f"belongs to user {OWNER} (drwxr-xr-x), and you are root" in said
    assert "'chmod -R g+rwX'" in said
    assert "'umask 002'" in said
