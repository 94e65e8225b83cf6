"""Is everything there that a commit names, in packs that its footer says it needs?"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mvcs.errors import CorruptionError
from mvcs.history import Revision
from mvcs.objects import Blob, DType, ExactTensor, Kind, ObjectId, QuantizedTensor, chunk_length, short_id
from mvcs.store import ObjectStore

# A copy is derived from a moment, and a moment is scaled by another.
SOURCES_DEEP = 2

Needs = tuple[tuple[ObjectId, ...], tuple[ObjectId, ...]]
"""The bases of an entry, and the objects it holds."""

_Place = tuple[ObjectId, int]
"""A tensor, and how many others in a row need it there."""


@dataclass(frozen=True)
class _Tensor:
    """What a tensor is made of: its chunks, and the tensors whose values it needs."""

    dtype: DType
    shape: tuple[int, ...]
    chunks: tuple[ObjectId, ...]
    sources: tuple[ObjectId, ...] = ()


@dataclass
class Completeness:
    """Checks commits of one store.

    Attributes:
        store: where to look; nothing is listed for what it lacks.
    """

    store: ObjectStore
    _entries: dict[str, list[Needs]] = field(default_factory=dict)
    _tensors: dict[ObjectId, _Tensor] = field(default_factory=dict)
    _blobs: dict[ObjectId, Blob] = field(default_factory=dict)

    def check(self, revision: Revision) -> None:
        """Check that all of a commit's value layer can be decoded from the packs that it says it needs.

        Raises:
            CorruptionError: an object is nowhere there, or is not what it is named for.
            NotFoundError: a pack is not there.
        """
        pack = revision.written.pack
        names = (pack, *self.store.catalog.attach(pack).needed)
        found = _decodable(entry for name in names for entry in self._of(name))
        _require([revision.id, revision.commit.tree], found)
        tree = self.store.tree(revision.commit.tree)
        # What a tree names a thousand times is looked at once.
        done: set[_Place] = set()
        for leaf in tree.leaves:
            kind = Kind.TENSOR if leaf.exact is None else Kind.QUANTIZED
            tensor = self._tensor(kind, leaf.value, found, done)
            if (tensor.dtype, tensor.shape) != (leaf.dtype, leaf.shape):
                raise CorruptionError(
                    f"tensor {short_id(leaf.value)} is not of the dtype and shape its tree names"
                )
        for identifier, length in dict.fromkeys(tree.blobs()):
            _require([identifier], found)
            blob = self._blob(identifier)
            _require(blob.chunks, found)
            if blob.length != length:
                raise CorruptionError(f"blob {short_id(identifier)} is not of the length its tree names")

    def _blob(self, identifier: ObjectId) -> Blob:
        if identifier not in self._blobs:
            self._blobs[identifier] = Blob.decode(self.store.read(Kind.BLOB, identifier))
        return self._blobs[identifier]

    def _of(self, pack: str) -> list[Needs]:
        if pack not in self._entries:
            placed = self.store.catalog.attach(pack).entries
            self._entries[pack] = [(item.entry.base_ids, item.ids) for item in placed]
        return self._entries[pack]

    def _tensor(
        self, kind: Kind, identifier: ObjectId, found: set[ObjectId], done: set[_Place], deep: int = 0
    ) -> _Tensor:
        if deep > SOURCES_DEEP:
            raise CorruptionError(f"tensor {short_id(identifier)} is needed by too many others in a row")
        if (identifier, deep) in done:
            return self._tensors[identifier]
        _require([identifier], found)
        tensor = self._tensors.get(identifier) or self._read(kind, identifier)
        _require(tensor.chunks, found)
        for source in tensor.sources:
            self._tensor(Kind.QUANTIZED, source, found, done, deep + 1)
        self._tensors[identifier] = tensor
        done.add((identifier, deep))
        return tensor

    def _read(self, kind: Kind, identifier: ObjectId) -> _Tensor:
        content = self.store.read(kind, identifier)
        if kind is Kind.TENSOR:
            exact = ExactTensor.decode(content)
            self._check_lengths(exact, exact.chunks, exact.dtype.itemsize)
            return _Tensor(exact.dtype, exact.shape, exact.chunks)
        coded = QuantizedTensor.decode(content)
        self._check_lengths(coded, coded.codes, coded.width)
        return _Tensor(coded.dtype, coded.shape, tuple(coded.chunk_ids()), tuple(coded.tensor_ids()))

    def _check_lengths(
        self, tensor: ExactTensor | QuantizedTensor, chunks: Iterable[ObjectId], width: int
    ) -> None:
        for index, chunk in enumerate(chunks):
            located = self.store.catalog.find(chunk)
            expected = chunk_length(tensor.dtype, tensor.shape, index) * width
            if located is not None and located.length != expected:
                raise CorruptionError(
                    f"chunk {short_id(chunk)} has {located.length} bytes; the grid asks for {expected}"
                )


def _require(identifiers: Iterable[ObjectId], found: set[ObjectId]) -> None:
    for identifier in identifiers:
        if identifier not in found:
            raise CorruptionError(f"object {short_id(identifier)} is in none of the packs that are named")


def _decodable(entries: Iterable[Needs]) -> set[ObjectId]:
    """Return the objects of all entries that can be decoded from one another."""
    found: set[ObjectId] = set()
    blocked: dict[ObjectId, list[Needs]] = {}
    stack = list(entries)
    while stack:
        entry = stack.pop()
        missing = next((base for base in entry[0] if base not in found), None)
        if missing is not None:
            blocked.setdefault(missing, []).append(entry)
            continue
        found.update(entry[1])
        for identifier in entry[1]:
            stack += blocked.pop(identifier, ())
    return found
