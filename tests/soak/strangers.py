"""Repositories that a stranger made: true hashes over false contents, and footers that lie."""

import contextlib
import io
import random
import shutil
import time
from pathlib import Path

import numpy as np

from mvcs import Repository
from mvcs.cli import main
from mvcs.errors import MvcsError
from tests.soak import content
from tests.soak.forgery import false_footer, false_object, source_of
from tests.soak.forked import Say, limited, run
from tests.soak.tally import Tally

MEMORY = 3 << 30


def trials(rounds: int, seed: int, folder: Path) -> Tally:
    """Make `rounds` hostile repositories; read each, and fetch from it into one with work of its own."""
    tally, drawn = Tally(), random.Random(seed)
    template, ada, victim = folder / "template", folder / "ada", folder / "victim"
    _template(template)
    Repository.clone(str(template), ada).close()
    with Repository.open(ada) as repo:
        own = content.commit(repo, 7, 1)
    source = source_of(template)
    for number in range(rounds):
        hostile = folder / "hostile"
        for old in (hostile, victim):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(ada, victim)
        made = (false_object, false_footer)[number % 2](drawn, source, hostile, template)
        what = f"round {number}, {made}"
        _attack(tally, hostile, folder / "out", what)
        _fetch(tally, hostile, victim, own, what)
        for escaped in (folder / "escape", folder.parent / "escape"):
            tally.check(not escaped.exists(), f"{what}: something was written outside the target")
    return tally


def _template(folder: Path) -> None:
    with Repository.init(folder) as repo:
        for number in range(3):
            repo.commit(_told(number), message=str(number), step=number, **content.QUANTIZERS[number])
        path = folder / "model.npz"
        np.savez(path, w=_told(9)["w"])
        repo.commit_files([path], message="files")
        repo.create_tag("v1", message="tag")


def _told(number: int) -> dict[str, object]:
    """A state that the stranger's repository claims to hold, and that the victim may commit, too."""
    weight = np.random.default_rng(number).standard_normal((8, 16)).astype(np.float32)
    return {"w": weight, "step": number, "more": ["x", {1: 2.5}]}


def _own_files(victim: Path) -> dict[str, bytes]:
    kept = [victim / ".mvcs" / name for name in ("packs", "exact")]
    return {str(path): path.read_bytes() for top in kept for path in top.rglob("*") if path.is_file()}


COMMANDS = (
    ("log",),
    ("show",),
    ("status",),
    ("diff", "main~1", "main"),
    ("checkout", "main", "-o", "{out}/one.npz"),
    ("checkout", "main", "-o", "{out}/several"),
    ("checkout", "main", "--force"),
    ("fsck",),
)


def _attack(tally: Tally, hostile: Path, out: Path, what: str) -> None:
    """Read a hostile repository in every way there is, within limits."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()

    def reading(say: Say) -> None:
        with limited(MEMORY), contextlib.chdir(hostile):
            for words in COMMANDS:
                errors = io.TextIOWrapper(io.BytesIO(), "utf-8")
                answers = io.TextIOWrapper(io.BytesIO(), "utf-8")
                with contextlib.redirect_stdout(answers), contextlib.redirect_stderr(errors):
                    code = main([word.format(out=out) for word in words])
                    errors.flush()
                say([words[0], code, errors.buffer.getvalue().decode()[-400:], time.process_time()])

    ended = run(reading)
    tally.check(not ended.signal, f"{what}: signal {ended.signal} after {ended.said[-1:]}")
    tally.check(not ended.trace, f"{what}: {ended.trace}")
    for command, code, said, seconds in ended.said:
        tally.slowest = max(tally.slowest, seconds)
        tally.note("commands that refused" if code else "commands that answered")
        tally.check("unexpected" not in said, f"{what}: {command} says {said}")


def _fetch(tally: Tally, hostile: Path, victim: Path, own: str, what: str) -> None:
    """Fetch from it, then go on in the victim, with what the stranger claims to hold as well."""
    before = _own_files(victim)

    def fetching(say: Say) -> None:
        with limited(MEMORY), Repository.open(victim) as repo:
            with contextlib.suppress(MvcsError):
                repo.remove_remote("eve")
            repo.add_remote("eve", str(hostile / ".mvcs"))
            try:
                repo.fetch("eve")
                say("fetched")
            except MvcsError as error:
                say(f"refused: {error.message}"[:300])

    ended = run(fetching)
    tally.check(not ended.signal, f"{what}: fetch ended by signal {ended.signal}")
    tally.check(not ended.trace, f"{what}: fetch: {ended.trace}")
    for said in ended.said:
        tally.note(
            "fetches that were refused" if str(said).startswith("refused") else "fetches that were taken"
        )
    with Repository.open(victim) as repo:
        tally.check(content.restores(repo, own), f"{what}: the victim's own commit restores something else")
        for number in range(3):
            made = repo.commit(_told(number), message="told")
            with Repository.open(victim) as again:
                found = again.checkout(made.id, numpy=True)
            tally.check(bool((found["w"] == _told(number)["w"]).all()), f"{what}: a later commit is another")
    kept = _own_files(victim)
    tally.check(before.items() <= kept.items(), f"{what}: packs of the victim changed or went")
