"""Repositories of a few bytes that claim to hold gigabytes, as a stranger would make them."""

from pathlib import Path

from mvcs import Repository
from mvcs.delta.element import ElementFormat
from mvcs.objects.chunk_grid import dtype_named
from mvcs.objects.commit import Commit
from mvcs.objects.forms import Constant, Lattice
from mvcs.objects.ids import Kind, digest, object_id
from mvcs.objects.tensors import ExactTensor, QuantizedTensor
from mvcs.objects.trees.leaves import FileEntry, FileFormat, Leaf
from mvcs.objects.trees.tree import Tree
from mvcs.refs.refstore import HEADS, RefChange
from mvcs.store.manifests import Manifest, WrittenCommit
from mvcs.store.packs.written_commit import LastEntry
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.writing.writer import ObjectWriter

FLOAT32 = dtype_named("float32")
ELEMENTS = 1 << 35  # 128 GiB of float32


def leaf_of(tensor: QuantizedTensor) -> Leaf:
    """A leaf that claims to have been handed over as chunks that nobody has."""
    nowhere = object_id(Kind.CHUNK, b"nowhere" + tensor.id)
    return Leaf(tensor, ExactTensor(tensor.dtype, tensor.shape, (nowhere,) * tensor.chunk_count))


def constant(number: int, elements: int) -> Leaf:
    """A leaf of so many equal numbers, which takes a hundred bytes."""
    tensor = QuantizedTensor(FLOAT32, (elements,), 0, Constant(bytes([number, 0, 0, 0])))
    return leaf_of(tensor)


def publish(folder: Path, trees: list[tuple[Tree, ObjectWriter]]) -> None:
    """Put trees into commits on main, one after the other."""
    with Repository.open(folder) as repo:
        session = repo._session
        for number, (tree, writer) in enumerate(trees):
            head = session.head()
            parents = () if head is None else (head.id,)
            commit = Commit(writer.put(Kind.TREE, tree.encode()), parents, "eve", number, "hello")
            identifier = writer.put(Kind.COMMIT, commit.encode())
            sizes = (tree.raw_bytes, 0, 0, 0)
            writer.finish(LastEntry(sizes))
            written = WrittenCommit(identifier, commit.encode(), *sizes)
            session.store.manifests.write(Manifest(written, writer.placement))
            record = session.refs.newest(HEADS, "main")
            session.refs.update(HEADS, "main", record, RefChange(identifier, "eve", "commit"))


def store_of(folder: Path) -> ObjectStore:
    with Repository.init(folder) as repo:
        return ObjectStore(repo._session.place.backend)


def huge_state(folder: Path) -> None:
    """Two commits of a state whose one tensor has 128 GiB, of other values in each."""
    store = store_of(folder)
    trees = []
    for number in (1, 2):
        writer = ObjectWriter(store)
        trees.append((Tree((constant(number, ELEMENTS),), root=[9, 0, 0]), writer))
    publish(folder, trees)


def many_constants(folder: Path) -> None:
    """Two commits of a state of 4 GiB in 64 tensors, of other values in each."""
    store = store_of(folder)
    trees = []
    for number in (1, 2):
        leaves = tuple(constant(number + 2 * index, 1 << 24) for index in range(64))
        root = [2, [[f"w{index}", [9, index, 0]] for index in range(64)]]
        trees.append((Tree(leaves, root=root), ObjectWriter(store)))
    publish(folder, trees)


def huge_files(folder: Path) -> None:
    """Two commits of a thousand files that share one tensor of 1 GiB."""
    store = store_of(folder)
    trees = []
    for number in (1, 2):
        writer = ObjectWriter(store)
        node = [2, [["w", [9, 0, 0]]]]
        files = tuple(FileEntry(f"f{index:03}.npz", FileFormat.NPZ, node) for index in range(1000))
        trees.append((Tree((constant(number, 1 << 28),), files=files), writer))
    publish(folder, trees)


def huge_blob(folder: Path) -> None:
    """A commit of a file that claims a terabyte, of which nothing is there."""
    writer = ObjectWriter(store_of(folder))
    identifier = writer.put_blob([b"nothing"])
    entry = FileEntry("weights.bin", FileFormat.OPAQUE, [10, identifier, 1 << 40])
    publish(folder, [(Tree((), files=(entry,)), writer)])


def forged_digest(folder: Path) -> None:
    """A commit of a tensor whose codes restore to other values than its digest says."""
    writer = ObjectWriter(store_of(folder))
    codes = writer.put_chunk(bytes([1, 0, 2, 0]), ElementFormat(2, floating=False))
    tensor = QuantizedTensor(FLOAT32, (2,), 2, Lattice(216), (codes,), (None,), digest(bytes(8)))
    tree = Tree((leaf_of(tensor),), root=[2, [["w", [9, 0, 0]]]])
    publish(folder, [(tree, writer)])


def endless_values(folder: Path) -> None:
    """A commit of a few bytes whose tensor of 16 GiB names one chunk of codes a thousand times."""
    writer = ObjectWriter(store_of(folder))
    codes = writer.put_chunk(bytes(2 << 22), ElementFormat(2, floating=False))
    count = 1 << 10
    shape = (count << 22,)
    digests = digest(bytes(4 << 22)) * count
    tensor = QuantizedTensor(FLOAT32, shape, 2, Lattice(216), (codes,) * count, (None,) * count, digests)
    tree = Tree((leaf_of(tensor),), root=[2, [["w", [9, 0, 0]]]])
    publish(folder, [(tree, writer)])
