"""Stores that somebody forges: objects changed with all that names them, packs and records sealed anew."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mvcs import Repository
from mvcs.delta.encoding import Encoding, decode
from mvcs.errors import MvcsError
from mvcs.objects import cbor
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.refs.refstore import HEADS, RefChange, RefStore
from mvcs.store.backend import open_backend
from mvcs.store.backend.staged import StagedBytes
from mvcs.store.manifests import Manifest, Placement, WrittenCommit, manifest_path
from mvcs.store.packs.entry import OPAQUE, Entry, Member
from mvcs.store.packs.footer import TRAILER_BYTES, Tail
from mvcs.store.packs.pack import PackWriter, name_of
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import pack_path
from tests.soak.hand_made import TreeMaker

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
Source = tuple[Objects, ObjectId]


def source_of(template: Path) -> Source:
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


def false_object(drawn: random.Random, source: Source, hostile: Path, template: Path) -> str:
    """Change one structured object, and all that name it, so that every hash is right."""
    objects, head = source
    structured = [name for name, (kind, _) in objects.items() if kind is not Kind.CHUNK]
    chosen = drawn.choice(sorted(structured))
    kind, data = objects[chosen]
    for _ in range(20):
        try:
            changed = cbor.dumps(mutated(drawn, cbor.loads(data)))
            break
        except MvcsError:
            continue
    else:
        changed = data[: drawn.randrange(len(data))]
    fresh = _renamed(dict(objects), chosen, (kind, changed))
    write_store(hostile, template, fresh[0], fresh[1].get(head, head))
    return f"a changed {kind.name.lower()}"


def false_tree(drawn: random.Random, source: Source, hostile: Path, template: Path) -> str:
    """Have the newest commit hold a tree made by hand, with every hash right."""
    objects, head = source
    trees = sorted(name for name, (kind, _) in objects.items() if kind is Kind.TREE)
    changed = Kind.TREE, TreeMaker(drawn, objects).tree()
    fresh = _renamed(dict(objects), drawn.choice(trees), changed)
    write_store(hostile, template, fresh[0], fresh[1].get(head, head))
    return "a tree made by hand"


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


def mutated(drawn: random.Random, value: Any) -> Any:
    """Return a value with one thing in it changed."""
    if isinstance(value, list) and value and drawn.random() < 0.8:
        items = list(value)
        index = drawn.randrange(len(items))
        items[index] = mutated(drawn, items[index])
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


def false_footer(drawn: random.Random, source: Source, hostile: Path, template: Path) -> str:
    """Change what the footer of a pack says, and seal it again."""
    objects, head = source

    def lie(data: bytes) -> bytes:
        tail = Tail.parse(data)
        raw = data[tail.footer_offset + 1 : -TRAILER_BYTES]
        encoding = Encoding(data[tail.footer_offset])
        told = decode(encoding, raw, lengths=[tail.raw_length], element=OPAQUE)
        changed = cbor.dumps(mutated(drawn, cbor.loads(told)))
        stored = bytes([Encoding.RAW]) + changed
        false = Tail(tail.footer_offset, len(stored), len(changed), b"")
        return data[: tail.footer_offset] + stored + false.encode(stored)

    for _ in range(20):
        try:
            write_store(hostile, template, objects, head, lie)
        except MvcsError:
            shutil.rmtree(hostile, ignore_errors=True)
            continue
        return "a changed footer"
    return "nothing"


def write_store(
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
    name, _ = pack.finish()
    file.publish(name)
    data = lie(written[0])
    (hostile / ".mvcs").mkdir(parents=True)
    for name in ("mvcs.json", "HEAD"):
        shutil.copy(template / ".mvcs" / name, hostile / ".mvcs" / name)
    backend = open_backend(str(hostile / ".mvcs"))
    name = name_of(data)
    backend.put(pack_path(name), data)
    for identifier, (kind, data) in objects.items():
        if kind is Kind.COMMIT:
            written = WrittenCommit(identifier, data, 1, 1)
            backend.create(manifest_path(identifier, 0), Manifest(written, Placement((name,))).encode())
    RefStore(backend).update(HEADS, "main", None, RefChange(head, "eve", "commit"))
