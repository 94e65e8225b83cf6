"""What reading objects back takes along their chains of bases, and how long that takes on a machine."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mvcs.delta import Encoding
from mvcs.store.reading.chains import Locate
from mvcs.store.reading.located import ChunkPlace, Located


@dataclass(frozen=True)
class RestoreRates:
    """How quick a machine is with one store.

    Attributes:
        request_seconds: until the first byte of a range comes.
        read_bytes: bytes that then come in a second.
        range_seconds: that the program takes for each range, an entry or a footer, whatever it holds.
        decoded_bytes: bytes of content that each encoding gives in a second.
        restored_bytes: bytes of a state that are made of contents, hashed and handed over in a second.
    """

    request_seconds: float
    read_bytes: float
    range_seconds: float
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
        decoded: bytes that entries of each encoding decode to.
        depth: the longest way down to an entry without bases, in steps.
    """

    requests: int = 0
    stored_bytes: int = 0
    entries: int = 0
    decoded: Mapping[Encoding, int] = field(default_factory=dict)
    depth: int = 0

    def __add__(self, other: "RestoreCost") -> "RestoreCost":
        """Return what both take, one after the other."""
        return RestoreCost(
            self.requests + other.requests,
            self.stored_bytes + other.stored_bytes,
            self.entries + other.entries,
            dict(Counter(self.decoded) + Counter(other.decoded)),
            max(self.depth, other.depth),
        )

    def since(self, before: "RestoreCost", depth: int) -> "RestoreCost":
        """Return what came on top of an earlier cost, with the depth of that."""
        return RestoreCost(
            self.requests - before.requests,
            self.stored_bytes - before.stored_bytes,
            self.entries - before.entries,
            dict(Counter(self.decoded) - Counter(before.decoded)),
            depth,
        )

    @classmethod
    def of_links(cls, links: Iterable[Located], depth: int = 0) -> "RestoreCost":
        """Return the cost of entries that are each read and decoded once."""
        decoded: Counter[Encoding] = Counter()
        count = stored = 0
        for link in links:
            count, stored = count + 1, stored + link.placed.length
            decoded[link.placed.entry.encoding] += link.placed.entry.raw_bytes
        return cls(count, stored, count, dict(decoded), depth)

    def seconds(self, rates: RestoreRates, restored: int = 0) -> float:
        """Return how long it takes.

        Args:
            rates: of the machine and the store.
            restored: bytes of a state that are made of it.
        """
        reading = self.requests * rates.request_seconds + self.stored_bytes / rates.read_bytes
        decoding = sum(rates.decoding_seconds(encoding, amount) for encoding, amount in self.decoded.items())
        return reading + self.requests * rates.range_seconds + decoding + restored / rates.restored_bytes


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
