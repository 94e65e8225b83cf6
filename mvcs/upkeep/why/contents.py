"""What a commit holds, by id and by where it stands, and which objects are stored near which."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mvcs.objects import Blob, Kind, ObjectId, Tree, half, path_text
from mvcs.reports import WhyStep
from mvcs.store import Footer, ObjectStore

_VALUE, EXACT_VALUES = "its values", "its exact values"


def held_by(store: ObjectStore, tree_id: ObjectId, tree: Tree) -> Iterator[tuple[ObjectId, WhyStep]]:
    """Yield the id of every object of a tree, which is one of them, with where it stands."""
    yield tree_id, WhyStep("tree", tree_id.hex(), "what it holds")
    for leaf, path in zip(tree.leaves, tree.leaf_paths(), strict=True):
        where = path_text(path)
        yield from ((chunk, WhyStep("path", where, _VALUE)) for chunk in leaf.value_chunks())
        if leaf.original is not None:
            yield from ((chunk, WhyStep("path", where, EXACT_VALUES)) for chunk in leaf.original.chunks)
    for identifier, _ in tree.blobs():
        step = WhyStep("blob", identifier.hex(), "a file of it")
        yield identifier, step
        for chunk in Blob.decode(store.read(Kind.BLOB, identifier)).chunks:
            yield chunk, step


@dataclass
class Users:
    """The objects that cannot be decoded without a given one, and how they lean on it.

    Attributes:
        steps: how many bases lie between, by half an object's id; 0 for the object itself.
        toward: the next object on the way down, likewise.
        known: kind and id of every object that was met, likewise.
    """

    steps: dict[ObjectId, int]
    toward: dict[ObjectId, ObjectId] = field(default_factory=dict)
    known: dict[ObjectId, tuple[Kind, ObjectId]] = field(default_factory=dict)

    @classmethod
    def of(cls, identifier: ObjectId, footers: Iterable[Footer]) -> "Users":
        """Look through footers for what is stored near an object, for what is near that, and so on."""
        near: dict[ObjectId, set[ObjectId]] = defaultdict(set)
        found = cls({half(identifier): 0})
        for footer in footers:
            for placed in footer.entries:
                members = zip(placed.entry.members, placed.ids, strict=True)
                found.known |= {half(name): (member.kind, name) for member, name in members}
                for base, name in zip(placed.entry.bases, placed.ids, strict=bool(placed.entry.bases)):
                    if base.chunk is None:
                        near[base.id].add(half(name))
        queue = deque(found.steps)
        while queue:
            below = queue.popleft()
            for name in sorted(near[below] - found.steps.keys()):
                found.steps[name], found.toward[name] = found.steps[below] + 1, below
                queue.append(name)
        return found

    def way_down(self, name: ObjectId) -> list[WhyStep]:
        """Return the steps from an object to the one that all lean on, both included."""
        result = [self._step(name, "which is a part of that")]
        while (base := self.toward.get(name)) is not None:
            result.append(self._step(base, "which that is stored near"))
            name = base
        return result

    def _step(self, name: ObjectId, said: str) -> WhyStep:
        kind, identifier = self.known.get(name, (Kind.CHUNK, name))
        return WhyStep(kind.name.lower(), identifier.hex(), said)
