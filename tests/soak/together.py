"""Writers, a compaction, retention and a collector at once in one store, in processes that are killed.

Two clones share the store. Each line that a writer appends to its file names a commit that it was told of
as published, with a number and a digest of its state. A killer ends one process after another with SIGKILL
and starts it again. Afterwards every such commit restores its values, or a rule dropped them, and fsck finds
nothing. Once all is older than the grace, the store holds hardly more than a copy of its branches takes.
"""

import hashlib
import json
import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mvcs import Repository
from mvcs.errors import ConflictError, MvcsError, NotFoundError
from tests.soak.tally import Tally

WRITERS, BRANCHES = 4, ("main", "side")
KILL_EVERY = 3.0  # seconds; 200 kills take 10 minutes
GRACE, WAIT = 4.0, 4.0  # seconds: both pass many times meanwhile
DAY, LONG_AGO = 24 * 3600.0, 100 * 24 * 3600.0
MOST = 1.05  # bytes that are stored, over those that a copy takes
SIDE, LAYERS = 24, 3
DONE = "done"  # the file in which it is noted that what was to happen meanwhile did
_STEPS = 0.5
Work = Callable[[Path, int, int], None]


def trials(kills: int, seed: int, folder: Path) -> Tally:
    """Let all of them work until so many were killed, then look at what is left."""
    tally, drawn = Tally(), random.Random(seed)
    _make(folder)
    workers = [Worker(folder, role, index) for role, index in _roles()]
    pause = KILL_EVERY if kills > 50 else KILL_EVERY / 6
    for worker in workers:
        worker.start()
    for number in range(kills):
        time.sleep(drawn.uniform(0.3, 1.7) * pause)
        # The rare ones are met in the middle of their work as often as writers are.
        worker = drawn.choice([*workers, *workers[WRITERS:]])
        tally.note(f"{worker.role.__name__} killed")
        worker.stop(tally, signal.SIGKILL)
        worker.start(number + 1)
    for worker in workers:
        worker.stop(tally, signal.SIGKILL)
    _look(tally, folder)
    return tally


def _roles() -> list[tuple[Work, int]]:
    return [*((write, index) for index in range(WRITERS)), (compact, 0), (retain, 0), (collect, 0)]


@dataclass
class Worker:
    """A process that does one thing over and over until it is killed."""

    folder: Path
    role: Work
    index: int
    pid: int = field(default=0, init=False)

    @property
    def errors(self) -> Path:
        """Where it says what it died of, if that was no kill."""
        return self.folder / f"{self.role.__name__}{self.index}.errors"

    def start(self, turn: int = 0) -> None:
        """Start a process; what it draws depends on the turn."""
        self.pid = os.fork()
        if self.pid:
            return
        try:
            self.role(self.folder, self.index, turn)
        except BaseException:  # noqa: BLE001 - a child has nobody to raise to
            self.errors.write_text(traceback.format_exc())
        os._exit(1)

    def stop(self, tally: Tally, number: int) -> None:
        """End the process, which must not have ended by itself."""
        os.kill(self.pid, number)
        os.waitpid(self.pid, 0)
        if self.errors.exists():
            tally.fail(f"{self.role.__name__} {self.index}: {self.errors.read_text()}")
            self.errors.unlink()


def _make(folder: Path) -> None:
    """Make a store, and two clones that lie beside it."""
    for name in ("one", "two"):
        with Repository.init(folder / name, store=str(folder / "store")) as repo:
            if name == "one":
                repo.commit(state(0), message="0")
                repo.create_branch(BRANCHES[1], "main")


def state(number: int) -> dict[str, dict[str, np.ndarray]]:
    """A state of some 7 kB; states of near numbers are much alike, and a layer is that of older ones."""
    start, drift = np.random.default_rng(0), np.random.default_rng(number)
    model = {}
    for layer in range(LAYERS):
        weight = start.standard_normal((SIDE, SIDE)).astype(np.float32)
        model[f"{layer}.weight"] = weight + 0.01 * drift.standard_normal(weight.shape).astype(np.float32)
    # The same few contents come again and again, also after nothing has led to them for a while.
    again = np.random.default_rng(number % 7)
    return {"model": {**model, "again": again.standard_normal((SIDE, SIDE)).astype(np.float32)}}


def digest(values: dict[str, np.ndarray]) -> str:
    """Return a hash of tensors and their names."""
    found = hashlib.sha256()
    for name in sorted(values):
        found.update(name.encode() + values[name].tobytes())
    return found.hexdigest()


def write(folder: Path, index: int, turn: int) -> None:
    """Commit states, two writers to a branch, and note each that is published."""
    drawn = random.Random(1000 * turn + index)
    branch, clone = BRANCHES[index % 2], folder / ("one", "two")[index // 2]
    with Repository.open(clone) as repo:
        while True:
            number = drawn.randrange(1, 1_000_000)
            given = state(number)
            bounded = {"step_size": _STEPS} if drawn.random() < 0.3 else {}
            try:
                info = repo.commit(given, message=str(number), branch=branch, **bounded)
                line = {"id": info.id, "number": number, "digest": digest(given["model"])}
                _add(folder / f"writer{index}", line)
            except ConflictError:
                _add(folder / DONE, {"races lost": 1})
            if drawn.random() < 0.1:
                _give_up(repo)
            time.sleep(drawn.uniform(0, 0.2))


def _add(file: Path, line: dict[str, object]) -> None:
    """Append a line in one write, so that it is there as soon as this returns, whatever is killed then."""
    notes = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(notes, json.dumps(line).encode() + b"\n")
    os.close(notes)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, file.read_bytes().splitlines() if file.exists() else [])


def _give_up(repo: Repository) -> None:
    """Delete the branches of commits that lost a race: nobody was told that those are published."""
    for branch in repo.branches():
        if ".conflict-" in branch.name:
            with suppress(MvcsError):
                repo.delete_branch(branch.name, force=True)


def compact(folder: Path, _: int, turn: int) -> None:
    """Store what is there anew, with chains of one length and then another."""
    drawn = random.Random(turn)
    with Repository.open(folder / "one") as repo:
        while True:
            try:
                done = repo.compact(max_depth=drawn.choice((1, 4, 12)), for_archive=drawn.random() < 0.2)
                _add(folder / DONE, {"commits rewritten": done.rewritten})
            except (ConflictError, NotFoundError):
                # It took longer than grace and wait, and what no ref leads to yet was collected.
                _add(folder / DONE, {"compactions given up": 1})
            time.sleep(drawn.uniform(0, 0.5))


def retain(folder: Path, _: int, turn: int) -> None:
    """Drop the data of old commits by a rule, and take drops back by another that keeps more."""
    drawn = random.Random(turn)
    with Repository.open(folder / "two") as repo:
        while True:
            try:
                repo.set_retention(last=drawn.choice((15, 40, 100)), force=True)
                done = repo.apply_retention(force=True)
                _add(folder / DONE, {"data dropped": sum(it.layer == "data" for it in done.dropped)})
            except (ConflictError, NotFoundError):
                _add(folder / DONE, {"retention given up": 1})
            time.sleep(drawn.uniform(0, 0.5))


def collect(folder: Path, _: int, turn: int) -> None:
    """Condemn, wait, and delete."""
    drawn = random.Random(turn)
    with Repository.open(folder / "two") as repo:
        while True:
            done = repo.gc(grace_days=GRACE / DAY, wait_days=WAIT / DAY, execute=True)
            _add(folder / DONE, {"packs deleted meanwhile": len(done.garbage)})
            time.sleep(drawn.uniform(0, 0.5))


def _look(tally: Tally, folder: Path) -> None:
    """Check what was promised of a store that nobody works in any more."""
    for line in _lines(folder / DONE):
        for name, count in line.items():
            tally.note(name, count)
    _look_at_commits(tally, folder)
    with Repository.open(folder / "one") as repo:
        _give_up(repo)
        repo.apply_retention(force=True)  # it may have been killed before it dropped the last layers
        report = repo.fsck()
        tally.check(report.ok, f"fsck says {report.problems[:3]}")
    _age(folder / "store")
    for name in ("one", "two"):
        with Repository.open(folder / name) as repo:
            tally.note("packs deleted at the end", len(repo.gc(wait_days=0, execute=True).garbage))
    with Repository.open(folder / "one") as repo:
        report = repo.fsck()
        tally.check(report.ok, f"fsck after the last collection says {report.problems[:3]}")
        notes = [note for note in report.notes if "dropped on purpose" not in note]
        tally.check(not notes, f"fsck after the last collection notes {notes[:3]}")
        repo.add_remote("copy", str(folder / "copy"))
        repo.push("copy", all_branches=True, exact=True)
    stored, live = (_bytes(folder / name) for name in ("store", "copy"))
    tally.note("bytes stored", stored)
    tally.note("bytes live", live)
    tally.check(stored <= MOST * live, f"{stored} bytes are stored for {live}")
    _look_at_commits(tally, folder)


def _look_at_commits(tally: Tally, folder: Path) -> None:
    with Repository.open(folder / "two") as repo:
        known = {info.id for info in repo.log(all_branches=True)}
        for index in range(WRITERS):
            for told in _lines(folder / f"writer{index}"):
                tally.note("commits looked at")
                tally.check(told["id"] in known, f"{told['id'][:12]} is on no branch")
                tally.check(_restores(repo, told), f"{told['id'][:12]} restores something else")


def _restores(repo: Repository, told: dict[str, Any]) -> bool:
    info = repo.resolve(told["id"])
    if info.data_dropped:
        return True
    found = repo.checkout(told["id"], numpy=True)["model"]
    if info.exactness == "exact":
        return digest(found) == told["digest"]
    wanted = state(told["number"])["model"]
    return found.keys() == wanted.keys() and all(
        float(np.square(found[name] - wanted[name]).mean()) <= _STEPS**2 for name in wanted
    )


def _age(store: Path) -> None:
    """Set all files of a store back by the same time, as if that had passed since."""
    for path in store.rglob("*"):
        if path.is_file():
            written = path.stat().st_mtime - LONG_AGO
            os.utime(path, (written, written))


def _bytes(store: Path) -> int:
    return sum(path.stat().st_size for path in store.rglob("*.pack"))
