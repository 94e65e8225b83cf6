"""The code tables of the published method: thresholds by layer type, a table for each weight, and scores."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from mvcs.checkpoint import CapturedLeaf, Role, is_embedding, path_components
from mvcs.commits.plan.anatomy import Anatomy
from mvcs.commits.plan.treatments import FIRST_MOMENT, MOMENTUM
from mvcs.commits.quantizers.layer_types import LayerTypes
from mvcs.commits.quantizers.leaf_values import sketched
from mvcs.errors import UsageError
from mvcs.objects import Path, chunk_elements, element_count
from mvcs.quantize import (
    MAX_BINS,
    Floats,
    KMeansConfig,
    QuantizerConfig,
    ScoredValues,
    Sketch,
    TableCoding,
    fit_codebook,
    to_float32,
)

Scores = Callable[[int], Floats]

_OUTER = 3  # keys before a weight's own name: a file, a part of the run


@dataclass(frozen=True)
class Importance:
    """Gives the scores of weights, chunk by chunk.

    Attributes:
        moments: the first moment of a weight, by the weight's path.
        given: scores of a weight, larger ones more important, by its name in the model.
    """

    moments: Mapping[Path, CapturedLeaf] = field(default_factory=dict)
    given: Mapping[str, ArrayLike] = field(default_factory=dict)

    def scores(self, leaf: CapturedLeaf) -> Scores | None:
        """Return a function that gives the scores of a chunk by its number; None where none are known.

        The score of a moment m is |m * w| (Inshrinkerator, section 4.1, with the optimizer's own average of
        gradients for the gradient).
        """
        moment = self.moments.get(leaf.path)
        if moment is not None:
            return _products(leaf, moment)
        found = next((self.given[name] for name in _names(leaf.path) if name in self.given), None)
        return None if found is None else _handed_in(leaf, found)


def importance_of(anatomy: Anatomy, config: QuantizerConfig, given: Mapping[str, ArrayLike]) -> Importance:
    """Find the scores that settings ask for.

    Raises:
        UsageError: they have to be handed in, and are not.
    """
    score = config.score if isinstance(config, KMeansConfig) else None
    if score == "sensitivity" and not given:
        raise UsageError(
            "pruning or protecting by sensitivity needs scores of the weights",
            hint="hand them in as importance=, or use momentum",
        )
    if score == "momentum":
        return Importance(moments=dict(_first_moments(anatomy)))
    return Importance(given=given) if score else Importance()


def _products(leaf: CapturedLeaf, moment: CapturedLeaf) -> Scores:
    def scores(index: int) -> Floats:
        first = _part(moment, leaf, index)
        with np.errstate(all="ignore"):
            found: Floats = np.abs(first * _part(leaf, leaf, index))
        return found

    return scores


def _part(of: CapturedLeaf, leaf: CapturedLeaf, index: int) -> Floats:
    """Return the values of a tensor in a chunk of another one's grid."""
    run, width = chunk_elements(leaf.dtype), of.dtype.itemsize
    return to_float32(of.source.part(index * run * width, run * width), of.dtype.name)


def _handed_in(leaf: CapturedLeaf, found: ArrayLike) -> Scores | None:
    values, run = np.asarray(found), chunk_elements(leaf.dtype)
    if values.size != element_count(leaf.shape) or not np.issubdtype(values.dtype, np.floating):
        return None
    flat = values.reshape(-1)

    def scores(index: int) -> Floats:
        found: Floats = np.abs(flat[index * run : (index + 1) * run].astype(np.float32))
        return found

    return scores


def _names(path: Path) -> Iterator[str]:
    """Yield what a weight may be called: its path less the keys before its name in the model, in turn."""
    yield from (".".join(path_components(path[skipped:])) for skipped in range(min(_OUTER, len(path))))


def _first_moments(anatomy: Anatomy) -> Iterator[tuple[Path, CapturedLeaf]]:
    """Yield the first moment of each weight that an optimizer keeps one of, by the weight's path."""
    leaves = anatomy.captured.leaves
    for one in anatomy.parameters:
        moment = one.leaves.get(FIRST_MOMENT, one.leaves.get(MOMENTUM))
        if one.weight is None or moment is None or anatomy.roles[one.weight] is not Role.WEIGHT:
            continue
        if leaves[moment].dtype.quantizable:
            yield leaves[one.weight].path, leaves[moment]


@dataclass(frozen=True)
class Limits:
    """What is pruned and what is kept exactly of the weights of one layer type, by magnitude and by score."""

    prune_below: float = 0.0
    protect_above: float = math.inf
    score_below: float = 0.0
    score_above: float = math.inf

    @property
    def scored(self) -> bool:
        """Whether scores are looked at."""
        return self.score_below > 0 or self.score_above < math.inf


@dataclass
class Tables:
    """Makes codings of weights.

    Attributes:
        config: the settings.
        importance: gives scores, where the settings ask for some.
        types: which layer type a weight is of.
        limits: of each layer type (Inshrinkerator, section 4.2).
    """

    config: KMeansConfig
    importance: Importance
    types: LayerTypes = field(default_factory=LayerTypes)
    limits: dict[str, Limits] = field(default_factory=dict)

    def prepare(self, leaves: Iterable[CapturedLeaf]) -> None:
        """Look at all weights for the thresholds of their layer types."""
        if not self.config.prunes_or_protects:
            return
        kinds: dict[str, list[CapturedLeaf]] = defaultdict(list)
        for leaf in leaves:
            kinds[self.types[leaf]].append(leaf)
        self.limits = {kind: self._limits(found) for kind, found in kinds.items()}

    def coding(self, leaf: CapturedLeaf) -> TableCoding:
        """Return the coding of one weight."""
        limits = self.limits.get(self.types[leaf], Limits())
        return self._fitted(leaf, self._config(leaf), limits)

    def finer(self, leaf: CapturedLeaf, coding: TableCoding) -> TableCoding | None:
        """Return a coding that prunes nothing, or one with twice as many values; None where none has more."""
        limits = replace(self.limits.get(self.types[leaf], Limits()), prune_below=0.0, score_below=0.0)
        bins = coding.bins if coding.codebook.zero is not None else min(2 * coding.bins, MAX_BINS)
        if coding.codebook.zero is None and coding.bins == MAX_BINS:
            return None
        return self._fitted(leaf, replace(self._config(leaf), bins=bins), limits)

    def _fitted(self, leaf: CapturedLeaf, config: KMeansConfig, limits: Limits) -> TableCoding:
        below, above = limits.prune_below, limits.protect_above
        scores = self.importance.scores(leaf) if limits.scored else None
        if scores is None:
            codebook = fit_codebook(
                sketched(leaf), config, dtype=leaf.dtype.name, prune_below=below, protect_above=above
            )
            return TableCoding(codebook, leaf.dtype, below, above, bins=config.bins)
        seen, prunes = _left_over(leaf, limits, scores), max(below, limits.score_below) > 0
        codebook = fit_codebook(seen, config, dtype=leaf.dtype.name, prunes=prunes)

        def scored(index: int) -> ScoredValues:
            return ScoredValues(scores(index), limits.score_below, limits.score_above)

        return TableCoding(codebook, leaf.dtype, below, above, scored, config.bins)

    def _config(self, leaf: CapturedLeaf) -> KMeansConfig:
        bins = self.config.embedding_bins
        if bins is None or not is_embedding(leaf.path, leaf.shape):
            return self.config
        return replace(self.config, bins=bins, prune=0.0)

    def _limits(self, leaves: list[CapturedLeaf]) -> Limits:
        """Return thresholds at the quantiles of magnitudes and scores over a layer type."""
        config, magnitudes = self._config(leaves[0]), Sketch()
        for leaf in leaves:
            magnitudes.merge(sketched(leaf))
        scores = self._scores(leaves) if config.score else None
        by_score, halves = (
            scores and config.metric != "magnitude",
            scores and config.protects_by != "magnitude",
        )
        kept = config.protect / 2 if halves else config.protect
        return Limits(
            0.0 if by_score else _lowest(magnitudes, config.prune),
            _highest(magnitudes, kept),
            _lowest(scores, config.prune) if scores and by_score else 0.0,
            _highest(scores, kept) if scores and halves else math.inf,
        )

    def _scores(self, leaves: list[CapturedLeaf]) -> Sketch | None:
        """Return the sketch of the scores of a layer type; None where some tensor has none."""
        sketch = Sketch()
        for leaf in leaves:
            scores = self.importance.scores(leaf)
            if scores is None:
                return None
            for index in range(-(-element_count(leaf.shape) // chunk_elements(leaf.dtype))):
                sketch.add(scores(index))
        return sketch


def _left_over(leaf: CapturedLeaf, limits: Limits, scores: Scores) -> Sketch:
    """Return the sketch of the values that are neither pruned nor kept exactly."""
    sketch = Sketch()
    for index, part in enumerate(leaf.views()):
        values = to_float32(part, leaf.dtype.name)
        magnitudes, found = np.abs(values), scores(index)
        left = (magnitudes >= limits.prune_below) & (magnitudes <= limits.protect_above)
        left &= ~((found < limits.score_below) | (found > limits.score_above))
        sketch.add(values[left])
    return sketch


def _lowest(sketch: Sketch, share: float) -> float:
    return sketch.magnitude_quantile(share, "low") if share else 0.0


def _highest(sketch: Sketch, share: float) -> float:
    return sketch.magnitude_quantile(share, "high") if share else math.inf
