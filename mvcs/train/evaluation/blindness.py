"""Telling an evaluation that does not use the model it is given from one that minds no rounding."""

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import torch

from mvcs.errors import EvaluationError, UsageError
from mvcs.search import SEARCH_DEFAULTS, InsensitiveMeasure, SearchSettings, Verdict
from mvcs.train.evaluation.live_tensors import Weights, has_bits

_logger = logging.getLogger("mvcs.train")

_TURNS: Final = 37.0  # of a cosine, over values: what is alike before is not behind it


class Blindness:
    """Whether an evaluation sees the candidates of a run.

    Three candidates that differ from the model and get its very numbers are suspicious. An accuracy may do
    that, or a model that does not use its weights yet. So quite other weights are evaluated then, once.
    """

    def __init__(self, settings: SearchSettings = SEARCH_DEFAULTS) -> None:
        self._measure = InsensitiveMeasure(settings)

    @property
    def doubt(self) -> str | None:
        """Why no verdict says anything; None where they do."""
        return self._measure.doubt

    def judged(
        self, verdict: Verdict, weights: Weights, live: Weights, judge: Callable[[Weights], Verdict]
    ) -> None:
        """Take note of a candidate.

        Args:
            verdict: on it.
            weights: of it; asked for where the verdict saw no difference.
            live: the model's own, by the same names.
            judge: gives a verdict on other weights.
        """
        if verdict.is_same and not _differ(weights, live):
            return
        if self._measure.judged(verdict):
            if _sees(judge, weights):
                self._measure.told_apart()
            else:
                _logger.warning("%s", self.doubt)


def _differ(weights: Weights, live: Weights) -> bool:
    """Tell whether a bit of any of the weights is another one than the model's."""
    return any(not has_bits(live[name].cpu(), value.cpu()) for name, value in weights.items())


def _sees(judge: Callable[[Weights], Verdict], weights: Weights) -> bool:
    try:
        return not judge(OtherWeights(weights)).is_same
    except (EvaluationError, UsageError):
        return True  # it fails with other weights, or gives other batches


@dataclass(frozen=True)
class OtherWeights(Mapping[str, torch.Tensor]):
    """Weights of the same magnitudes as others, which have nothing else in common with them.

    Elements that are the same stay so, as those that share memory have to.
    """

    weights: Weights

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.weights)

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self.weights)

    def __getitem__(self, name: str) -> torch.Tensor:
        """Return a tensor of the same shape and dtype; whole numbers are the same."""
        value = self.weights[name]
        if not value.is_floating_point():
            return value
        wide = value.detach().double()
        scale = math.sqrt(float(wide.square().mean())) if wide.numel() else 1.0
        scale = scale if 0 < scale < math.inf else 1.0
        return (scale * torch.cos(_TURNS / scale * wide + 1)).to(value.dtype)
