"""A lattice commit tried out: what other steps would take and restore, with nothing stored."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, islice, repeat
from typing import TYPE_CHECKING

import numpy as np

from mvcs.checkpoint import Captured, CapturedLeaf, Stamp
from mvcs.commits.before.earlier_weights import EarlierWeights
from mvcs.commits.bounded.groups import BoundedGroups
from mvcs.commits.leaves.coded_tensor import GivenLeaf, progress, rescaled, worthwhile
from mvcs.commits.plan.treatments import Planned, Treatment
from mvcs.commits.quantizers.chosen import constant
from mvcs.commits.quantizers.leaf_values import filled, squared_gradients
from mvcs.delta import Buffer
from mvcs.errors import ConflictError
from mvcs.objects import Lattice, Leaf, Path, element_count
from mvcs.quantize import (
    Coded,
    Codes,
    Coding,
    ErrorSums,
    Floats,
    LatticeCoding,
    LatticeConfig,
    LatticeContext,
    ProgressSums,
    QuantizerConfig,
    errors_of,
    from_float32,
    sample_of,
    to_float32,
)
from mvcs.search import Evaluation
from mvcs.store import payload_bytes

if TYPE_CHECKING:
    from mvcs.commits.trials.code_tables import TableTrial

_TRIED = frozenset({Treatment.WEIGHT, Treatment.FINE, Treatment.VARIANCE, Treatment.COPY})
_SAMPLE = 1 << 22  # values of a layer type that speak for the others


@dataclass(frozen=True)
class RestoredValues(Mapping[Path, Floats]):
    """Restored values of leaves by path, float32 and flat, each made when it is asked for.

    A leaf that would be kept exactly has its own values.
    """

    _bounded: BoundedGroups
    _items: Mapping[Path, tuple[Planned, Planned]]  # what is done with a leaf, and with the one it copies

    def __len__(self) -> int:
        """Return how many leaves there are."""
        return len(self._items)

    def __contains__(self, path: object) -> bool:
        """Tell whether a leaf is there, without restoring it."""
        return path in self._items

    def __iter__(self) -> Iterator[Path]:
        """Yield the paths."""
        return iter(self._items)

    def leaf(self, path: Path) -> CapturedLeaf:
        """Return what was captured there."""
        return self._bounded.keeper.anatomy.captured.leaves[self._items[path][0].index]

    def __getitem__(self, path: Path) -> Floats:
        """Return the values of a leaf; those of a low-precision copy are its master's, not rounded yet."""
        _, item = self._items[path]
        leaf = self._bounded.keeper.anatomy.captured.leaves[item.index]
        parts = list(leaf.views())
        floats = [to_float32(part, leaf.dtype.name) for part in self._restored(item, leaf, parts)]
        return np.concatenate(floats) if floats else np.zeros(0, np.float32)

    def content(self, path: Path) -> bytes:
        """Return the bytes of a leaf as a checkout gives them: in its own dtype, copies rounded."""
        planned, item = self._items[path]
        leaf = self._bounded.keeper.anatomy.captured.leaves[item.index]
        parts = list(leaf.views())
        restored = self._restored(item, leaf, parts)
        if planned is item:
            return b"".join(map(bytes, restored))
        copy = self.leaf(path)
        if restored is parts or constant(copy):
            return bytes(copy.source.read())
        return b"".join(from_float32(to_float32(part, leaf.dtype.name), copy.dtype.name) for part in restored)

    def _restored(self, item: Planned, leaf: CapturedLeaf, parts: list[memoryview]) -> Iterable[Buffer]:
        coded = self._bounded.coded(self._bounded.given(item))
        return parts if coded is None else _restored(coded.coding, coded.chunks, parts, leaf)


def restored_values(bounded: BoundedGroups) -> RestoredValues:
    """Return what a commit would restore of all quantized leaves but moments."""
    items = {
        bounded.keeper.anatomy.captured.leaves[item.index].path: (
            item,
            group[0] if item.source is not None else item,
        )
        for group in bounded.groups()
        for item in group
        if item.treatment in _TRIED
    }
    return RestoredValues(bounded, items)


def _restored(
    coding: Coding, chunks: list[Coded], parts: list[memoryview], leaf: CapturedLeaf
) -> Iterator[Buffer]:
    for index, (chunk, part) in enumerate(zip(chunks, parts, strict=True)):
        yield coding.restore(chunk, index, part.nbytes // leaf.dtype.itemsize)


@dataclass(frozen=True)
class SampledChunk:
    """One chunk of a weight, the parent's codes for it with their step, and how it came from there.

    What it was lossily restored to is `before`; None where progress since is not measured.
    """

    leaf: CapturedLeaf
    index: int
    part: memoryview
    old: tuple[Codes, int] | None
    context: Callable[[CapturedLeaf, int, Codes | None], LatticeContext]
    before: Floats | None = None

    def coded(self, coding: LatticeCoding) -> tuple[Coded, Codes | None]:
        """Return the chunk's codes, and the parent's on the same step."""
        near = None if self.old is None else rescaled(*self.old, coding.step)
        return coding.code(self.part, self.index, self.context(self.leaf, self.index, near)), near


@dataclass(frozen=True)
class Attempt:
    """Chunks of one weight in codes, and those of the parent on the same step; what its tensor would lose."""

    coding: LatticeCoding
    chunks: list[SampledChunk]
    codes: list[Coded]
    olds: list[Codes | None]

    @classmethod
    def of(cls, chunks: list[SampledChunk], coding: Coding) -> "Attempt | None":
        """Code the chunks; None where codes may not stand for them."""
        if not isinstance(coding, LatticeCoding):
            return None
        codes, olds = zip(*(chunk.coded(coding) for chunk in chunks), strict=True)
        made = cls(coding, chunks, list(codes), list(olds))
        return made if worthwhile(chunks[0].leaf, made.codes, raw_bytes_of(chunks)) else None

    @cached_property
    def errors(self) -> ErrorSums:
        """What the values lose."""
        return ErrorSums.total(
            [
                errors_of(self.coding, coded, chunk.part, chunk.index, chunk.leaf.dtype.name)
                for chunk, coded in zip(self.chunks, self.codes, strict=True)
            ]
        )

    @property
    def progress(self) -> ProgressSums:
        """What is kept of the moves since a lossy restore; of none where there was none."""
        sums = ProgressSums()
        for chunk, coded in zip(self.chunks, self.codes, strict=True):
            if chunk.before is not None:
                sums += progress(chunk.leaf, self.coding, coded, chunk.index, chunk.part, chunk.before)
        return sums


@dataclass(frozen=True)
class TrialResult:
    """What settings mean for some weights.

    Attributes:
        stored: bytes of their codes near the parent's, in a pack.
        errors: what their values lose.
        loss: the same as the loss of the model minds it: squared errors over squared weights, both times how
            sensitive the tensor is, as a share of all weights.
    """

    stored: float
    errors: ErrorSums
    loss: float


@dataclass
class LatticeTrial:
    """The weights of a state before its commit, and what settings would make of them near the parent's codes.

    Of a layer type with more than 4 million values, evenly spread chunks are tried and speak for the others.

    Attributes:
        captured: the state.
        bounded: by settings, what a commit of the state near its parent would do.
        config: settings of what is not tried, such as the moments.
        gradients: mean squared gradients of weights by path; what the state itself tells comes first.
        kinds: the weights by layer type, those that are one constant left out, and averages of others, whose
            steps follow.
        parents: the parent's step byte of each layer type that has one.
        starts: the step byte that the settings give each layer type.
    """

    captured: Captured
    bounded: Callable[[QuantizerConfig], BoundedGroups]
    config: LatticeConfig
    gradients: Mapping[Path, float] = field(default_factory=dict)
    kinds: Mapping[str, list[CapturedLeaf]] = field(init=False)
    parents: Mapping[str, int] = field(init=False)
    starts: Mapping[str, int] = field(init=False)
    _given: BoundedGroups = field(init=False)
    _tried: dict[tuple[str, int, float], TrialResult] = field(default_factory=dict)
    _chunks: dict[str, list[SampledChunk]] = field(init=False)
    _leaves: dict[Path, GivenLeaf] = field(default_factory=dict)
    _sensitivities: dict[Path, float] = field(init=False)

    def __post_init__(self) -> None:
        """Sort the weights by layer type."""
        bounded = self._given = self.bounded(self.config)
        parents = bounded.coder.parents
        kinds: dict[str, list[tuple[CapturedLeaf, Leaf | None]]] = defaultdict(list)
        for given in map(bounded.given, weights_of(bounded)):
            kind = bounded.codings.types[given.leaf]
            if kind not in bounded.codings.following and self._on_a_lattice(bounded, given):
                kinds[kind].append((given.leaf, given.base))
                self._leaves[given.leaf.path] = given
        self.kinds = {kind: [leaf for leaf, _ in found] for kind, found in kinds.items()}
        self.starts = {kind: bounded.codings.steps[kind] for kind in kinds}
        steps = {kind: [parents.step(base) for _, base in found] for kind, found in kinds.items()}
        coarsest = {
            kind: max((step for step in old if step is not None), default=None) for kind, old in steps.items()
        }
        self.parents = {kind: step for kind, step in coarsest.items() if step is not None}
        self._chunks = {kind: list(self._sampled(found)) for kind, found in kinds.items()}
        self.gradients = {**self.gradients, **squared_gradients(bounded.keeper.anatomy)}
        self._sensitivities = self._sensitive()

    @staticmethod
    def _on_a_lattice(bounded: BoundedGroups, given: GivenLeaf) -> bool:
        """Tell whether a weight gets codes whose step can be chosen."""
        if not isinstance(bounded.asked(given), LatticeCoding):
            return False
        # What no step is fine enough for is kept exactly, as after a restore that can no longer be read.
        return bounded.snap_back is None or bounded.coded(given) is not None

    @property
    def held(self) -> frozenset[str]:
        """The layer types of frozen weights: on the parent's step they keep their codes."""
        return self._given.codings.held.intersection(self.kinds)

    @property
    def earlier(self) -> EarlierWeights | None:
        """The weights of the newest commit that is known; None for none: then no code of a row is kept."""
        return self._given.coder.surroundings.earlier

    def tried(self, kind: str, step: int, hysteresis: float) -> TrialResult:
        """Return what a step means for the weights of a layer type; each is worked out once."""
        key = kind, step, hysteresis
        if key not in self._tried:
            self._tried[key] = self._try(kind, step, hysteresis)
        return self._tried[key]

    def values(self, config: QuantizerConfig) -> RestoredValues:
        """Return what a commit with these settings would restore of all quantized leaves but moments."""
        return restored_values(self.bounded(config))

    def steps(self, steps: Mapping[str, int], hysteresis: float) -> LatticeConfig:
        """Return settings with a step byte for each layer type; those that are named for others stay."""
        named = dict(self.config.steps) | dict(steps)
        return replace(self.config, steps=tuple(named.items()), hysteresis=hysteresis)

    def _try(self, kind: str, step: int, hysteresis: float) -> TrialResult:
        codes, olds, errors, losses, exact = [], [], [], [], 0
        for path, found in groupby(self._chunks[kind], lambda chunk: chunk.leaf.path):
            chunks = list(found)
            made = self._fine_enough(chunks, step, hysteresis)
            if made is None:
                exact += raw_bytes_of(chunks)
                continue
            codes += made.codes
            olds += made.olds
            errors.append(made.errors)
            losses.append(self._sensitivities[path] * made.errors.squares)
        factor = self._factor(kind)
        stored = (stored_bytes(codes, olds) + exact) * factor
        return TrialResult(stored, ErrorSums.total(errors).scaled(factor), math.fsum(losses) * factor)

    def _fine_enough(self, chunks: list[SampledChunk], step: int, hysteresis: float) -> Attempt | None:
        """Return a tensor's chunks in codes, refined as a commit would; None where it keeps them exactly."""
        leaf, given = chunks[0].leaf, self._given
        asked = given.codings.on_step(self._leaves[leaf.path], step, hysteresis)
        coding: Coding | None = asked
        while asked is not None and coding is not None:
            made = Attempt.of(chunks, coding)
            if made is None:
                return None
            # A step that a search gives counts, whatever the parent's was refined to.
            excess = given.errors.excess(made.errors, coding.parameters, None)
            guard = given.snap_back
            if excess <= 1 and (guard is None or guard.keeps(made.progress, made.errors)):
                return made
            coding = given.codings.finer(leaf, asked, coding, excess)
        return None

    def _factor(self, kind: str) -> float:
        """Return how many times the chunks that are tried there is."""
        whole = sum(leaf.raw_bytes for leaf in self.kinds[kind])
        return whole / raw_bytes_of(self._chunks[kind])

    def _sensitive(self) -> dict[Path, float]:
        """Return what a squared error in each tensor counts: in all 1 if all weights became zero."""
        power: dict[Path, float] = defaultdict(float)
        counts: dict[Path, int] = defaultdict(int)
        for chunk in (chunk for chunks in self._chunks.values() for chunk in chunks):
            count = chunk.part.nbytes // chunk.leaf.dtype.itemsize
            power[chunk.leaf.path] += count * _mean_square(sample_of(chunk.part, chunk.leaf.dtype))
            counts[chunk.leaf.path] += count
        # Nothing known of any tensor: an error counts in units of the tensor's own weights.
        known = filled(self.gradients, list(power)) or {
            path: counts[path] / found if found else 0.0 for path, found in power.items()
        }
        total = math.fsum(
            self._factor(kind)
            * sum(known[path] * power[path] for path in {chunk.leaf.path for chunk in chunks})
            for kind, chunks in self._chunks.items()
        )
        return {path: known[path] / total if total else 0.0 for path in power}

    def _sampled(self, weights: list[tuple[CapturedLeaf, Leaf | None]]) -> Iterator[SampledChunk]:
        """Yield every n-th chunk, so that about as many values remain as one chunk may have."""
        every = max(sum(element_count(leaf.shape) for leaf, _ in weights) // _SAMPLE, 1)
        surroundings = self._given.coder.surroundings
        for leaf, base, index, part, before in islice(self._places(weights), 0, None, every):
            yield SampledChunk(leaf, index, part, self._old(base, index), surroundings.context, before)

    def _places(
        self, weights: list[tuple[CapturedLeaf, Leaf | None]]
    ) -> Iterator[tuple[CapturedLeaf, Leaf | None, int, memoryview, Floats | None]]:
        guard = self._given.snap_back
        for leaf, base in weights:
            found = guard.before(leaf) if guard else None
            before: Iterable[Floats | None] = repeat(None) if found is None else found
            for (index, part), values in zip(_parts(leaf), before, strict=False):
                yield leaf, base, index, part, values

    def _old(self, base: Leaf | None, index: int) -> tuple[Codes, int] | None:
        parents = self._given.coder.parents
        old = parents.tensor(base)
        if old is None or not isinstance(old.parameters, Lattice):
            return None
        codes = parents.codes(old, index)
        return None if codes is None else (codes, old.parameters.step)


def _mean_square(values: Floats) -> float:
    finite = values[np.isfinite(values)].astype(np.float64)
    return float(np.mean(finite * finite)) if finite.size else 0.0


def weights_of(bounded: BoundedGroups) -> Iterator[Planned]:
    """Yield what is done with each weight."""
    for group in bounded.groups():
        yield from (item for item in group if item.treatment is Treatment.WEIGHT)


def _parts(leaf: CapturedLeaf) -> Iterator[tuple[int, memoryview]]:
    return enumerate(leaf.views())


def raw_bytes_of(chunks: Iterable[SampledChunk]) -> int:
    """Return the bytes of chunks as they were handed over."""
    return sum(chunk.part.nbytes for chunk in chunks)


def stored_bytes(codes: list[Coded], olds: list[Codes | None]) -> int:
    """Return about how many bytes codes and exceptions take in a pack."""
    exceptions = sum(len(each.exceptions) for each in codes)
    near = (None if old is None else old.view(np.uint8) for old in olds)
    return exceptions + payload_bytes(zip((each.codes for each in codes), near, strict=True))


@dataclass(frozen=True)
class FilesTrial:
    """A trial of files, which a commit of the same files can be held to.

    Attributes:
        trial: what settings would make of them.
        parent: the commit that theirs would continue, in hexadecimal; "" for none.
        stored: tells how many bytes a commit with some settings would take that records an evaluation, its
            exact layer left out: it is made and kept nowhere.
        parts: see `CommitRequest`.
    """

    trial: "LatticeTrial | TableTrial"
    parent: str
    stored: Callable[[QuantizerConfig, Evaluation], int]
    parts: Mapping[Path, str] | None = None

    @property
    def captured(self) -> Captured:
        """The files, taken apart."""
        return self.trial.captured

    def require_same(self, captured: Captured) -> None:
        """Refuse other files than those that were tried.

        Raises:
            ConflictError: one was written, added or removed since.
        """
        tried, now = _stamps(self.captured), _stamps(captured)
        changed = sorted(path for path in {*tried, *now} if tried.get(path) != now.get(path))
        if changed:
            raise ConflictError(
                f"'{changed[0]}' changed since it was tried: what was measured is not what is there",
                hint="try again when nobody writes to it",
            )


def _stamps(captured: Captured) -> dict[str, Stamp]:
    return {path: file.stamp for path, file in captured.origins.items()}
