"""Is everything there that a commit names, in packs that its footer says it needs?"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history import Revision
from mvcs.objects import Blob, ExactTensor, ObjectId, QuantizedTensor, half, short_id
from mvcs.store import ObjectStore

Needs = tuple[tuple[ObjectId, ...], tuple[ObjectId, ...]]
"""The bases of an entry, by the halves of their ids, and the objects it holds."""


class IncompleteError(CorruptionError):
    """An object is in none of the packs that are named."""


@dataclass
class Completeness:
    """Checks commits of one store.

    Attributes:
        store: where to look; nothing is listed for what it lacks.
    """

    store: ObjectStore
    _entries: dict[str, list[Needs]] = field(default_factory=dict)
    _blobs: dict[tuple[ObjectId, int], Blob] = field(default_factory=dict)

    def check(self, revision: Revision, *, data: bool = True) -> None:
        """Check that all of a commit's value layer can be decoded from the packs that it says it needs.

        Args:
            revision: the commit.
            data: whether its chunks have to be there; without them its tree and blob objects have to.

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
        for tensor in () if not data else dict.fromkeys(leaf.tensor for leaf in tree.leaves):
            self._tensor(tensor, found)
        for named in dict.fromkeys(tree.blobs()):
            _require(named[:1], found)
            if named not in self._blobs:
                self._blobs[named] = self.store.named_blob(*named)
            _require(self._blobs[named].chunks if data else (), found)

    def _of(self, pack: str) -> list[Needs]:
        if pack not in self._entries:
            placed = self.store.catalog.attach(pack).entries
            self._entries[pack] = [(item.entry.base_ids, item.ids) for item in placed]
        return self._entries[pack]

    def _tensor(self, tensor: ExactTensor | QuantizedTensor, found: set[ObjectId]) -> None:
        if isinstance(tensor, ExactTensor):
            _require(tensor.chunks, found)
            self.store.check_lengths(tensor)
            return
        _require(tensor.chunk_ids(), found)
        self.store.check_lengths(tensor)
        if tensor.source is not None:
            self._tensor(tensor.source, found)


def has_data(store: ObjectStore, revision: Revision) -> bool:
    """Tell whether all data of a commit are in the packs that its footer names.

    Raises:
        CorruptionError: something of it is damaged.
    """
    with suppress(IncompleteError, NotFoundError):
        Completeness(store.apart()).check(revision)
        return True
    return False


def _require(identifiers: Iterable[ObjectId], found: set[ObjectId]) -> None:
    for identifier in identifiers:
        if identifier not in found:
            raise IncompleteError(f"object {short_id(identifier)} is in none of the packs that are named")


def _decodable(entries: Iterable[Needs]) -> set[ObjectId]:
    """Return the objects of all entries that can be decoded from one another."""
    found, halves = set[ObjectId](), set[ObjectId]()
    blocked: dict[ObjectId, list[Needs]] = {}
    stack = list(entries)
    while stack:
        entry = stack.pop()
        missing = next((base for base in entry[0] if base not in halves), None)
        if missing is not None:
            blocked.setdefault(missing, []).append(entry)
            continue
        found.update(entry[1])
        for name in map(half, entry[1]):
            halves.add(name)
            stack += blocked.pop(name, ())
    return found
