"""What the pack that ends a commit says of it: a row of its footer, and the pack's last entry.

`docs/format/packs.md` is the specification; this module is the only reader and writer of these bytes.
"""

from dataclasses import dataclass
from functools import cached_property

from mvcs.delta import Encoding
from mvcs.objects import Kind, ObjectId, as_bytes, as_id, as_integer, as_list, cbor, object_id
from mvcs.store.packs.entry import Entry, Member

Sizes = tuple[int, int, int, int]


@dataclass(frozen=True)
class WrittenCommit:
    """A commit as a footer carries it, with its sizes and depth as first written.

    Attributes:
        id: the commit.
        content: its canonical bytes.
        pack: name of the pack whose footer describes what it needs.
        raw_bytes: bytes of its tensors and blobs as handed over.
        stored_bytes: all bytes it added, but its exact layer.
        exact_bytes: bytes of its exact layer; 0 for an exact commit.
        depth: the longest chain of deltas behind any of its chunks.
        exact_packs: the packs of its exact layer.
    """

    id: ObjectId
    content: bytes
    pack: str
    raw_bytes: int
    stored_bytes: int
    exact_bytes: int
    depth: int
    exact_packs: tuple[str, ...] = ()

    @property
    def sizes(self) -> Sizes:
        """The four numbers, in the order in which they are written."""
        return self.raw_bytes, self.stored_bytes, self.exact_bytes, self.depth

    @property
    def value(self) -> cbor.Value:
        """The form in a footer."""
        pack = bytes.fromhex(self.pack) if self.pack else None
        return [self.content, pack, list(self.sizes), names_value(self.exact_packs)]

    @classmethod
    def from_value(cls, value: cbor.Value, own_name: str, own_length: int) -> "WrittenCommit":
        """Read the form in the footer of the pack `own_name`, of `own_length` bytes.

        Raises:
            CorruptionError: it is malformed.
        """
        content, pack, sizes, exact = as_list(value, "a footer's commit", 4)
        raw, stored, layer, depth = as_sizes(sizes)
        data = as_bytes(content, "a commit")
        name = own_name if pack is None else as_id(pack).hex()
        added = own_length if pack is None else 0
        identifier = object_id(Kind.COMMIT, data)
        return cls(identifier, data, name, raw, stored + added, layer, depth, as_names(exact))


@dataclass(frozen=True)
class LastEntry:
    """What the last entry of a pack that ends a commit says: all of it that only a footer tells otherwise.

    Attributes:
        sizes: of the commit; bytes added without this pack.
        own: names of the commit's other packs of its value layer.
        exact_packs: names of the packs of its exact layer.
    """

    sizes: Sizes
    own: tuple[str, ...] = ()
    exact_packs: tuple[str, ...] = ()

    @cached_property
    def content(self) -> bytes:
        """The bytes of the chunk that is the entry's one member."""
        return cbor.dumps([list(self.sizes), names_value(self.own), names_value(self.exact_packs)])

    @property
    def id(self) -> ObjectId:
        """The id of that chunk."""
        return object_id(Kind.CHUNK, self.content)

    @classmethod
    def decode(cls, content: bytes) -> "LastEntry":
        """Read the bytes of the chunk.

        Raises:
            CorruptionError: they are malformed.
        """
        sizes, own, exact = as_list(cbor.loads(content), "the last entry of a pack", 3)
        return cls(as_sizes(sizes), as_names(own), as_names(exact))


def chunk_entry(length: int) -> Entry:
    """Return the header of an entry of one chunk that is stored as it is."""
    return Entry((Member(Kind.CHUNK, length),), Encoding.RAW)


def names_value(names: tuple[str, ...]) -> cbor.Value:
    """Return names of packs as they are written."""
    return [bytes.fromhex(name) for name in names]


def as_names(value: cbor.Value) -> tuple[str, ...]:
    """Read names of packs.

    Raises:
        CorruptionError: one of them is none.
    """
    return tuple(as_id(pack).hex() for pack in as_list(value, "a list of packs"))


def as_sizes(value: cbor.Value) -> Sizes:
    """Read the sizes of a commit.

    Raises:
        CorruptionError: they are malformed.
    """
    raw, stored, layer, depth = (
        as_integer(size, "a size", 0, 1 << 62) for size in as_list(value, "sizes", 4)
    )
    return raw, stored, layer, depth
