"""What reading objects back takes along their chains of bases, and how long that takes on a machine."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mvcs.delta import Encoding
from mvcs.store.packs.entry import Entry
from mvcs.store.reading.chains import Locate
from mvcs.store.reading.located import ChunkPlace, Located

_MEMBER = 0.1  # of what is spent on a chunk that is handed over, on one that others are decoded with


@dataclass(frozen=True)
class RestoreRates:
    """How quick a machine is with one store.

    Attributes:
        request_seconds: until the first byte of a range comes.
        read_bytes: bytes that then come in a second.
        range_seconds: that the program takes for each range, an entry or a footer, whatever it holds.
        object_seconds: that it takes for each chunk that is handed over, whatever it holds.
        decoded_bytes: bytes of content that each encoding gives in a second.
        restored_bytes: bytes of a state that are made of contents, hashed and handed over in a second.
    """

    request_seconds: float
    read_bytes: float
    range_seconds: float
    object_seconds: float
    decoded_bytes: Mapping[Encoding, float]
    restored_bytes: float

    def decoding_seconds(self, encoding: Encoding, amount: int) -> float:
        """Return the time to decode so many bytes; what was not measured is as slow as the slowest."""
        rate = self.decoded_bytes.get(encoding) or min(self.decoded_bytes.values(), default=0.0)
        return amount / rate if rate else 0.0


@dataclass(frozen=True)
class RestoreCost:
    """What has to be read and decoded.

    Attributes:
        requests: ranges of files that are read.
        stored_bytes: bytes of these.
        entries: entries that are decoded.
        members: of these entries, together.
        objects: chunks that are handed over.
        decoded: bytes that entries of each encoding decode to.
        depth: the longest way down to an entry without bases, in steps.
    """

    requests: int = 0
    stored_bytes: int = 0
    entries: int = 0
    members: int = 0
    objects: int = 0
    decoded: Mapping[Encoding, int] = field(default_factory=dict)
    depth: int = 0

    def __add__(self, other: "RestoreCost") -> "RestoreCost":
        """Return what both take, one after the other."""
        return RestoreCost(
            self.requests + other.requests,
            self.stored_bytes + other.stored_bytes,
            self.entries + other.entries,
            self.members + other.members,
            self.objects + other.objects,
            dict(Counter(self.decoded) + Counter(other.decoded)),
            max(self.depth, other.depth),
        )

    @property
    def handled(self) -> float:
        """Chunks that are handed over, and what others are decoded with as a part of one each."""
        return self.objects + _MEMBER * self.members

    def since(self, before: "RestoreCost", depth: int) -> "RestoreCost":
        """Return what came on top of an earlier cost, with the depth of that."""
        return RestoreCost(
            self.requests - before.requests,
            self.stored_bytes - before.stored_bytes,
            self.entries - before.entries,
            self.members - before.members,
            self.objects - before.objects,
            dict(Counter(self.decoded) - Counter(before.decoded)),
            depth,
        )

    @classmethod
    def of_links(cls, links: Iterable[Located], objects: int = 0, depth: int = 0) -> "RestoreCost":
        """Return the cost of entries that are each read and decoded once, for some objects."""
        decoded: Counter[Encoding] = Counter()
        count = stored = members = 0
        for link in links:
            count, stored = count + 1, stored + link.placed.length
            members += len(link.placed.entry.members)
            decoded[link.placed.entry.encoding] += link.placed.entry.raw_bytes
        return cls(count, stored, count, members, objects, dict(decoded), depth)

    @classmethod
    def of_entry(cls, entry: Entry, stored: int) -> "RestoreCost":
        """Return the cost of one entry of so many stored bytes, whose bases are decoded already."""
        members = len(entry.members)
        return cls(1, stored, 1, members, members, {entry.encoding: entry.raw_bytes})

    def reading(self, requests: int, stored_bytes: int) -> "RestoreCost":
        """Return the same decoding, of other reads."""
        return replace(self, requests=requests, stored_bytes=stored_bytes)

    def seconds(self, rates: RestoreRates, restored: int = 0) -> float:
        """Return how long it takes.

        Args:
            rates: of the machine and the store.
            restored: bytes of a state that are made of it.
        """
        reading = self.requests * rates.request_seconds + self.stored_bytes / rates.read_bytes
        decoding = sum(rates.decoding_seconds(encoding, amount) for encoding, amount in self.decoded.items())
        handling = self.requests * rates.range_seconds
        handling += self.handled * rates.object_seconds
        return reading + handling + decoding + restored / rates.restored_bytes


def links_behind(starts: Iterable[Located], locate: Locate) -> list[Located]:
    """Return the entries of some objects and of all their bases, each once, in no order.

    Raises:
        NotFoundError: a base is missing.
    """
    found: dict[ChunkPlace, Located] = {}
    stack = list(starts)
    while stack:
        link = stack.pop()
        if link.place not in found:
            found[link.place] = link
            stack += [locate(identifier, link.exact) for identifier in link.placed.entry.base_ids]
    return list(found.values())
