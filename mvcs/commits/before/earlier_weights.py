"""What momentum and training did to weights since earlier commits, and whether that stays."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

import numpy as np

from mvcs.checkpoint import CapturedLeaf
from mvcs.commits.plan.anatomy import Anatomy
from mvcs.commits.plan.treatments import MomentTiers
from mvcs.errors import ConflictError, CorruptionError, NotFoundError
from mvcs.history import Graph, Revision
from mvcs.memory import Budget, Use
from mvcs.objects import DType, ObjectId, Path, chunk_elements, column_count, element_count, row_count
from mvcs.progress import SILENT
from mvcs.quantize import (
    CARRIED_MOMENT,
    LEADING_DIRECTIONS,
    Floats,
    Halves,
    UpdateRule,
    from_upper_halves,
    remove_leading_directions,
    to_float32,
    upper_halves,
)
from mvcs.restore import Reading, open_reading
from mvcs.store import ObjectStore

BACK = 3  # commits, at least, whose moves tell whether weights go somewhere
HELD = 2
SAMPLE = 1 << 20  # weights that tell for all whether there is a drift
LEAST_DRIFT = 0.05
_GAIN = 0.25  # of what one commit tells: to keep codes another way costs most of them
ERROR_CLASS = "pace"
_DRIFT = "drift"
Key = tuple[ObjectId, bool]


@dataclass(frozen=True)
class EarlierWeights:
    """The weights of an earlier commit.

    Attributes:
        weights: upper halves of their values as float32, flat, by path.
        drift: how much of earlier moves went on later, as far as is known; None where nothing tells.
        followed: whether codes keep pace with weights that go somewhere.
    """

    weights: dict[Path, Halves]
    drift: float | None = None
    followed: bool = True

    @property
    def drifts(self) -> bool:
        """Whether weights go somewhere, instead of to and fro; taken to be so until something tells."""
        return self.followed and (self.drift is None or self.drift >= LEAST_DRIFT)

    def to_fields(self) -> dict[str, float]:
        """Return what a commit records of it: eleven bits, for up to 32 later footers repeat it."""
        return {} if self.drift is None else {_DRIFT: float(np.float16(self.drift))}

    @cached_property
    def _behind(self) -> dict[Path, Halves]:
        """Weights by their path behind the first name, which a file that is saved anew each time changes."""
        found = Counter(path[1:] for path in self.weights)
        return {path[1:]: values for path, values in self.weights.items() if found[path[1:]] == 1}

    @classmethod
    def of(cls, leaves: Iterable[tuple[Path, DType, Iterable[bytes | memoryview]]]) -> "EarlierWeights":
        """Take the upper halves of leaves, each in its chunks."""
        return cls(
            {
                path: _joined(upper_halves(chunk, dtype.name) for chunk in chunks)
                for path, dtype, chunks in leaves
            }
        )

    def find(self, leaf: CapturedLeaf) -> Halves | None:
        """Return what a leaf was: uint16 [n]; None if it was not there or had another size."""
        found = self.weights.get(leaf.path)
        if found is None:
            found = self._behind.get(leaf.path[1:])
        return found if found is not None and found.size == element_count(leaf.shape) else None

    def chunk(self, leaf: CapturedLeaf, index: int) -> Halves | None:
        """Return one chunk of what a leaf was."""
        found, run = self.find(leaf), chunk_elements(leaf.dtype)
        return None if found is None else found[index * run : (index + 1) * run]


@dataclass
class WeightHistory:
    """The exact weights of the newest commit of this process, and of two earlier ones, three commits apart.

    What another process committed is read from the store: the parent's exact layer, or what was restored.

    Attributes:
        store: where that lies.
        graph: the commits.
        tells_drift: whether it is measured if weights go somewhere, for which those of two commits are held.
        followed: as that of what it returns.
    """

    store: ObjectStore
    graph: Graph
    tells_drift: bool = True
    followed: bool = True
    _held: dict[Key, EarlierWeights] = field(default_factory=dict)
    _last: tuple[Key, EarlierWeights] | None = None

    def __post_init__(self) -> None:
        """Hold nothing yet; of more weights than the budget has room for, none are held."""
        self._room = self.store.memory.hold(Use.WEIGHTS)

    def before(
        self, anatomy: Anatomy, restored_from: Revision | None, parent: Revision | None
    ) -> EarlierWeights | None:
        """Return the weights that moves are measured from; None where nothing tells any.

        They are those of the nearest commit held: what was learned since, weights mostly keep and do not do
        again, so that longer moves tell less of it. Whether these do stay, weights of three or more commits
        before tell. None lies before a state that was lossily restored.
        """
        found = self._nearest(anatomy, restored_from, parent)
        return found if found is None or self.followed else replace(found, followed=False)

    def _nearest(
        self, anatomy: Anatomy, restored_from: Revision | None, parent: Revision | None
    ) -> EarlierWeights | None:
        places = list(self._places(restored_from, parent))
        known = self._held | (dict([self._last]) if self._last else {})
        found = ((far, known[place.key]) for far, place in enumerate(places, 1) if place.key in known)
        nearest = next(found, None)
        if nearest is None:
            return self._read(anatomy, places)
        begun = next((other for other in found if other[0] >= nearest[0] + BACK), None)
        if not self.tells_drift:
            return nearest[1]
        before = _recorded(places)
        if begun is None:
            return replace(nearest[1], drift=before)
        now = drift(anatomy, nearest, begun)
        return replace(nearest[1], drift=now if before is None else before + _GAIN * (now - before))

    def keep(self, made: Revision, anatomy: Anatomy) -> None:
        """Hold the weights of a commit; for longer unless those of a near ancestor are held."""
        self._last = None
        if not self._fits(anatomy):
            return
        parts = ((leaf.path, leaf.dtype, leaf.views()) for leaf in anatomy.weights)
        try:
            self._last = _Place(made).key, EarlierWeights.of(parts)
        except ConflictError:
            return  # a file was written since it was stored
        near = islice(self._places(None, made), 1, BACK)
        if self.tells_drift and not any(place.key in self._held for place in near):
            self._hold(*self._last)

    def _hold(self, key: Key, weights: EarlierWeights) -> None:
        self._held[key] = weights
        for oldest in list(self._held)[:-HELD]:
            del self._held[oldest]

    def _read(self, anatomy: Anatomy, places: Sequence["_Place"]) -> EarlierWeights | None:
        """Read the nearest place that the store has, and hold it."""
        for place in places if self._fits(anatomy) else ():
            with suppress(CorruptionError, NotFoundError):
                reading = open_reading(self.store, place.revision, SILENT, exact=not place.is_value)
                self._hold(place.key, EarlierWeights.of(_read_weights(reading, anatomy)))
                before = _recorded(places) if self.tells_drift else None
                return replace(self._held[place.key], drift=before)
        return None

    def _fits(self, anatomy: Anatomy) -> bool:
        values = sum(element_count(leaf.shape) for leaf in anatomy.weights)
        # Those that are held already may be of a larger state.
        return self._room.resize(max(2 * (HELD + 2) * values, self._room.bytes))

    def _places(self, restored_from: Revision | None, start: Revision | None) -> Iterator["_Place"]:
        """Yield a commit and its ancestors, up to the one that was lossily restored, as it was restored."""
        if restored_from is not None:
            yield _Place(restored_from, is_value=True)
            return
        with suppress(CorruptionError, NotFoundError):  # such as a commit of a branch that was never pushed
            for revision in islice(self.graph.first_parents(start), HELD * BACK) if start else ():
                yield _Place(revision)
                if revision.commit.restored_from is not None:
                    yield _Place(self.graph.load(revision.commit.restored_from), is_value=True)
                    return


@dataclass(frozen=True)
class _Place:
    """A commit, and whether what it restores is meant or what was handed over."""

    revision: Revision
    is_value: bool = False

    @property
    def key(self) -> Key:
        return self.revision.id, self.is_value


def _recorded(places: Sequence[_Place]) -> float | None:
    """Return the drift that the nearest of some commits recorded."""
    for place in places:
        told = dict(dict(place.revision.commit.errors).get(ERROR_CLASS, ())).get(_DRIFT)
        if told is not None and abs(told) <= 1:
            return told
    return None


def _read_weights(
    reading: Reading, anatomy: Anatomy
) -> Iterator[tuple[Path, DType, Iterator[bytes | memoryview]]]:
    """Yield what a commit has of the weights of a state, in files of any name."""
    wanted = {(leaf.path[1:], leaf.dtype, leaf.shape) for leaf in anatomy.weights}
    for path, leaf in zip(reading.tree.leaf_paths(), reading.tree.leaves, strict=True):
        if (path[1:], leaf.dtype, leaf.shape) in wanted:
            yield path, leaf.dtype, reading.store.chunks(leaf, exact=reading.exact)


def drift(anatomy: Anatomy, near: tuple[int, EarlierWeights], far: tuple[int, EarlierWeights]) -> float:
    """Return how much of the moves between two commits went on since, -1 to 1: 1 for all of it, as fast.

    Moves to and fro do not, so it is near zero, or below, where weights only fluctuate.

    Args:
        anatomy: the state at hand.
        near: how many commits ago the second of the two was, and what weights were there.
        far: the same of the first.
    """
    (since, later), (begun, earlier) = near, far
    moved = alike = 0.0
    for before, between, now in _samples(anatomy, earlier, later):
        with np.errstate(all="ignore"):
            first, second = between - before, now - between
            known = np.isfinite(first) & np.isfinite(second)
            moved += float(np.sum(first * first, where=known, dtype=np.float64))
            alike += float(np.sum(first * second, where=known, dtype=np.float64))
    share = alike / moved * (begun - since) / since if moved else 0.0
    return min(max(share, -1.0), 1.0) if math.isfinite(share) else 0.0


def _samples(
    anatomy: Anatomy, earlier: EarlierWeights, later: EarlierWeights
) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Yield evenly spaced values of each weight, as they were twice and as they are."""
    weights = anatomy.weights
    stride = max(sum(element_count(leaf.shape) for leaf in weights) // SAMPLE, 1)
    for leaf in weights:
        before, between = earlier.find(leaf), later.find(leaf)
        if before is None or between is None:
            continue
        halves = upper_halves(b"".join(_spaced(leaf, stride)), leaf.dtype.name)
        yield (
            from_upper_halves(before[::stride]),
            from_upper_halves(between[::stride]),
            from_upper_halves(halves),
        )


def _spaced(leaf: CapturedLeaf, stride: int) -> Iterator[bytes | memoryview]:
    """Yield every n-th element of a leaf, a run for each chunk."""
    skipped = 0
    for part in leaf.views():
        values = np.frombuffer(part, f"<u{leaf.dtype.itemsize}")
        yield values[skipped::stride].tobytes()
        skipped = (skipped - values.size) % stride


def _joined(parts: Iterable[Halves]) -> Halves:
    found = list(parts)
    # Most leaves are one chunk, and a copy costs more than to take the halves.
    return found[0] if len(found) == 1 else np.concatenate([np.zeros(0, np.uint16), *found])


@dataclass
class Momentum:
    """Where the first moments of a state would still take its weights if all further gradients were zero.

    That is where weights have to start for the steps after a restore without first moments to lead to the
    same place: the auxiliary iterate of momentum methods (Ghadimi, Feyzmahdavian and Johansson 2015, section
    3). Along the leading directions of an update gradients would bring weights back, so these are left out.
    Safe to use from several threads, as long as each takes tensors of its own.

    Attributes:
        anatomy: the state.
        tiers: whose first moments are carried.
        memory: what moves may take, 2 bytes a weight; of more none is told.
    """

    anatomy: Anatomy
    tiers: MomentTiers
    memory: Budget
    _moves: dict[Path, Halves | None] = field(default_factory=dict)

    def chunk(self, leaf: CapturedLeaf, index: int) -> Floats | None:
        """Return what is added to one chunk of a weight: float32 [n]; None where nothing tells it."""
        if leaf.path not in self._moves:
            self._moves[leaf.path] = self._move(leaf)
        found, run = self._moves[leaf.path], chunk_elements(leaf.dtype)
        return None if found is None else from_upper_halves(found[index * run : (index + 1) * run])

    def __post_init__(self) -> None:
        """Hold nothing yet."""
        self._room = self.memory.hold(Use.MOMENTUM)

    @cached_property
    def _of_weights(self) -> dict[Path, tuple[UpdateRule, dict[str, CapturedLeaf]]]:
        leaves, found = self.anatomy.captured.leaves, {}
        for one, rule in ((state.parameter, state.rule) for state in self.anatomy.optimizers):
            carries = self.tiers[one.any_leaf].first == CARRIED_MOMENT
            if not carries or one.weight is None or rule is None or one.settings.get("maximize"):
                continue
            moments = {name: leaves[one.leaves[name]] for name in rule.moments if name in one.leaves}
            if len(moments) == len(rule.moments) and _alike(leaves[one.weight], list(moments.values())):
                found[leaves[one.weight].path] = rule, moments
        values = sum(element_count(next(iter(moments.values())).shape) for _, moments in found.values())
        return found if self._room.resize(2 * values) else {}

    def _move(self, leaf: CapturedLeaf) -> Halves | None:
        if leaf.path not in self._of_weights:
            return None
        rule, moments = self._of_weights[leaf.path]
        with np.errstate(all="ignore"):
            moves = _updates(rule, moments).reshape(leaf.shape[0], -1)
            moves *= np.float32(-1 / (1 - rule.persistence))
        if not remove_leading_directions(moves):
            return None
        return upper_halves(moves.reshape(-1).view(np.uint8), "float32")


def _alike(weight: CapturedLeaf, moments: Sequence[CapturedLeaf]) -> bool:
    """Tell whether moments are those of a large matrix, and of one type, as those are that are left out."""
    kinds = {one.dtype for one in moments}
    shapes = {one.shape for one in (weight, *moments)}
    large = min(row_count(weight.shape), column_count(weight.shape)) > LEADING_DIRECTIONS
    return large and len(shapes) == len(kinds) == 1 and moments[0].dtype.quantizable


def _updates(rule: UpdateRule, moments: dict[str, CapturedLeaf]) -> Floats:
    """Return the next update of a whole parameter, without what decay adds to it."""
    names = list(moments)
    parts = zip(*(leaf.views() for leaf in moments.values()), strict=True)
    kinds = [leaf.dtype.name for leaf in moments.values()]
    found = []
    for chunk in parts:
        values = {name: to_float32(part, kind) for name, part, kind in zip(names, chunk, kinds, strict=True)}
        found.append(rule.update(values))
    return np.concatenate(found)
