"""The published method: settings of k-means, searched by evaluation, with scores from the run's gradients.

Inshrinkerator, SoCC 2024. What differs from the paper stands in docs/design/007-published-search.md.
"""

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any, Final

import torch
from numpy.typing import ArrayLike
from torch import nn

from mvcs.checkpoint import MODEL
from mvcs.commits import TableTrial
from mvcs.quantize import KMeansConfig, MomentsConfig
from mvcs.search import MAGNITUDE, Baseline, CubeOutcome, CubeSearch, TableCube, TableSetting, Verdict
from mvcs.train.choice.published.sensitivity import Sensitivity
from mvcs.train.choice.search import Choice, Chooser, Trials, bounded_moments
from mvcs.train.evaluation.evaluator import Evaluator

SIGMA: Final = 0.2  # section 4.4
EMBEDDING_BINS: Final = (16, 32)  # table 9
_FINEST = TableSetting(bins=32, prune=0.0, protect=0.01)


class PublishedChooser(Chooser):
    """Chooses settings of k-means for each commit of a run.

    Scores are sensitivities where the optimizer is one of torch's. At commits that fall outside the steps in
    which gradients are averaged, and for other optimizers, they are products of weights and first moments.

    Args:
        evaluator: measures candidates.
        model: whose gradients are averaged.
        optimizer: whose steps use them.
        moments: what is kept of the optimizer's moments.
        every: commits are made after every so many steps; None if that is not known. Then all gradients are
            averaged, not only those of the last steps before a commit.
        measure: see `Chooser`.
        evaluations: candidates at one commit, at most; None is as many as it takes.
        seconds: no further candidate of a commit is begun after so many.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        model: nn.Module,
        optimizer: object,
        *,
        moments: MomentsConfig,
        every: int | None = None,
        measure: Mapping[str, bool] | None = None,
        evaluations: int | None = None,
        seconds: float | None = None,
    ) -> None:
        self._moments, self._every = moments, every
        super().__init__(
            self._config(_FINEST, {}),
            {MODEL: evaluator},
            measure=measure,
            evaluations=evaluations,
            seconds=seconds,
        )
        listens = isinstance(optimizer, torch.optim.Optimizer)
        self._sensitivity = Sensitivity(model, optimizer) if listens else None  # type: ignore[arg-type]  # just seen
        self._expect(-1)

    def close(self) -> None:
        """Give back what evaluations hold, and listen to the optimizer no longer."""
        super().close()
        if self._sensitivity is not None:
            self._sensitivity.close()

    def _begin(self, evaluations: int | None, mean: float) -> None:  # noqa: ARG002 - it takes what it takes
        self._cube_search = CubeSearch(most=evaluations)

    def _chosen(self, step: int, state: Mapping[str, Any], trials: Trials) -> Choice:
        scores = self._sensitivity.importance() if self._sensitivity else {}
        self._expect(step)
        model, *others = self._parts(state)
        epsilon = model.evaluator.bound.epsilon(step)
        self._moments = bounded_moments(self._moments, epsilon)
        parts = {path: one.name for one in (model, *others) for path in one.tensors}
        trial = trials.table_trial(state, scores, parts)
        self._start(trial)
        beside = [(other, other.evaluator.baseline(step, other.own)) for other in others]

        def search(baseline: Baseline) -> CubeOutcome:
            def judge(setting: TableSetting) -> Verdict:
                """Judge all parts by one setting: the worst of them counts, and the first that is refused."""
                values = trial.values(self._config(setting, scores))
                verdicts = list[Verdict]()
                for part, own in ((model, baseline), *beside):
                    verdicts.append(part.evaluator.judge(step, part.weights(values, model), own, whole=True))
                    if not verdicts[-1].accepted:
                        return verdicts[-1]
                return max(verdicts, key=lambda verdict: verdict.degradation)

            def stored(setting: TableSetting) -> int:
                return trial.stored(self._config(setting, scores))

            return self._cube_search.run(stored, judge, self._budget(perf_counter(), baseline))

        found = self._measured(model, step, search, lambda: trial.values(self._config(_FINEST, scores)))
        chosen = found.outcome.chosen if isinstance(found.outcome, CubeOutcome) else None
        if chosen is None:
            return self._choice([found], None)
        choice = self._choice([found], self._config(chosen.setting, scores))
        # What an unchecked commit takes, when there may be no scores.
        self._checked, self._checked_parts = self._config(chosen.setting, {}), parts
        return replace(choice, importance=scores, parts=parts)

    def _start(self, trial: TableTrial) -> None:
        """Let a model with embeddings have an axis for them, and a resumed run its last setting."""
        search, before = self._cube_search, trial.before
        search.cube = TableCube(embedding_bins=EMBEDDING_BINS if trial.has_embeddings else ())
        if search.last is None and before is not None:
            metric = MAGNITUDE if before.metric == MAGNITUDE or not before.prune else search.cube.metrics[-1]
            search.last = TableSetting(
                before.bins, before.prune, before.protect, metric, before.embedding_bins
            )

    def _config(self, setting: TableSetting, scores: Mapping[str, ArrayLike]) -> KMeansConfig:
        """Return the settings of a commit; half of what is protected is so for its score (section 4.2)."""
        score = "sensitivity" if scores else "momentum"
        return KMeansConfig(
            bins=setting.bins,
            prune=setting.prune,
            protect=setting.protect,
            sigma=SIGMA,
            metric=MAGNITUDE if setting.metric == MAGNITUDE else score,
            protect_metric=score,
            embedding_bins=setting.embedding_bins,
            moments=self._moments,
        )

    def _expect(self, step: int) -> None:
        if self._sensitivity is not None and self._every is not None:
            self._sensitivity.expect(self._every - (step + 1) % self._every)
