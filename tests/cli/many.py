"""Repositories with a great number of something small, as a stranger would make them."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mvcs import Repository
from mvcs.delta.choose import choose_opaque
from mvcs.delta.element import ElementFormat
from mvcs.delta.encoding import Encoding, encode
from mvcs.objects import cbor
from mvcs.objects.chunk_grid import dtype_named
from mvcs.objects.commit import Commit
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.objects.tensors import ExactTensor
from mvcs.objects.trees.leaves import FileEntry, FileFormat, Leaf
from mvcs.objects.trees.tree import Tree
from mvcs.refs.refstore import HEADS, RefChange, RefStore
from mvcs.retention.drops import Drop, DropLog
from mvcs.store.backend import Backend
from mvcs.store.manifests import Manifest, Manifests, Placement, WrittenCommit
from mvcs.store.packs.entry import FRAME_BYTES, Entry, EntryBase, Member
from mvcs.store.packs.expansion_limit import choose_described
from mvcs.store.packs.footer import Tail
from mvcs.store.packs.pack import name_of
from mvcs.store.reading.pack_files import pack_path
from tests.cli.hostile import FLOAT32, constant
from tests.store.packing import PackBuilder

BYTES, UINT8 = ElementFormat(1, floating=False), dtype_named("uint8")
EMPTY = Leaf(ExactTensor(FLOAT32, (0,), ()))


class Forger:
    """One pack of any entries, which ends a commit on main."""

    def __init__(self, folder: Path) -> None:
        if not (folder / ".mvcs").exists():
            Repository.init(folder).close()
        self.folder = folder
        self.pack = PackBuilder()

    def put(self, kind: Kind, content: bytes) -> ObjectId:
        """Store an object in an entry of its own, as small as readers believe."""
        identifier = object_id(kind, content)
        described = choose_described if kind is not Kind.CHUNK else choose_opaque
        encoding, payload = described(content)
        self.pack.add(Entry((Member(kind, len(content)),), encoding), payload, (identifier,))
        return identifier

    def bundle(self, contents: list[bytes]) -> list[ObjectId]:
        """Store chunks in one entry."""
        ids = [object_id(Kind.CHUNK, content) for content in contents]
        encoding, payload = choose_opaque(b"".join(contents))
        self.pack.add(
            Entry(tuple(Member(Kind.CHUNK, len(one)) for one in contents), encoding), payload, tuple(ids)
        )
        return ids

    def commit(self, tree: Tree | bytes, message: str = "hello", **more: Any) -> Backend:
        """End the pack with a commit; return where it lies."""
        content = tree if isinstance(tree, bytes) else tree.encode()
        return self.end(self.put(Kind.TREE, content), message, **more)

    def end(
        self,
        tree: ObjectId,
        message: str = "hello",
        others: tuple[str, ...] = (),
        ancestors: tuple[WrittenCommit, ...] = (),
        **fields: Any,
    ) -> Backend:
        """End the pack with a commit of a tree that is stored."""
        with Repository.open(self.folder) as repo:
            backend, refs, head = repo._session.place.backend, repo._session.refs, repo._session.head()
        parents = () if head is None else (head.id,)
        made = Commit(tree, parents, "eve", 1, message, **fields)
        identifier = self.put(Kind.COMMIT, made.encode())
        data = self.pack.finish()
        name = name_of(data)
        backend.put(pack_path(name), data)
        written, placement = WrittenCommit(identifier, made.encode()), Placement((name,), others)
        Manifests(backend).write(Manifest(written, placement, ancestors))
        refs.update(HEADS, "main", refs.newest(HEADS, "main"), RefChange(identifier, "eve", "commit"))
        return backend


def _list_of(count: int) -> list[object]:
    return [0, *([9, number, 0] for number in range(count))]


def leaves_of_nothing(folder: Path, count: int) -> None:
    """Tensors without elements."""
    Forger(folder).commit(Tree((EMPTY,) * count, root=_list_of(count)))


def equal_numbers(folder: Path, count: int) -> None:
    """Tensors of one element that is said by the tensor."""
    Forger(folder).commit(Tree((constant(1, 1),) * count, root=_list_of(count)))


def ten_values(folder: Path, count: int) -> None:
    """Tensors of ten values, as a real state may have them, all in bundles."""
    forger = Forger(folder)
    leaves: list[Leaf] = []
    while len(leaves) < count:
        some = [
            struct.pack("<10i", *[number] * 10)
            for number in range(len(leaves), min(count, len(leaves) + 4096))
        ]
        leaves += [Leaf(ExactTensor(FLOAT32, (10,), (chunk,))) for chunk in forger.bundle(some)]
    names = [[f"layers.{number}.experts.gate_proj.weight", [9, number, 0]] for number in range(count)]
    forger.commit(Tree(tuple(leaves), root=[2, names]))


def aliases(folder: Path, count: int) -> None:
    """One tensor that is named again and again."""
    Forger(folder).commit(Tree((EMPTY,), root=[0, *[[9, 0, 0]] * count]))


def listed_chunks(folder: Path, count: int) -> None:
    """One tensor that names one chunk again and again."""
    forger = Forger(folder)
    chunk = forger.put(Kind.CHUNK, bytes(4 << 22))
    forger.commit(Tree((Leaf(ExactTensor(FLOAT32, (count << 22,), (chunk,) * count)),), root=[9, 0, 0]))


def many_files(folder: Path, count: int) -> None:
    """Files that are one blob."""
    forger = Forger(folder)
    chunk = forger.put(Kind.CHUNK, b"x")
    blob = forger.put(Kind.BLOB, cbor.dumps([1, [chunk]]))
    files = tuple(FileEntry(f"{number:07}", FileFormat.OPAQUE, [10, blob, 1]) for number in range(count))
    forger.commit(Tree((), files=files))


def many_folders(folder: Path, count: int) -> None:
    """Files that lie deep, each in folders of its own."""
    forger = Forger(folder)
    chunk = forger.put(Kind.CHUNK, b"x")
    blob = forger.put(Kind.BLOB, cbor.dumps([1, [chunk]]))
    deep = "/a" * 255
    files = tuple(
        FileEntry(f"{number:07}{deep}", FileFormat.OPAQUE, [10, blob, 1]) for number in range(count)
    )
    forger.commit(Tree((), files=files))


def nothings(folder: Path, count: int) -> None:
    """A list of nothing."""
    Forger(folder).commit(cbor.dumps(["state", [0, *[None] * count], []]))


def empty_lists(folder: Path, count: int) -> None:
    """A list of empty lists."""
    Forger(folder).commit(cbor.dumps(["state", [0, *[[0]] * count], []]))


def deep_lists(folder: Path, count: int) -> None:
    """Lists in lists, as deep as may be, again and again."""
    deep: list[object] = [0]
    for _ in range(60):
        deep = [0, deep]
    Forger(folder).commit(cbor.dumps(["state", [0, *[deep] * (count // 60)], []]))


def many_keys(folder: Path, count: int) -> None:
    """A mapping of numbers."""
    Forger(folder).commit(cbor.dumps(["state", [2, [[number, None] for number in range(count)]], []]))


def set_members(folder: Path, count: int) -> None:
    """A set."""
    Forger(folder).commit(cbor.dumps(["state", [13, *range(count)], []]))


def blob_references(folder: Path, count: int) -> None:
    """A list of one blob again and again."""
    forger = Forger(folder)
    chunk = forger.put(Kind.CHUNK, b"x")
    blob = forger.put(Kind.BLOB, cbor.dumps([1, [chunk]]))
    forger.commit(cbor.dumps(["state", [0, *[[10, blob, 1]] * count], []]))


def blob_chunks(folder: Path, count: int) -> None:
    """A blob that names one chunk again and again."""
    forger = Forger(folder)
    chunk = forger.put(Kind.CHUNK, bytes(1 << 24))
    blob = forger.put(Kind.BLOB, cbor.dumps([count << 24, [chunk] * count]))
    forger.commit(Tree((), files=(FileEntry("big", FileFormat.OPAQUE, [10, blob, count << 24]),)))


def _near(forger: Forger, encoding: Encoding, content: bytes, base: bytes) -> ObjectId:
    """Store a chunk near another."""
    bases = (EntryBase(object_id(Kind.CHUNK, base)),)
    payload = encode(encoding, content, element=BYTES, base=base)
    identifier = object_id(Kind.CHUNK, content)
    forger.pack.add(
        Entry((Member(Kind.CHUNK, len(content)),), encoding, BYTES, bases), payload, (identifier,)
    )
    return identifier


def deep_chains(folder: Path, count: int) -> None:
    """Chunks each near the one before, as many as an object may need, then many near the last."""
    forger, trunk = Forger(folder), 4000
    contents = [struct.pack("<I", number) + bytes(252) for number in range(count)]
    ids = [forger.put(Kind.CHUNK, contents[0])]
    for number, content in enumerate(contents[1:]):
        ids.append(_near(forger, Encoding.RANS_RESIDUAL, content, contents[min(number, trunk)]))
    leaves = tuple(Leaf(ExactTensor(UINT8, (256,), (one,))) for one in ids)
    forger.commit(Tree(leaves, root=_list_of(len(ids))))


def damaged_chain(folder: Path, count: int) -> None:
    """The same with the sixth chunk damaged, so that none behind it can be read."""
    deep_chains(folder, count)
    path = max((folder / ".mvcs" / "packs").rglob("*.pack"), key=lambda path: path.stat().st_size)
    data = bytearray(path.read_bytes())
    data[Tail.parse(bytes(data)).footer(_stored(data), path.stem).entries[5].offset + FRAME_BYTES] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)


def _stored(data: bytes | bytearray) -> bytes:
    tail = Tail.parse(bytes(data))
    return bytes(data[tail.footer_offset :][: tail.footer_length])


def unchanged_chain(folder: Path, count: int) -> None:
    """A chain of large chunks that differ from their bases in one code, and take a few bytes each."""
    forger, codes = Forger(folder), np.zeros(1 << 22, np.uint8)
    last = forger.put(Kind.CHUNK, codes.tobytes())
    for number in range(count):
        old = codes.tobytes()
        codes[number] = 1
        last = _near(forger, Encoding.RANS_DELTA, codes.tobytes(), old)
    forger.commit(Tree((Leaf(ExactTensor(UINT8, (codes.size,), (last,))),), root=_list_of(1)))


def many_entries(folder: Path, count: int) -> None:
    """Entries of nothing, which a footer lists."""
    forger = Forger(folder)
    nothing = object_id(Kind.CHUNK, b"")
    entry = Entry((Member(Kind.CHUNK, 0),), Encoding.RAW)
    for _ in range(count):
        forger.pack.add(entry, b"", (nothing,))
    forger.commit(Tree((EMPTY,), root=[9, 0, 0]))


def many_members(folder: Path, count: int) -> None:
    """One entry of members of nothing."""
    forger = Forger(folder)
    forger.bundle([b""] * count)
    forger.commit(Tree((EMPTY,), root=[9, 0, 0]))


def packs_that_are_named(folder: Path, count: int) -> None:
    """Packs that are said to be needed, and are nowhere."""
    forger = Forger(folder)
    tree = forger.put(Kind.TREE, Tree((EMPTY,), root=[9, 0, 0]).encode())
    forger.end(tree, others=tuple(f"{number:064x}" for number in range(count)))


def small_packs(folder: Path, count: int) -> None:
    """Packs that are there, and needed for nothing."""
    forger = Forger(folder)
    names = []
    with Repository.open(folder) as repo:
        backend = repo._session.place.backend
    for number in range(count):
        pack = PackBuilder()
        content = struct.pack("<I", number)
        pack.add(Entry((Member(Kind.CHUNK, 4),), Encoding.RAW), content, (object_id(Kind.CHUNK, content),))
        data = pack.finish()
        names.append(name_of(data))
        backend.put(pack_path(names[-1]), data)
    tree = forger.put(Kind.TREE, Tree((EMPTY,), root=[9, 0, 0]).encode())
    forger.end(tree, others=tuple(sorted(names)))


def long_message(folder: Path, count: int) -> None:
    """A commit with so many bytes of message."""
    Forger(folder).commit(Tree((EMPTY,), root=[9, 0, 0]), "x" * count)


def many_metrics(folder: Path, count: int) -> None:
    """A commit with metrics."""
    metrics = tuple((f"{number}", 1.0) for number in range(count))
    Forger(folder).commit(Tree((EMPTY,), root=[9, 0, 0]), metrics=metrics)


def told_at_length(folder: Path, count: int) -> None:
    """A commit that says where it came from with nothing, again and again."""
    Forger(folder).commit(Tree((EMPTY,), root=[9, 0, 0]), provenance=(("x", [None] * count),))


def many_branches(folder: Path, count: int) -> None:
    """Branches, all at one commit."""
    backend = Forger(folder).commit(Tree((EMPTY,), root=[9, 0, 0]))
    refs = RefStore(backend)
    main = refs.newest(HEADS, "main")
    for number in range(count):
        refs.update(HEADS, f"b{number}", None, RefChange(main.target, "eve", "branch"))


def many_records(folder: Path, count: int) -> None:
    """Records of main, all at one commit."""
    backend = Forger(folder).commit(Tree((EMPTY,), root=[9, 0, 0]))
    refs = RefStore(backend)
    main = refs.newest(HEADS, "main")
    for _ in range(count):
        main = refs.update(HEADS, "main", main, RefChange(main.target, "eve", "branch"))


def many_drops(folder: Path, count: int) -> None:
    """One record of layers that were given up."""
    backend = Forger(folder).commit(Tree((EMPTY,), root=[9, 0, 0]))
    DropLog(backend).append((Drop(ObjectId(bytes(32)), (), 0),) * count)


def dropped_packs(folder: Path, count: int) -> None:
    """One record of one layer that was given up, of many packs."""
    backend = Forger(folder).commit(Tree((EMPTY,), root=[9, 0, 0]))
    DropLog(backend).append((Drop(ObjectId(bytes(32)), ("00" * 32,) * count, 0),))


def long_description(folder: Path, count: int) -> None:
    """A description of the store with lists in lists."""
    Forger(folder).commit(Tree((EMPTY,), root=[9, 0, 0]))
    path = folder / ".mvcs/mvcs.json"
    path.chmod(0o644)
    path.write_text(path.read_text().replace("{", '{"more": ' + "[" * count + "]" * count + ",", 1))


MAKERS: dict[str, tuple[Callable[[Path, int], None], int]] = {
    maker.__name__: (maker, count)
    for maker, count in (
        (leaves_of_nothing, 50_000),
        (equal_numbers, 15_000),
        (ten_values, 10_000),
        (aliases, 100_000),
        (listed_chunks, 30_000),
        (many_files, 5_000),
        (many_folders, 100),
        (nothings, 1_000_000),
        (empty_lists, 400_000),
        (deep_lists, 400_000),
        (many_keys, 200_000),
        (set_members, 300_000),
        (blob_references, 25_000),
        (blob_chunks, 30_000),
        (deep_chains, 5_000),
        (damaged_chain, 1_000),
        (unchanged_chain, 200),
        (many_entries, 5_000),
        (many_members, 60_000),
        (packs_that_are_named, 20_000),
        (small_packs, 300),
        (long_message, 1_000_000),
        (many_metrics, 20_000),
        (told_at_length, 1_000_000),
        (many_branches, 300),
        (many_records, 300),
        (many_drops, 20_000),
        (dropped_packs, 20_000),
        (long_description, 30_000),
    )
}
