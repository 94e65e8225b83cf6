"""Bits and blocks change anywhere in a store: no wrong value is read, and a repair with a remote mends it."""

import random
import shutil
from pathlib import Path

from mvcs import Repository
from mvcs.errors import CorruptionError, MvcsError, NotFoundError, UnsupportedFormatError
from mvcs.local import Trust, describe_damaged
from tests.soak import content
from tests.soak.tally import Tally

COMMITS = 6
STORE = ("packs", "exact", "refs", "retention", "mvcs.json")


def trials(rounds: int, seed: int, folder: Path) -> Tally:
    """Change something of a store once a round, in a new copy; read it, repair it, read it again."""
    tally, drawn = Tally(), random.Random(seed)
    template = folder / "template"
    with Repository.init(template) as repo:
        known = [content.commit(repo, number, number) for number in range(COMMITS)]
        repo.create_tag("first", known[0])
        repo.note(known[1], {"loss": 0.5})
        repo.add_remote("origin", str(folder / "far"))
        repo.push(exact=True, tags=True)
    for number in range(rounds):
        copy = folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(template, copy)
        path, place = _damage(drawn, copy / ".mvcs")
        what = f"round {number}, {place}"
        tally.note(f"damaged: {place.partition(' ')[0]} of {path.parts[0]}")
        _read(tally, copy, known, what)
        _repair(tally, copy, template, path, what)
        _restored(tally, copy, known, what)
    return tally


def _files(store: Path) -> list[Path]:
    found = [store / "mvcs.json", *(path for name in STORE for path in (store / name).rglob("*"))]
    return sorted(path for path in found if path.is_file())


def _damage(drawn: random.Random, store: Path) -> tuple[Path, str]:
    """Change one bit, or a block, of a file; every file is as likely, or every byte of the store."""
    files = _files(store)
    sizes = [path.stat().st_size for path in files]
    [path] = drawn.choices(files, sizes if drawn.random() < 0.5 else None)
    data = bytearray(path.read_bytes())
    name = path.relative_to(store)
    place = drawn.randrange(len(data))
    path.chmod(0o644)
    if drawn.random() < 0.5:
        data[place] ^= 1 << drawn.randrange(8)
        kind = "bit"
    else:
        length = min(drawn.choice((16, 512, 4096)), len(data) - place)
        data[place : place + length] = drawn.choice((bytes(length), drawn.randbytes(length)))
        kind = "block"
    path.write_bytes(data)
    return name, f"{kind} at {place} of {name}"


def _read(tally: Tally, copy: Path, known: list[str], what: str) -> None:
    """What is damaged is an error that says so, or another copy of it is read."""
    for identifier in known:
        try:
            with Repository.open(copy) as repo:
                right = content.restores(repo, identifier)
        except (CorruptionError, NotFoundError, UnsupportedFormatError) as error:
            tally.note("refused with an error")
            named = any(
                word in error.message for word in ("object", "pack", "record", "mvcs.json", ".mvcs", "commit")
            )
            tally.check(named, f"{what}: the error names nothing: {error.message}")
        except (MvcsError, ValueError) as error:
            tally.fail(f"{what}: {type(error).__name__} {error}")
        else:
            tally.note("restored all the same")
            tally.check(right, f"{what}: commit {identifier[:12]} restores other values")


def _repair(tally: Tally, copy: Path, template: Path, path: Path, what: str) -> None:
    if describe_damaged(str(copy), Trust.of_user()):
        tally.note("mended: the description of the store")
    with Repository.open(copy) as repo:
        if repo.fsck().ok:
            tally.note("nothing was wrong")
        report = repo.repair()
        for one in report.mended:
            tally.note(f"mended: {one.how.partition(' at ')[0]}")
        after = repo.fsck()
    tally.check(not report.losses, f"{what}: {report.losses}")
    if path.parts[0] in ("packs", "exact"):
        data = (template / ".mvcs" / path).read_bytes()
        tally.check((copy / ".mvcs" / path).read_bytes() == data, f"{what}: it is not as it was")
    # What an older record said is told by it alone; nothing else is lost with it.
    is_record = path.parts[0] == "refs"
    if is_record and not after.ok:
        tally.note("lost: what a name stood at before")
    tally.check(after.ok or is_record, f"{what}: {[problem.message for problem in after.problems]}")


def _restored(tally: Tally, copy: Path, known: list[str], what: str) -> None:
    with Repository.open(copy) as repo:
        head = repo.head()
        stands = head is not None and head.id == known[-1]
        tally.check(stands, f"{what}: the branch stands elsewhere")
        tags = [tag.commit for tag in repo.tags() if tag.name == "first"]
        tally.check(tags == [known[0]], f"{what}: the tag stands elsewhere")
        tally.check(
            [dict(note.metrics) for note in repo.notes(known[1])] == [{"loss": 0.5}],
            f"{what}: the note is gone",
        )
        for identifier in known:
            tally.check(
                content.restores(repo, identifier), f"{what}: commit {identifier[:12]} is other than it was"
            )
