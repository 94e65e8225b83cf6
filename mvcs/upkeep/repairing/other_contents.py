"""What a damaged pack holds, from where else it lies: other packs here, other stores, restored values."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from mvcs.errors import MvcsError, StorageError
from mvcs.objects import Kind, ObjectId, QuantizedTensor, Tree, object_id
from mvcs.store import UNREADABLE_ERRORS, ObjectStore, Placed

_REFUSED = (*UNREADABLE_ERRORS, StorageError)
_Place = tuple[QuantizedTensor, int]


@dataclass
class OtherContents:
    """Finds contents of one damaged pack.

    Attributes:
        view: the store, which knows of no pack yet.
        pack: the name of the damaged one.
        exact: whether that is of an exact layer.
        tree: of the commit whose layer it is, or None.
        sources: stores of the same project.
    """

    view: ObjectStore
    pack: str
    exact: bool
    tree: Tree | None
    sources: Sequence[ObjectStore] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        """Know of all packs, and of what the damaged one is stored near."""
        for exact in (False, True):
            self.view.catalog.attach_everything(exact=exact)
        if self.exact and self.tree is not None:
            self.view.lean_on(self.tree, [self.pack])

    def of(self, placed: Placed) -> bytes | None:
        """Return the contents of all members of an entry; None where one is nowhere else."""
        self.view.catalog.distrust((self.pack, self.exact, placed.offset))
        parts = []
        for member, identifier in zip(placed.entry.members, placed.ids, strict=True):
            found = next(self._copies(member.kind, identifier), None)
            if found is None:
                return None
            parts.append(found)
        return b"".join(parts)

    def near(self, placed: Placed) -> bytes | None:
        """Return what the members are stored near; None where one of it cannot be read."""
        parts = []
        with suppress(*_REFUSED):
            for base, member in zip(placed.entry.bases, placed.entry.members, strict=True):
                if base.chunk is None:
                    parts.append(self.view.read(member.kind, base.id, exact=self.exact))
                else:
                    parts.append(bytes(self.view.base_values(base.id, base.chunk, self.pack)))
            return b"".join(parts)
        return None

    def _copies(self, kind: Kind, identifier: ObjectId) -> Iterator[bytes]:
        for store in (self.view, *self.sources):
            with suppress(MvcsError):
                yield bytes(store.read(kind, identifier, exact=self.exact and store is self.view))
        place = self._restoring.get(identifier)
        if place is not None:
            with suppress(*_REFUSED):
                values = bytes(self.view.restored_chunk(*place))
                if object_id(Kind.CHUNK, values) == identifier:
                    yield values

    @cached_property
    def _restoring(self) -> dict[ObjectId, _Place]:
        """Chunks as they were handed over, by id, and what restores to them if nothing was lost."""
        found: dict[ObjectId, _Place] = {}
        for leaf in self.tree.leaves if self.tree is not None and self.exact else ():
            if leaf.original is not None and isinstance(leaf.tensor, QuantizedTensor):
                for index, chunk in enumerate(leaf.original.chunks):
                    found.setdefault(chunk, (leaf.tensor, index))
        return found
