"""A lattice commit tried out: what other steps would take and restore, with nothing stored."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, islice, repeat

import numpy as np

from mvcs.checkpoint import Captured, CapturedLeaf
from mvcs.commits.before.earlier_weights import EarlierWeights
from mvcs.commits.bounded.groups import BoundedGroups
from mvcs.commits.leaves.bounded import BoundedLeaves
from mvcs.commits.plan.treatments import Planned, Treatment
from mvcs.commits.quantizers.chosen import Codings, constant
from mvcs.commits.quantizers.fisher import filled, squared_gradients
from mvcs.commits.quantizers.refined import Refining
from mvcs.commits.trials.sampled_chunks import Attempt, SampledChunk, raw_bytes_of, stored_bytes
from mvcs.delta import Buffer
from mvcs.objects import Lattice, Leaf, Path, element_count
from mvcs.quantize import (
    Coded,
    Codes,
    Coding,
    ErrorSums,
    Floats,
    LatticeCoding,
    LatticeConfig,
    QuantizerConfig,
    from_float32,
    sample_of,
    to_float32,
)

_TRIED = frozenset({Treatment.WEIGHT, Treatment.FINE, Treatment.VARIANCE, Treatment.COPY})
_SAMPLE = 1 << 22  # values of a layer type that speak for the others


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
        quantizing: by settings, what a commit of the state near its parent would do.
        config: settings of what is not tried, such as the moments.
        gradients: mean squared gradients of weights by path; what the state itself tells comes first.
        kinds: the weights by layer type, those that are one constant left out.
        parents: the parent's step byte of each layer type that has one.
        starts: the step byte that the settings give each layer type.
    """

    captured: Captured
    quantizing: Callable[[QuantizerConfig], BoundedGroups]
    config: LatticeConfig
    gradients: Mapping[Path, float] = field(default_factory=dict)
    kinds: Mapping[str, list[CapturedLeaf]] = field(init=False)
    parents: Mapping[str, int] = field(init=False)
    starts: Mapping[str, int] = field(init=False)
    _codings: Codings = field(init=False)
    _bounded: BoundedLeaves = field(init=False)
    _tried: dict[tuple[str, int, float], TrialResult] = field(default_factory=dict)
    _chunks: dict[str, list[SampledChunk]] = field(init=False)
    _sensitivities: dict[Path, float] = field(init=False)

    def __post_init__(self) -> None:
        """Sort the weights by layer type."""
        quantizing = self.quantizing(self.config)
        self._codings, self._bounded = quantizing.codings, quantizing.bounded
        kinds: dict[str, list[tuple[CapturedLeaf, Leaf | None]]] = defaultdict(list)
        for item in _weights(quantizing):
            leaf = self.captured.leaves[item.index]
            base = quantizing.keeper.bases.find(leaf)
            if self._on_a_lattice(quantizing, item, leaf, base):
                kinds[quantizing.codings.types[leaf]].append((leaf, base))
        self.kinds = {kind: [leaf for leaf, _ in found] for kind, found in kinds.items()}
        self.starts = {kind: quantizing.codings.steps[kind] for kind in kinds}
        steps = {kind: [self._bounded.old_step(base) for _, base in found] for kind, found in kinds.items()}
        coarsest = {
            kind: max((step for step in old if step is not None), default=None) for kind, old in steps.items()
        }
        self.parents = {kind: step for kind, step in coarsest.items() if step is not None}
        self._chunks = {kind: list(self._sampled(found)) for kind, found in kinds.items()}
        self.gradients = {**self.gradients, **squared_gradients(quantizing.keeper.anatomy)}
        self._sensitivities = self._sensitive()

    @staticmethod
    def _on_a_lattice(
        quantizing: BoundedGroups, item: Planned, leaf: CapturedLeaf, base: Leaf | None
    ) -> bool:
        """Tell whether a weight gets codes whose step can be chosen."""
        if not isinstance(quantizing.asked(item, leaf, base, {}), LatticeCoding):
            return False
        # What no step is fine enough for is kept exactly, as after a restore that can no longer be read.
        return quantizing.bounded.snap_back is None or quantizing.coded(item, leaf, base, {}) is not None

    @property
    def earlier(self) -> EarlierWeights | None:
        """The weights of the newest commit that is known; None for none: then no code of a row is kept."""
        return self._bounded.earlier

    def tried(self, kind: str, step: int, hysteresis: float) -> TrialResult:
        """Return what a step means for the weights of a layer type; each is worked out once."""
        key = kind, step, hysteresis
        if key not in self._tried:
            self._tried[key] = self._try(kind, step, hysteresis)
        return self._tried[key]

    def values(self, config: QuantizerConfig) -> "RestoredValues":
        """Return what a commit with these settings would restore of all quantized leaves but moments."""
        return restored_values(self.quantizing(config))

    def steps(self, steps: Mapping[str, int], hysteresis: float) -> LatticeConfig:
        """Return settings with a step byte for each layer type."""
        return replace(self.config, steps=tuple(steps.items()), hysteresis=hysteresis)

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
        leaf, codings, bounded = chunks[0].leaf, self._codings, self._bounded
        asked = LatticeCoding(step, leaf.dtype, hysteresis, element_count(leaf.shape[1:]))
        refining = Refining(
            partial(Attempt.of, chunks),
            # A step that a search gives counts, whatever the parent's was refined to.
            excess=lambda made: bounded.errors.excess(made.errors, made.coding.parameters, None),
            keeps=lambda made: bounded.snap_back is None or bounded.snap_back.keeps(made.progress),
            finer=lambda coding, excess: codings.finer(leaf, asked, coding, excess),
        )
        return refining.of(asked).made

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
        for leaf, base, index, part, before in islice(self._places(weights), 0, None, every):
            yield SampledChunk(leaf, index, part, self._old(base, index), self._bounded.context, before)

    def _places(
        self, weights: list[tuple[CapturedLeaf, Leaf | None]]
    ) -> Iterator[tuple[CapturedLeaf, Leaf | None, int, memoryview, Floats | None]]:
        guard = self._bounded.snap_back
        for leaf, base in weights:
            found = guard.before(leaf) if guard else None
            before: Iterable[Floats | None] = repeat(None) if found is None else found
            for (index, part), values in zip(_parts(leaf), before, strict=False):
                yield leaf, base, index, part, values

    def _old(self, base: Leaf | None, index: int) -> tuple[Codes, int] | None:
        old, bounded = self._bounded.old_tensor(base), self._codings.bounded
        if old is None or not isinstance(old.parameters, Lattice):
            return None
        codes = bounded.old_codes(old, index)
        return None if codes is None else (codes, old.parameters.step)


@dataclass(frozen=True)
class RestoredValues(Mapping[Path, Floats]):
    """Restored values of leaves by path, float32 and flat, each made when it is asked for.

    A leaf that would be kept exactly has its own values.
    """

    _quantizing: BoundedGroups
    _items: Mapping[Path, tuple[Planned, Planned]]  # what is done with a leaf, and with the one it copies

    def __len__(self) -> int:
        """Return how many leaves there are."""
        return len(self._items)

    def __iter__(self) -> Iterator[Path]:
        """Yield the paths."""
        return iter(self._items)

    def leaf(self, path: Path) -> CapturedLeaf:
        """Return what was captured there."""
        return self._quantizing.captured.leaves[self._items[path][0].index]

    def __getitem__(self, path: Path) -> Floats:
        """Return the values of a leaf; those of a low-precision copy are its master's, not rounded yet."""
        _, item = self._items[path]
        leaf = self._quantizing.captured.leaves[item.index]
        parts = list(leaf.views())
        floats = [to_float32(part, leaf.dtype.name) for part in self._restored(item, leaf, parts)]
        return np.concatenate(floats) if floats else np.zeros(0, np.float32)

    def content(self, path: Path) -> bytes:
        """Return the bytes of a leaf as a checkout gives them: in its own dtype, copies rounded."""
        planned, item = self._items[path]
        leaf = self._quantizing.captured.leaves[item.index]
        parts = list(leaf.views())
        restored = self._restored(item, leaf, parts)
        if planned is item:
            return b"".join(map(bytes, restored))
        copy = self.leaf(path)
        if restored is parts or constant(copy):
            return bytes(copy.source.read())
        return b"".join(from_float32(to_float32(part, leaf.dtype.name), copy.dtype.name) for part in restored)

    def _restored(self, item: Planned, leaf: CapturedLeaf, parts: list[memoryview]) -> Iterable[Buffer]:
        base = self._quantizing.keeper.bases.find(leaf)
        coded = self._quantizing.coded(item, leaf, base, {})
        return parts if coded is None else _restored(coded.coding, coded.chunks, parts, leaf)


def restored_values(quantizing: BoundedGroups) -> RestoredValues:
    """Return what a commit would restore of all quantized leaves but moments."""
    items = {
        quantizing.captured.leaves[item.index].path: (item, group[0] if item.source is not None else item)
        for group in quantizing.groups()
        for item in group
        if item.treatment in _TRIED
    }
    return RestoredValues(quantizing, items)


def _restored(
    coding: Coding, chunks: list[Coded], parts: list[memoryview], leaf: CapturedLeaf
) -> Iterator[Buffer]:
    for index, (chunk, part) in enumerate(zip(chunks, parts, strict=True)):
        yield coding.restore(chunk, index, part.nbytes // leaf.dtype.itemsize)


def _mean_square(values: Floats) -> float:
    finite = values[np.isfinite(values)].astype(np.float64)
    return float(np.mean(finite * finite)) if finite.size else 0.0


def _weights(quantizing: BoundedGroups) -> Iterator[Planned]:
    for group in quantizing.groups():
        yield from (item for item in group if item.treatment is Treatment.WEIGHT)


def _parts(leaf: CapturedLeaf) -> Iterator[tuple[int, memoryview]]:
    return enumerate(leaf.views())
