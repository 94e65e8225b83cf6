"""What is meant by an id, a prefix of one, or the name of a pack: one thing that a store has, or had."""

from dataclasses import dataclass

from mvcs.errors import UsageError
from mvcs.objects import Kind, ObjectId
from mvcs.store import EXACT_FOLDER, VALUE_FOLDER, Backend, ObjectStore, pack_name, pack_path

PACK = "pack"


@dataclass(frozen=True)
class Named:
    """One thing in a store.

    Attributes:
        kind: "commit", "tree", "chunk", "blob" or "pack".
        id: its id, or its name, in hexadecimal.
        packs: the paths of the packs where it lies.
        bytes: of its content, or of the pack; None where that was not asked.
    """

    kind: str
    id: str
    packs: tuple[str, ...]
    bytes: int | None = None

    @property
    def object(self) -> ObjectId:
        """Its id, if it has one."""
        return ObjectId(bytes.fromhex(self.id))

    @property
    def names(self) -> set[str]:
        """The names of these packs."""
        return {name for path in self.packs if (name := pack_name(path))}

    @classmethod
    def of_object(cls, store: ObjectStore, identifier: ObjectId, kind: Kind, length: int | None) -> "Named":
        """Return an object, with all places where it lies; every pack has to be attached."""
        copies = store.catalog.copies(identifier, exact=True)
        paths = {pack_path(copy.pack, exact=copy.exact) for copy in copies}
        return cls(kind.name.lower(), identifier.hex(), tuple(sorted(paths)), length)


def found_by(text: str, store: ObjectStore) -> Named | None:
    """Return what a prefix names, of packs and of objects; None where the store has nothing of that name.

    Raises:
        UsageError: it names several things.
    """
    packs = {
        path: size for path, size in _packs(store.backend).items() if (pack_name(path) or "").startswith(text)
    }
    found = [Named(PACK, pack_name(path) or "", (path,), size) for path, size in packs.items()]
    for exact in (False, True):
        store.catalog.attach_everything(exact=exact)
    objects = store.catalog.with_prefix(text, exact=True) | store.catalog.with_prefix(text)
    for identifier, located in objects.items():
        member = located.placed.entry.members[located.member]
        found.append(Named.of_object(store, identifier, member.kind, member.length))
    if len(found) > 1:
        kinds = ", ".join(sorted(f"{one.kind} {one.id[:12]}" for one in found)[:4])
        raise UsageError(f"'{text}' abbreviates {len(found)} things", hint=f"type more digits: {kinds}")
    return found[0] if found else None


def _packs(backend: Backend) -> dict[str, int]:
    return backend.sizes(VALUE_FOLDER) | backend.sizes(EXACT_FOLDER)
