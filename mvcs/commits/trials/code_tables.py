"""A k-means commit tried out: what its weights would take and restore, with nothing stored."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mvcs.checkpoint import Captured, CapturedLeaf, is_embedding
from mvcs.commits.before.parent import ParentCodes
from mvcs.commits.bounded.groups import BoundedGroups
from mvcs.commits.leaves.coded_tensor import CodedTensor
from mvcs.commits.quantizers.chosen import constant
from mvcs.commits.trials.lattice_steps import RestoredValues, restored_values, weights_of
from mvcs.delta import CodeChunks, CodeCoder, choose_codes
from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.history import Revision
from mvcs.objects import QuantizedTensor
from mvcs.quantize import Coded, KMeansConfig, QuantizerConfig


@dataclass
class TableTrial:
    """The weights of a state before its commit, and what code tables would make of them.

    Attributes:
        captured: the state.
        bounded: by settings, what a commit of the state near its parent would do.
        before: the parent's settings, where it is such a commit.
    """

    captured: Captured
    bounded: Callable[[QuantizerConfig], BoundedGroups]
    before: KMeansConfig | None = None
    _made: dict[QuantizerConfig, BoundedGroups] = field(default_factory=dict)

    @property
    def has_embeddings(self) -> bool:
        """Whether some weight is a table of embeddings."""
        return any(is_embedding(leaf.path, leaf.shape) for leaf in self.captured.leaves)

    def weights(self, config: QuantizerConfig) -> list[CapturedLeaf]:
        """Return the weights that get tables: not one constant, nor what float32 cannot hold."""
        bounded = self._bounded(config)
        leaves = [bounded.given(item).leaf for item in weights_of(bounded)]
        return [leaf for leaf in leaves if leaf.path not in bounded.beyond and constant(leaf) is None]

    def has_scores(self, config: QuantizerConfig) -> bool:
        """Tell whether there is the score of some weight that the settings ask for."""
        scores = self._bounded(config).codings.importance.scores
        return any(scores(leaf) is not None for leaf in self.weights(config))

    def stored(self, config: KMeansConfig) -> int:
        """Return about how many bytes the weights take in a pack."""
        bounded = self._bounded(config)
        total = 0
        for given in map(bounded.given, weights_of(bounded)):
            coder = bounded.bounded.value.coder
            total += _stored(given.leaf, bounded.coded(given), bounded.coder.parents, coder)
        return total

    def values(self, config: QuantizerConfig) -> RestoredValues:
        """Return what a commit with these settings would restore of all quantized leaves but moments."""
        return restored_values(self._bounded(config))

    def _bounded(self, config: QuantizerConfig) -> BoundedGroups:
        if config not in self._made:
            self._made[config] = self.bounded(config)
        return self._made[config]


def table_settings(parent: Revision | None) -> KMeansConfig | None:
    """Return the settings of a commit, if they are those of code tables."""
    if parent is None or parent.commit.quantizer is None:
        return None
    try:
        config = QuantizerConfig.from_fields(parent.commit.quantizer)
    except (UnsupportedFormatError, CorruptionError):
        return None
    return config if isinstance(config, KMeansConfig) else None


def _stored(leaf: CapturedLeaf, coded: CodedTensor | None, parents: ParentCodes, coder: CodeCoder) -> int:
    if coded is None:
        return leaf.raw_bytes
    coding, chunks = coded.coding, coded.chunks
    if not chunks[0].codes.size:
        return 0
    content = np.concatenate([chunk.codes for chunk in chunks])
    base = None if coded.near is None else _base(coded.near, chunks, parents)
    lengths = [chunk.codes.size for chunk in chunks]
    codes = CodeChunks(content, coding.width, lengths, coding.levels, base)
    payload = choose_codes(codes, coder)[1]
    return len(payload) + sum(len(chunk.exceptions) for chunk in chunks)


def _base(old: QuantizedTensor, chunks: list[Coded], parents: ParentCodes) -> bytes | None:
    """Return the parent's codes, if there are as many."""
    codes = parents.all_codes(old)
    return codes if codes is not None and len(codes) == sum(chunk.codes.size for chunk in chunks) else None
