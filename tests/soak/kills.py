"""SIGKILL at any moment of commits, checkouts, pushes and clones."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from mvcs import Repository
from mvcs.errors import MvcsError
from mvcs.upkeep import check_store
from tests.soak import content
from tests.soak.forked import Say, run
from tests.soak.tally import Tally

LONGEST = 1.2


def trials(rounds: int, seed: int, folder: Path) -> Tally:
    """Kill `rounds` commits, and a third as many of each of the others."""
    tally, drawn = Tally(), random.Random(seed)
    _commits(tally, drawn, folder / "commits", rounds)
    world = _world(folder / "world")
    for kind in (_checkout, _push, _clone):
        for number in range(max(1, rounds // 3)):
            kind(tally, drawn, world, number)
    for number in range(max(1, rounds // 3)):
        _first(tally, drawn, folder / "first" / str(number))
    return tally


def _first(tally: Tally, drawn: random.Random, folder: Path) -> None:
    """Kill the first commit of a repository: no branch tells yet which commits are needed."""
    Repository.init(folder).close()
    ended = run(_committing(folder, 0), kill_after=drawn.uniform(0, LONGEST / 3))
    tally.check(not ended.trace, f"first commit: {ended.trace}")
    tally.note("first commits killed" if ended.signal and not ended.said else "first commits that ended")
    _check_commits(tally, folder, [str(name) for name in ended.said], 0)
    shutil.rmtree(folder)


def _commits(tally: Tally, drawn: random.Random, folder: Path, rounds: int) -> None:
    Repository.init(folder).close()
    acknowledged: list[str] = []
    for number in range(rounds):
        work = _committing(folder, number)
        ended = run(work, kill_after=drawn.uniform(0, LONGEST))
        tally.check(not ended.trace, f"commit {number}: {ended.trace}")
        acknowledged += [str(name) for name in ended.said]
        tally.note("commits killed" if ended.signal else "commits that ended before the kill")
        if number % 10 == 9 or number == rounds - 1:
            _check_commits(tally, folder, acknowledged, number)


def _committing(folder: Path, number: int) -> Callable[[Say], None]:
    def work(say: Say) -> None:
        with Repository.open(folder) as repo:
            for turn in range(3):
                say(content.commit(repo, 10 * number + turn, number + turn))

    return work


def _check_commits(tally: Tally, folder: Path, acknowledged: list[str], number: int) -> None:
    with Repository.open(folder) as repo:
        acknowledged.append(content.commit(repo, 10 * number + 9, number))
        known = {info.id for info in repo.log(all_branches=True)}
        tally.check(set(acknowledged) <= known, f"after {number}: acknowledged commits are gone")
        for name in acknowledged[-12:]:
            tally.check(content.restores(repo, name), f"after {number}: {name[:12]} restores something else")
        report = check_store(repo._session.store.apart(), repo._session.progress)
        tally.check(report.ok, f"after {number}: fsck says {report.problems[:3]}")
        _count_leftovers(tally, repo, folder / ".mvcs", report.notes, f"after commit {number}")


def _count_leftovers(tally: Tally, repo: Repository, store: Path, notes: list[str], when: str) -> None:
    """A commit that died between its manifest and its branch stays until gc; nothing else does."""
    left = [path.name for path in (store / "tmp").glob("*") if path.is_file()]
    tally.check(not left, f"{when}: {len(left)} temporary files stayed")
    unnamed = [note for note in notes if "to no commit" in note]
    if unnamed and not any("interrupted work" in note for note in unnamed):
        tally.note("commits collected that no branch got")
        repo.gc(grace_days=0, wait_days=0, execute=True)
        unnamed = [note for note in repo.fsck().notes if "to no commit" in note]
    tally.check(not unnamed, f"{when}: {unnamed}")


def _world(folder: Path) -> Path:
    with Repository.init(folder / "work") as repo:
        for number in range(3):
            for name in ("a", "b"):
                content.write(folder / "work" / f"{name}.safetensors", number)
            files = [folder / "work" / f"{name}.safetensors" for name in ("a", "b")]
            repo.commit_files(files, message=str(number), **content.QUANTIZERS[0])
            repo.create_tag(f"t{number}")
        repo.add_remote("origin", str(folder / "far"))
    return folder


def _checkout(tally: Tally, drawn: random.Random, world: Path, number: int) -> None:
    work = world / "work"

    def checking_out(_: Say) -> None:
        with Repository.open(work) as repo:
            for turn in range(3):
                repo.checkout_files(f"t{(number + turn) % 3}", force=True)

    ended = run(checking_out, kill_after=drawn.uniform(0, LONGEST / 3))
    tally.check(not ended.trace, f"checkout {number}: {ended.trace}")
    tally.note("checkouts killed" if ended.signal else "checkouts that ended before the kill")
    for name in ("a", "b"):
        found = content.read(work / f"{name}.safetensors")
        tally.check(any(content.same(found, turn) for turn in range(3)), f"checkout {number}: {name} is torn")
    with Repository.open(work) as repo:
        repo.status()
        repo.checkout_files("main", force=True)
        tally.check(repo.branch == "main", f"checkout {number}: HEAD is lost")
    for name in ("a", "b"):
        found = content.read(work / f"{name}.safetensors")
        tally.check(content.same(found, 2), f"checkout {number}: {name} is not that of main")
    stray = sorted(path.name for path in work.iterdir())
    tally.check(stray == [".mvcs", "a.safetensors", "b.safetensors"], f"checkout {number}: {stray} stayed")


def _push(tally: Tally, drawn: random.Random, world: Path, number: int) -> None:
    with Repository.open(world / "work") as repo:
        path = world / "work" / "a.safetensors"
        content.write(path, 100 + number)
        repo.commit_files([path], message=f"push {number}")

    def pushing(_: Say) -> None:
        with Repository.open(world / "work") as repo:
            repo.push()

    ended = run(pushing, kill_after=drawn.uniform(0, LONGEST / 4))
    tally.check(not ended.trace, f"push {number}: {ended.trace}")
    tally.note("pushes killed" if ended.signal else "pushes that ended before the kill")
    with Repository.open(world / "work") as repo:
        repo.push()
        head = repo.head()
    with Repository.open(world / "far") as far:
        report = far.fsck()
        tally.check(report.ok, f"push {number}: fsck over there says {report.problems[:3]}")
        tally.check(
            head is not None and far.resolve("main").id == head.id, f"push {number}: main is elsewhere"
        )
        _count_leftovers(tally, far, world / "far", report.notes, f"after push {number}")


def _clone(tally: Tally, drawn: random.Random, world: Path, number: int) -> None:
    target = world / "clone"
    shutil.rmtree(target, ignore_errors=True)

    def cloning(_: Say) -> None:
        Repository.clone(str(world / "far"), target).close()

    ended = run(cloning, kill_after=drawn.uniform(0, LONGEST / 2))
    tally.check(not ended.trace, f"clone {number}: {ended.trace}")
    tally.note("clones killed" if ended.signal else "clones that ended before the kill")
    try:
        if not (target / ".mvcs" / "HEAD").exists():
            Repository.clone(str(world / "far"), target).close()
        with Repository.open(target) as repo:
            repo.checkout_files("main", force=True)
            report = repo.fsck()
            tally.check(report.ok, f"clone {number}: fsck says {report.problems[:3]}")
            _count_leftovers(tally, repo, target / ".mvcs", report.notes, f"after clone {number}")
    except MvcsError as error:
        tally.fail(f"clone {number}: it cannot be taken up again: {error}")
