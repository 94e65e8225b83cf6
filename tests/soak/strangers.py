"""Repositories that a stranger made: true hashes over false contents, and footers that lie."""

import contextlib
import io
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mvcs import Repository
from mvcs.cli import main
from mvcs.delta.encoding import Encoding, decode
from mvcs.errors import MvcsError
from mvcs.objects import cbor
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.refs.refstore import HEADS, RefChange, RefStore
from mvcs.store.backend import open_backend
from mvcs.store.backend.staged import StagedBytes
from mvcs.store.packs.entry import OPAQUE, Entry, Member
from mvcs.store.packs.footer import TRAILER_BYTES, Tail
from mvcs.store.packs.pack import PackWriter, name_of
from mvcs.store.packs.written_commit import WrittenCommit
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import pack_path
from tests.soak import content
from tests.soak.forked import Say, limited, run
from tests.soak.tally import Tally

SECONDS, MEMORY = 10, 3 << 30
LARGE = (
    0,
    1,
    -1,
    255,
    1 << 16,
    (1 << 31) - 1,
    1 << 32,
    (1 << 53) + 1,
    (1 << 63) - 1,
    1 << 64,
    -(1 << 63),
    1 << 4000,
)
TEXTS = (
    "",
    "..",
    "../../escape",
    "/etc/passwd",
    ".git/config",
    ".mvcs/config.toml",
    "a" * 4000,
    "\x1b[2J",
    "CON",
    "a/" * 2000 + "b",
    "\u202e",
    "float32",
    "bfloat16",
)
Objects = dict[ObjectId, tuple[Kind, bytes]]


def trials(rounds: int, seed: int, folder: Path) -> Tally:
    """Make `rounds` hostile repositories; read each, and fetch from it into one with work of its own."""
    tally, drawn = Tally(), random.Random(seed)
    template, ada, victim = folder / "template", folder / "ada", folder / "victim"
    _template(template)
    Repository.clone(str(template), ada).close()
    with Repository.open(ada) as repo:
        own = content.commit(repo, 7, 1)
    source = _source(template)
    for number in range(rounds):
        hostile = folder / "hostile"
        for old in (hostile, victim):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(ada, victim)
        made = (_false_object, _false_footer)[number % 2](drawn, source, hostile, template)
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


def _source(template: Path) -> tuple[Objects, ObjectId]:
    """Return every object of a repository, and the commit its main names."""
    with Repository.open(template) as repo:
        store = ObjectStore(repo._session.place.backend)
        store.catalog.attach_everything()
        objects: Objects = {}
        for footer in store.catalog._footers.values():
            for placed in footer.entries:
                for member, identifier in zip(placed.entry.members, placed.ids, strict=True):
                    objects[identifier] = (member.kind, store.read(member.kind, identifier))
        head = repo._session.head()
        assert head is not None
        return objects, head.id


def _false_object(
    drawn: random.Random, source: tuple[Objects, ObjectId], hostile: Path, template: Path
) -> str:
    """Change one structured object, and all that name it, so that every hash is right."""
    objects, head = source
    structured = [name for name, (kind, _) in objects.items() if kind is not Kind.CHUNK]
    chosen = drawn.choice(sorted(structured))
    kind, data = objects[chosen]
    for _ in range(20):
        try:
            changed = cbor.dumps(_mutated(drawn, cbor.loads(data)))
            break
        except MvcsError:
            continue
    else:
        changed = data[: drawn.randrange(len(data))]
    fresh = _renamed(dict(objects), chosen, (kind, changed))
    _write_store(hostile, template, fresh[0], fresh[1].get(head, head))
    return f"a changed {kind.name.lower()}"


def _renamed(
    objects: Objects, name: ObjectId, changed: tuple[Kind, bytes]
) -> tuple[Objects, dict[ObjectId, ObjectId]]:
    """Replace an object; whatever names it names the new one, up to the commits."""
    moved: dict[ObjectId, ObjectId] = {}
    waiting = [(name, changed)]
    while waiting:
        old, (kind, data) = waiting.pop()
        new = object_id(kind, data)
        del objects[old]
        objects[new] = (kind, data)
        moved[old] = new
        for other, (its, text) in list(objects.items()):
            if its is not Kind.CHUNK and bytes(old) in text and other != new:
                waiting = [item for item in waiting if item[0] != other]
                waiting.append((other, (its, text.replace(bytes(old), bytes(new)))))
    final = {}
    for old in moved:
        last = old
        while last in moved and moved[last] != last:
            last = moved[last]
        final[old] = last
    return objects, final


def _mutated(drawn: random.Random, value: Any) -> Any:
    """Return a value with one thing in it changed."""
    if isinstance(value, list) and value and drawn.random() < 0.8:
        items = list(value)
        index = drawn.randrange(len(items))
        items[index] = _mutated(drawn, items[index])
        return items
    return _other(drawn, value)


def _other(drawn: random.Random, value: Any) -> Any:
    ways: list[Callable[[], Any]] = [
        lambda: drawn.choice(LARGE),
        lambda: drawn.choice(TEXTS),
        lambda: None,
        list,
        lambda: [value, value],
        lambda: drawn.randbytes(32),
        lambda: float("nan"),
        lambda: True,
    ]
    if isinstance(value, list):
        ways += [lambda: value[::-1], lambda: value * 3, lambda: value[:-1], lambda: [value]]
    if isinstance(value, int) and not isinstance(value, bool):
        ways += [lambda: value + 1, lambda: value - 1, lambda: value ^ 1 << drawn.randrange(60)] * 3
    if isinstance(value, bytes) and value:
        ways += [lambda: value[:-1], lambda: bytes(len(value)), lambda: value[::-1]] * 3
    return drawn.choice(ways)()


def _false_footer(
    drawn: random.Random, source: tuple[Objects, ObjectId], hostile: Path, template: Path
) -> str:
    """Change what the footer of a pack says, and seal it again."""
    objects, head = source

    def lie(data: bytes) -> bytes:
        tail = Tail.parse(data)
        raw = data[tail.footer_offset + 1 : -TRAILER_BYTES]
        encoding = Encoding(data[tail.footer_offset])
        told = decode(encoding, raw, lengths=[tail.raw_length], element=OPAQUE)
        changed = cbor.dumps(_mutated(drawn, cbor.loads(told)))
        stored = bytes([Encoding.RAW]) + changed
        false = Tail(tail.footer_offset, len(stored), len(changed), b"")
        return data[: tail.footer_offset] + stored + false.encode(stored)

    for _ in range(20):
        try:
            _write_store(hostile, template, objects, head, lie)
        except MvcsError:
            shutil.rmtree(hostile, ignore_errors=True)
            continue
        return "a changed footer"
    return "nothing"


def _write_store(
    hostile: Path,
    template: Path,
    objects: Objects,
    head: ObjectId,
    lie: Callable[[bytes], bytes] = lambda data: data,
) -> None:
    """Put objects into one pack, alone each, and point main at a commit."""
    written: list[bytes] = []
    file = StagedBytes(lambda _, data: written.append(data))
    pack = PackWriter(file)
    for identifier, (kind, data) in objects.items():
        pack.add(Entry((Member(kind, len(data)),), Encoding.RAW), data, (identifier,))
    commits = [WrittenCommit(head, objects[head][1], "", 1, 1, 0, 0)] if head in objects else []
    name, _ = pack.finish(tuple(commits))
    file.publish(name)
    data = lie(written[0])
    (hostile / ".mvcs").mkdir(parents=True)
    for name in ("mvcs.json", "HEAD"):
        shutil.copy(template / ".mvcs" / name, hostile / ".mvcs" / name)
    backend = open_backend(str(hostile / ".mvcs"))
    name = name_of(data)
    backend.put(pack_path(name), data)
    RefStore(backend).update(HEADS, "main", None, RefChange(head, name, "eve", "commit"))


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
        with limited(SECONDS, MEMORY), contextlib.chdir(hostile):
            for words in COMMANDS:
                errors = io.TextIOWrapper(io.BytesIO(), "utf-8")
                answers = io.TextIOWrapper(io.BytesIO(), "utf-8")
                with contextlib.redirect_stdout(answers), contextlib.redirect_stderr(errors):
                    code = main([word.format(out=out) for word in words])
                    errors.flush()
                say([words[0], code, errors.buffer.getvalue().decode()[-400:]])

    ended = run(reading, seconds=60)
    tally.check(not ended.signal, f"{what}: signal {ended.signal} after {ended.said[-1:]}")
    tally.check(not ended.trace, f"{what}: {ended.trace}")
    for command, code, said in ended.said:
        tally.note("commands that refused" if code else "commands that answered")
        tally.check("unexpected" not in said, f"{what}: {command} says {said}")


def _fetch(tally: Tally, hostile: Path, victim: Path, own: str, what: str) -> None:
    """Fetch from it, then go on in the victim, with what the stranger claims to hold as well."""
    before = _own_files(victim)

    def fetching(say: Say) -> None:
        with limited(SECONDS, MEMORY), Repository.open(victim) as repo:
            with contextlib.suppress(MvcsError):
                repo.remove_remote("eve")
            repo.add_remote("eve", str(hostile / ".mvcs"))
            try:
                repo.fetch("eve")
                say("fetched")
            except MvcsError as error:
                say(f"refused: {error.message}"[:300])

    ended = run(fetching, seconds=60)
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
