"""Files that somebody writes while they are committed."""

import mmap
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

from mvcs import Repository
from mvcs.errors import ConflictError, FileFormatError
from tests.soak import content
from tests.soak.forked import Say, run
from tests.soak.tally import Tally

Write = Callable[[Path, random.Random], None]


def _mapped(path: Path, drawn: random.Random) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        for _ in range(50):
            start = drawn.randrange(2000, len(view) - 8)
            view[start : start + 8] = drawn.randbytes(8)


def _written(path: Path, drawn: random.Random) -> None:
    with path.open("r+b") as file:
        for _ in range(20):
            file.seek(drawn.randrange(2000, path.stat().st_size - 8))
            file.write(drawn.randbytes(8))


def _cut(path: Path, drawn: random.Random) -> None:
    size = path.stat().st_size
    os.truncate(path, drawn.randrange(size // 4, size))


def _replaced(path: Path, drawn: random.Random) -> None:
    other = path.with_name("other")
    content.write(other, drawn.randrange(1000))
    other.replace(path)


def _grown(path: Path, drawn: random.Random) -> None:
    with path.open("ab") as file:
        file.write(drawn.randbytes(64))


WAYS: tuple[Write, ...] = (_mapped, _written, _cut, _replaced, _grown)


def trials(rounds: int, seed: int, folder: Path) -> Tally:
    """Rewrite a file during `rounds` commits of it."""
    tally, drawn = Tally(), random.Random(seed)
    Repository.init(folder).close()
    for number in range(rounds):
        way = WAYS[number % len(WAYS)]
        ended = run(_committing(folder, number, way, drawn.randrange(1 << 30)))
        what = f"round {number}, {way.__name__[1:]}"
        tally.check(not ended.signal, f"{what}: signal {ended.signal}")
        tally.check(not ended.trace, f"{what}: {ended.trace}")
        for said in ended.said:
            tally.note(str(said).partition(" ")[0])
            if str(said).startswith("committed"):
                _check(tally, folder, str(said).split()[1], what)
    with Repository.open(folder) as repo:
        report = repo.fsck()
        tally.check(report.ok, f"fsck says {report.problems[:3]}")
    return tally


def _committing(folder: Path, number: int, way: Write, seed: int) -> Callable[[Say], None]:
    def work(say: Say) -> None:
        path, drawn, ended = folder / "model.safetensors", random.Random(seed), threading.Event()
        content.write(path, number)

        def disturb() -> None:
            while not ended.wait(drawn.uniform(0, 0.02)):
                try:
                    way(path, drawn)
                except (OSError, ValueError):
                    content.write(path, number)

        writer = threading.Thread(target=disturb)
        writer.start()
        try:
            with Repository.open(folder) as repo:
                info = repo.commit_files([path], message=str(number), **content.QUANTIZERS[number % 2])
            say(f"committed {info.id}")
        except ConflictError as error:
            say("conflict" if "model.safetensors" in str(error) else f"unnamed {error}")
        except FileFormatError:
            say("malformed")
        finally:
            ended.set()
            writer.join()

    return work


def _check(tally: Tally, folder: Path, identifier: str, what: str) -> None:
    with Repository.open(folder) as repo:
        for exact in (False, True):
            try:
                repo.checkout(identifier, numpy=True, exact=exact)
            except Exception as error:  # noqa: BLE001 - whatever it is, an acknowledged commit is unreadable
                tally.fail(f"{what}: {identifier[:12]} cannot be read, exact={exact}: {error}")
