"""What the last entry of the pack that holds a commit says of it: what no other object tells.

`docs/format/packs.md` is the specification; this module is the only reader and writer of these bytes.
"""

from dataclasses import dataclass
from functools import cached_property

from mvcs.delta import Encoding
from mvcs.objects import Kind, ObjectId, as_id, as_integer, as_list, cbor, object_id
from mvcs.store.packs.entry import Entry, Member

Sizes = tuple[int, int, int, int]


@dataclass(frozen=True)
class LastEntry:
    """What the last entry of a pack that holds a commit says, so that its manifest can be made again.

    Attributes:
        sizes: of the commit, as in its manifest; bytes added without this pack and the manifest.
        exact_packs: names of the packs of its exact layer.
    """

    sizes: Sizes
    exact_packs: tuple[str, ...] = ()

    @cached_property
    def content(self) -> bytes:
        """The bytes of the chunk that is the entry's one member."""
        return cbor.dumps([list(self.sizes), names_value(self.exact_packs)])

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
        sizes, exact = as_list(cbor.loads(content), "the last entry of a pack", 2)
        return cls(as_sizes(sizes), as_names(exact))


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
