"""From what was handed over to a tree: every leaf hashed, stored near the parent's, and named."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mvcs.checkpoint.captured import Captured, CapturedLeaf
from mvcs.checkpoint.roles import Role, roles
from mvcs.delta.element import ElementFormat
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects.grid import cut
from mvcs.objects.ids import Kind, ObjectId
from mvcs.objects.structure import Path
from mvcs.objects.tensors import ExactTensor
from mvcs.objects.tree import Leaf, Tree
from mvcs.progress import Progress
from mvcs.quantize.config import QuantizerConfig
from mvcs.repository.bounding import Bounding
from mvcs.store.entry import Base
from mvcs.store.objects import ObjectStore
from mvcs.store.writer import Near, ObjectWriter


@dataclass
class Layers:
    """The writers of one commit: its value layer, and its exact layer when it is bounded."""

    value: ObjectWriter
    exact: ObjectWriter | None = None


@dataclass(frozen=True)
class Bases:
    """The parent's leaves by path, among which a leaf looks for its base.

    Attributes:
        leaves: by full path; for files also by the path behind the file's name, per format.
    """

    leaves: Mapping[Path, Leaf] = field(default_factory=dict)

    @classmethod
    def of(cls, parent: Tree | None, captured: Captured) -> "Bases":
        """Index a parent tree for what was captured.

        A file whose path the parent lacks takes the parent's file of the same format, when there is
        just one: trainers write `step_1000.pt`, then `step_2000.pt`.
        """
        if parent is None:
            return cls()
        leaves = dict(zip(parent.leaf_paths(), parent.leaves, strict=True))
        old = {entry.path: entry.format for entry in parent.files or ()}
        for entry in captured.files or ():
            twins = [path for path, file_format in old.items() if file_format == entry.format]
            if entry.path not in old and len(twins) == 1:
                leaves |= {
                    (entry.path, *path[1:]): leaf for path, leaf in leaves.items() if path[0] == twins[0]
                }
        return cls(leaves)

    def find(self, leaf: CapturedLeaf) -> Leaf | None:
        """Return the parent's leaf of the same path, dtype and shape."""
        found = self.leaves.get(leaf.path)
        return found if found and (found.dtype, found.shape) == (leaf.dtype, leaf.shape) else None


def store_tree(
    captured: Captured,
    parent: Tree | None,
    layers: Layers,
    store: ObjectStore,
    quantizer: QuantizerConfig | None,
    progress: Progress,
) -> tuple[Tree, Bounding | None]:
    """Store all leaves and blobs of what was captured.

    Args:
        captured: the state or files.
        parent: the tree whose leaves serve as bases; None without a parent.
        layers: where objects go; `layers.exact` is needed when `quantizer` is given.
        store: where bases come from.
        quantizer: how weights of two and more dimensions are quantized; None keeps everything exact.
        progress: is told the bytes done.

    Returns:
        The tree, and what quantization measured (None without a quantizer).
    """
    bases = Bases.of(parent, captured)
    kinds = roles(captured)
    bounding = Bounding.prepare(quantizer, captured, kinds, store) if quantizer and layers.exact else None
    progress.start("storing", captured.raw_bytes, "bytes")
    leaves = []
    for leaf, role in zip(captured.leaves, kinds, strict=True):
        base = bases.find(leaf)
        if bounding and layers.exact and role is Role.WEIGHT:
            leaves.append(bounding.store(leaf, base, layers.value, layers.exact))
        else:
            leaves.append(store_exact(leaf, base, layers.value, store))
        progress.advance(leaf.raw_bytes)
    for blob in captured.blobs.values():
        layers.value.put_blob(blob.read())
        progress.advance(blob.length)
    progress.finish()
    return Tree(tuple(leaves), root=captured.root, files=captured.files), bounding


def store_exact(leaf: CapturedLeaf, base: Leaf | None, writer: ObjectWriter, store: ObjectStore) -> Leaf:
    """Store a leaf bit for bit, near the parent's exact leaf where that is smaller."""
    old = _exact_chunks(base, store)
    element = ElementFormat.of(leaf.dtype.itemsize, leaf.dtype.kind)
    chunks = []
    for index, part in enumerate(cut(leaf.dtype, leaf.source.read())):
        near = Near(Base(old[index]), _reader(store, old[index])) if old else None
        chunks.append(writer.put_chunk(part, element, near))
    tensor = ExactTensor(leaf.dtype, leaf.shape, tuple(chunks))
    return Leaf(leaf.dtype, leaf.shape, writer.put(Kind.TENSOR, tensor.encode()))


def _exact_chunks(base: Leaf | None, store: ObjectStore) -> tuple[ObjectId, ...]:
    if base is None or base.exact is not None:
        return ()
    try:
        tensor = store.value_tensor(base)
    except (CorruptionError, NotFoundError):
        return ()  # the parent's tensor is damaged; this one is in hand and is stored alone
    return tensor.chunks if isinstance(tensor, ExactTensor) else ()


def _reader(store: ObjectStore, identifier: ObjectId) -> Callable[[], bytes]:
    return lambda: store.read(Kind.CHUNK, identifier)
