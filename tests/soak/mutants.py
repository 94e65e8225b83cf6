"""Stores changed in one way each: right values or a clear error, soon and in little room."""

import contextlib
import io
import json
import os
import random
import resource
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

from mvcs import Repository
from mvcs.cli import main
from mvcs.errors import MvcsError
from tests.golden.make import digest
from tests.soak.forgery import Source, false_footer, false_object, false_tree, source_of
from tests.soak.forked import Ended, Say, run
from tests.soak.loose_packs import damaged, forge_pack, forge_record
from tests.soak.tally import Tally

MEMORY = 1 << 30
GOLDEN = Path(__file__).parents[1] / "golden"
COMMANDS = (("log", "--all"), ("show",), ("status",), ("checkout", "main", "-o", "{out}"), ("fsck",))
CODES = range(8)


@dataclass(frozen=True)
class Template:
    """A store that is whole, and what its commits restore.

    Attributes:
        folder: a repository.
        known: by commit id the digest of its values, and that of what its best layer has.
        source: every object of it.
        out: where a checkout of it goes to: a file for a state.
    """

    folder: Path
    known: dict[str, tuple[str, str]]
    source: Source
    out: str

    @classmethod
    def of(cls, folder: Path) -> "Template":
        """Read all of it."""
        known = {}
        with Repository.open(folder) as repo:
            for info in repo.log(all_branches=True):
                best = repo.restore(info.id, numpy=True)
                known[info.id] = digest(repo.checkout(info.id, numpy=True)), digest(best.state)
            is_state = repo.show("main").files is None
        return cls(folder, known, source_of(folder), "out.npz" if is_state else "out")


def trials(rounds: int, seed: int, folder: Path, first: int = 0) -> Tally:
    """Change `rounds` stores, and read each; the round of a number draws the same for the same seed.

    What breaks a promise is kept in `folder` as it was read, with what was counted so far.
    """
    tally = Tally()
    templates = _templates(folder / "templates")
    for number in range(first, first + rounds):
        drawn = random.Random(f"{seed}:{number}")
        place = folder / "round" / "here"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        template = drawn.choice(templates)
        made = _mutant(drawn, template, place / "hostile")
        broken = len(tally.broken)
        if made != "nothing":
            _read(tally, template, place, f"round {number} of seed {seed}, {template.folder.name}, {made}")
            tally.note(f"made: {made}")
        if number % 100 == 99:
            (folder / "tally.json").write_text(json.dumps([number + 1, tally.seen, tally.broken], indent=1))
        if len(tally.broken) > broken:
            shutil.copytree(place / "hostile", folder / "broken" / str(number), symlinks=True)
    return tally


def _templates(folder: Path) -> list[Template]:
    for name in ("v1", "huffman"):
        shutil.copytree(GOLDEN / name / "store", folder / name / ".mvcs")
        (folder / name / ".mvcs" / "HEAD").write_text("ref: main\n")
    _run(folder / "run")
    _files(folder / "files")
    return [Template.of(path) for path in sorted(folder.iterdir())]


def _run(folder: Path) -> None:
    """A history of a training run: codes of two bytes, moments of every form, averages."""
    model = torch.nn.Linear(16, 8)
    optimizer = torch.optim.AdamW(model.parameters())
    with Repository.init(folder) as repo:
        for step in range(4):
            model(torch.ones(2, 16)).sum().backward()
            optimizer.step()
            half = {name: value.bfloat16() for name, value in model.state_dict().items()}
            state = {"model": model.state_dict(), "half": half, "optimizer": optimizer.state_dict()}
            repo.commit({**state, "step": step}, step=step, step_size=0.5)
        repo.create_tag("v1", message="tag")
        repo.note("main", {"accuracy": 0.5})


def _files(folder: Path) -> None:
    with Repository.init(folder) as repo:
        for step in range(2):
            values = {"w": np.arange(64, dtype=np.float32).reshape(8, 8) + step, "b": np.zeros(3, np.int16)}
            save_file(values, folder / "model.safetensors", metadata={"step": str(step)})
            np.savez(folder / "data.npz", **values)
            torch.save({"w": torch.arange(6.0), "more": [1, "a", {"b": 2.5}]}, folder / "more.pt")
            (folder / "notes").mkdir(exist_ok=True)
            (folder / "notes" / "read.me").write_bytes(b"x" * 5000 + bytes([step]))
            names = ["model.safetensors", "data.npz", "more.pt", "notes"]
            repo.commit_files([folder / name for name in names], message=f"{step}", step_size=0.5)


def _mutant(drawn: random.Random, template: Template, hostile: Path) -> str:
    way = drawn.choices(WAYS, WEIGHTS)[0]
    if way in (false_object, false_footer, false_tree):
        return way(drawn, template.source, hostile, template.folder)
    shutil.copytree(template.folder, hostile)
    return way(drawn, hostile / ".mvcs")


def _damage_file(drawn: random.Random, store: Path) -> str:
    """Change the bytes of a file and leave its sums as they are."""
    path = _any_file(drawn, store)
    path.write_bytes(damaged(drawn, path.read_bytes()))
    return f"damage in {_kind(store, path)}"


def _exchange_files(drawn: random.Random, store: Path) -> str:
    """Put a file, or a part of it, in the place of another."""
    one, other = _any_file(drawn, store), _any_file(drawn, store)
    data, theirs = one.read_bytes(), other.read_bytes()
    if drawn.random() < 0.5:
        one.write_bytes(theirs)
        other.write_bytes(data)
        return f"{_kind(store, one)} and {_kind(store, other)} swapped"
    cut = drawn.randrange(min(len(data), len(theirs)) + 1)
    one.write_bytes(data[:cut] + theirs[cut:])
    return f"{_kind(store, one)} spliced with {_kind(store, other)}"


def _lose_file(drawn: random.Random, store: Path) -> str:
    path = _any_file(drawn, store)
    kind, way = _kind(store, path), drawn.randrange(4)
    data = path.read_bytes()
    path.unlink()
    if way == 0:
        path.mkdir()
    elif way == 1:
        path.symlink_to(drawn.choice(("/etc/passwd", "/dev/zero", "..", str(path))))
    elif way == 2:
        path.write_bytes(data[: drawn.randrange(len(data) + 1)])
    return f"{kind} {('a folder', 'a link', 'cut', 'gone')[way]}"


def _copy_file(drawn: random.Random, store: Path) -> str:
    """Have a file once more, under the name that another might have."""
    path, beside = _any_file(drawn, store), _any_file(drawn, store)
    number = f"{drawn.randrange(100_000_000):08d}"
    names = (number, f"{drawn.randbytes(32).hex()}.pack", "9" * 8, "%2e%2e", "a" * 200)
    target = beside.with_name(drawn.choice(names))
    if not target.exists():
        shutil.copy(path, target)
    return f"{_kind(store, path)} copied beside {_kind(store, beside)}"


def _change_description(drawn: random.Random, store: Path) -> str:
    """Change what mvcs.json says."""
    path = store / "mvcs.json"
    told = json.loads(path.read_text())
    key = drawn.choice(sorted(told))
    values = (0, -1, 2, None, [], ["x"], {}, "", "x" * 32, "a" * 70000, 1e308, True, [[[]]] * 99)
    told[key] = drawn.choice(values)
    path.write_text(json.dumps(told) if drawn.random() < 0.9 else "[" * drawn.randrange(65536))
    return f"mvcs.json with another {key}"


def _any_file(drawn: random.Random, store: Path) -> Path:
    names = ("packs", "exact", "manifests", "refs", "retention")
    places = [store / name for name in names if any((store / name).rglob("*"))]
    files = [path for path in drawn.choice(places).rglob("*") if path.is_file()]
    if drawn.random() < 0.1 or not files:
        return drawn.choice([store / "mvcs.json", store / "HEAD"])
    return drawn.choice(sorted(files))


def _kind(store: Path, path: Path) -> str:
    return path.relative_to(store).parts[0]


Way = Callable[..., str]
WAYS: tuple[Way, ...] = (
    *(_damage_file, _exchange_files, _lose_file, _copy_file, _change_description),
    *(forge_pack, forge_record, false_object, false_footer, false_tree),
)
WEIGHTS = (10, 3, 3, 2, 1, 30, 6, 20, 5, 10)


def _read(tally: Tally, template: Template, place: Path, what: str) -> None:
    """Read a store in every way there is, in a process with limits of its own."""
    hostile, out = place / "hostile", place / template.out
    before = _outside(place)
    ended = run(lambda say: _reading(say, template, hostile, out))
    tally.check(not ended.signal, f"{what}: signal {ended.signal} after {ended.said[-1:]}")
    tally.check(not ended.trace, f"{what}: {ended.trace}")
    tally.check(_outside(place) == before, f"{what}: something was written outside the target")
    tally.check({path.name for path in place.iterdir()} <= {"hostile", template.out}, f"{what}: files beside")
    _judge(tally, ended, what)


def _outside(place: Path) -> set[str]:
    above = (path.name for folder in (place.parent, place.parent.parent) for path in folder.iterdir())
    return set(above) - {"broken", "tally.json"}


def _reading(say: Say, template: Template, hostile: Path, out: Path) -> None:
    most = _address_space() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    with contextlib.chdir(hostile):
        for words in COMMANDS:
            errors, answers = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
            start = time.process_time()
            with contextlib.redirect_stdout(answers), contextlib.redirect_stderr(errors):
                code = main([word.format(out=out) for word in words])
            errors.flush()
            said = errors.buffer.getvalue().decode()[-400:]
            say([words[0], code, time.process_time() - start, said])
        start = time.process_time()
        say(["values", _values(template, hostile), time.process_time() - start, ""])


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _values(template: Template, hostile: Path) -> str:
    """Restore what main names, in both ways; tell what became of it."""
    try:
        with Repository.open(hostile) as repo:
            identifier = repo.resolve("main").id
            found = digest(repo.checkout(identifier, numpy=True))
            best = repo.restore(identifier, numpy=True)
    except MvcsError as error:
        return f"refused, {type(error).__name__}"
    known = template.known.get(identifier)
    if known is None:
        return "restored, of a commit that was rebuilt"
    wanted = known[0] if best.lossy else known[1]
    return "restored" if (found, digest(best.state)) == (known[0], wanted) else "WRONG"


def _judge(tally: Tally, ended: Ended, what: str) -> None:
    for command, code, seconds, said in ended.said:
        tally.slowest = max(tally.slowest, seconds)
        if command == "values":
            tally.check(code != "WRONG", f"{what}: other values than the commit has")
            tally.note(f"values {code}")
            continue
        tally.check(code in CODES, f"{what}: {command} ended with {code}: {said}")
        unexpected = "unexpected" in said or "memory is not enough" in said or "Traceback" in said
        tally.check(not unexpected, f"{what}: {command} says {said}")
        tally.note(f"{command} ended with {code}")
