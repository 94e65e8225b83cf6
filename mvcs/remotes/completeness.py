"""Is everything there that a commit names, in packs of which it is said to need no others?"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mvcs.errors import CorruptionError
from mvcs.history import Revision
from mvcs.objects import Blob, ExactTensor, ObjectId, QuantizedTensor, half, short_id
from mvcs.store import ObjectStore

Entry = tuple[str, tuple[ObjectId, ...], tuple[ObjectId, ...]]
"""The pack of an entry, its bases, by the halves of their ids, and the objects it holds."""


class IncompleteError(CorruptionError):
    """An object is in none of the packs that are named."""


@dataclass
class Completeness:
    """Checks commits of one store.

    Attributes:
        store: where to look; nothing is listed for what it lacks.
    """

    store: ObjectStore
    _entries: dict[str, list[Entry]] = field(default_factory=dict)
    _blobs: dict[tuple[ObjectId, int], Blob] = field(default_factory=dict)

    def check(self, revision: Revision, packs: Iterable[str], *, data: bool = True) -> set[str]:
        """Check that all of a commit's value layer can be decoded from some packs; return those it needs.

        Args:
            revision: the commit.
            packs: the packs in which it is said to lie.
            data: whether its chunks have to be there; without them its tree and blob objects have to, unless
                it lies in no pack at all: then all but its manifest was given up.

        Raises:
            CorruptionError: an object is nowhere there, or is not what it is named for.
            NotFoundError: a pack is not there.
        """
        names = list(packs)
        if not data and not names:
            return set()
        found = Decodable(entry for name in names for entry in self._of(name))
        needed = found.packs_of([revision.id, revision.commit.tree])
        tree = self.store.tree(revision.commit.tree)
        # What a tree names a thousand times is looked at once.
        for tensor in () if not data else dict.fromkeys(leaf.tensor for leaf in tree.leaves):
            needed |= self._tensor(tensor, found)
        for named in dict.fromkeys(tree.blobs()):
            needed |= found.packs_of(named[:1])
            if named not in self._blobs:
                self._blobs[named] = self.store.named_blob(*named)
            needed |= found.packs_of(self._blobs[named].chunks if data else ())
        return needed

    def _of(self, pack: str) -> list[Entry]:
        if pack not in self._entries:
            placed = self.store.catalog.attach(pack).entries
            self._entries[pack] = [(pack, item.entry.base_ids, item.ids) for item in placed]
        return self._entries[pack]

    def _tensor(self, tensor: ExactTensor | QuantizedTensor, found: "Decodable") -> set[str]:
        needed = found.packs_of(tensor.chunks if isinstance(tensor, ExactTensor) else tensor.chunk_ids())
        self.store.check_lengths(tensor)
        if isinstance(tensor, QuantizedTensor) and tensor.source is not None:
            needed |= self._tensor(tensor.source, found)
        return needed


class Decodable:
    """The objects of some entries that can be decoded from one another, and without going in a circle."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """Look at all of them once."""
        self._found: dict[ObjectId, Entry] = {}
        self._whole: dict[ObjectId, ObjectId] = {}
        blocked: dict[ObjectId, list[Entry]] = {}
        stack = list(entries)
        while stack:
            entry = stack.pop()
            missing = next((base for base in entry[1] if base not in self._found), None)
            if missing is not None:
                blocked.setdefault(missing, []).append(entry)
                continue
            for identifier in entry[2]:
                name = half(identifier)
                self._found.setdefault(name, entry)
                self._whole.setdefault(name, identifier)
                stack += blocked.pop(name, ())

    def holds(self, halves: Iterable[ObjectId]) -> bool:
        """Tell whether all objects can be decoded of which the halves of the ids are given."""
        return all(name in self._found for name in halves)

    def packs_of(self, identifiers: Iterable[ObjectId]) -> set[str]:
        """Return the packs that reading some objects needs.

        Raises:
            IncompleteError: one cannot be decoded from these entries.
        """
        needed, seen = set[str](), set[int]()
        stack = []
        for identifier in identifiers:
            if self._whole.get(half(identifier)) != identifier:
                raise IncompleteError(f"object {short_id(identifier)} is in none of the packs that are named")
            stack.append(half(identifier))
        while stack:
            entry = self._found[stack.pop()]
            if id(entry) not in seen:
                seen.add(id(entry))
                needed.add(entry[0])
                stack += entry[1]
        return needed
