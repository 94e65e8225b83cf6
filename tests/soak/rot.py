"""Bits that flip, files that are cut or vanish, with commits after the damage."""

import random
import shutil
from pathlib import Path

from mvcs import Repository
from mvcs.errors import MvcsError
from tests.soak import content
from tests.soak.tally import Tally

LATER = 3


def trials(rounds: int, seed: int, folder: Path) -> Tally:
    """Damage a repository once a round, in a new copy, and go on committing."""
    tally, drawn = Tally(), random.Random(seed)
    template = folder / "template"
    with Repository.init(template) as repo:
        known = [content.commit(repo, number, number) for number in range(5)]
        repo.create_tag("first", known[0])
    for number in range(rounds):
        copy = folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(template, copy)
        _round(tally, drawn, copy, known, number)
    return tally


def _round(tally: Tally, drawn: random.Random, copy: Path, known: list[str], number: int) -> None:
    if number % 2:
        _stay_open(tally, drawn, copy, known, number)
        return
    place = _damage(drawn, copy)
    tally.note(f"damaged: {place.partition(' ')[0]}")
    later = []
    for turn in range(LATER):
        try:
            with Repository.open(copy) as repo:
                later.append(content.commit(repo, 50 + turn, number + turn))
        except MvcsError:
            tally.note("commits refused with an error")
    _check(tally, copy, known, later, f"round {number}, {place}")


def _stay_open(tally: Tally, drawn: random.Random, copy: Path, known: list[str], number: int) -> None:
    """A process that has bases in memory when the damage comes."""
    later = []
    with Repository.open(copy) as repo:
        later.append(content.commit(repo, 49, number))
        place = _damage(drawn, copy)
        tally.note(f"damaged: {place.partition(' ')[0]}")
        for turn in range(LATER):
            try:
                later.append(content.commit(repo, 50 + turn, number + turn))
            except MvcsError:
                tally.note("commits refused with an error")
    # The one before the damage may be what was hit.
    _check(tally, copy, [*known, later[0]], later[1:], f"round {number}, {place}")


def _damage(drawn: random.Random, copy: Path) -> str:
    files = sorted(path for path in (copy / ".mvcs").rglob("*") if path.is_file() and path.stat().st_size)
    packs = [path for path in files if path.suffix == ".pack"]
    path = drawn.choice(packs) if drawn.random() < 0.8 else drawn.choice(files)
    name = path.relative_to(copy / ".mvcs").as_posix()
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    way = drawn.random()
    if way < 0.7:
        bit = drawn.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        return f"bit {bit} of {name}"
    if way < 0.85:
        start = drawn.randrange(len(data))
        data[start : start + 512] = bytes(len(data[start : start + 512]))
        path.write_bytes(data)
        return f"zeros from {start} of {name}"
    if way < 0.95:
        path.write_bytes(data[: drawn.randrange(len(data))])
        return f"cut {name}"
    path.unlink()
    return f"deleted {name}"


def _check(tally: Tally, copy: Path, known: list[str], later: list[str], what: str) -> None:
    for name, acknowledged in [*((name, False) for name in known), *((name, True) for name in later)]:
        try:
            with Repository.open(copy) as repo:
                right = content.restores(repo, name)
        except MvcsError as error:
            if acknowledged:
                tally.fail(f"{what}: a commit made after it cannot be read: {error.message}")
            else:
                tally.note("older commits refused with an error")
        except ValueError as error:
            tally.fail(f"{what}: {type(error).__name__} {error}")
        else:
            tally.check(right, f"{what}: commit {name[:12]} restores other values")
            tally.note("later commits restored" if acknowledged else "older commits restored")
    _give_up(tally, copy, what)


def _give_up(tally: Tally, copy: Path, what: str) -> None:
    """Have a repair give up what is lost: then the rest is whole, and nothing refuses any more."""
    try:
        with Repository.open(copy) as repo:
            for found in repo.repair().newest:
                if found.commit is not None and not found.tip:
                    repo.reset(found.commit)
            report = repo.repair(give_up=True)
            names = [info.id for info in repo.log(all_branches=True)]
    except MvcsError as error:
        tally.note(f"repairs that refused: {error.message[:40]}")
        return
    if any(problem.kind in ("HEAD", "ref") for problem in report.problems):
        tally.note("a person has to say where HEAD or a branch stands")
        return
    with Repository.open(copy) as repo:
        tally.note("stores whole after giving up" if report.losses else "stores whole after a repair")
        tally.check(report.ok, f"{what}: a repair that gives up leaves {report.problems[:2]}")
        tally.note("commits given up", len(report.given_up))
        for name in names:
            if not repo.resolve(name).data_dropped:
                right = content.restores(repo, name)
                tally.check(right, f"{what}: commit {name[:12]}, not given up, restores other values")
        try:
            repo.compact()
            repo.gc(grace_days=0, wait_days=0, execute=True)
            Repository.clone(str(copy / ".mvcs"), copy / "clone").close()
        except MvcsError as error:
            tally.fail(f"{what}: {error.message} after giving up {len(report.given_up)} commits")
        found = repo.fsck()
        tally.check(found.ok, f"{what}: fsck says {found.problems[:2]} after giving up")
