"""The error of the next update: what a bounded commit changes in the step that its optimizer would take."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from mvcs.checkpoint import Captured, CapturedLeaf, Parameter
from mvcs.commits.plan.optimizer_states import OptimizerState
from mvcs.objects import element_count
from mvcs.quantize import (
    ErrorSums,
    Floats,
    RestoredTensor,
    Sample,
    UpdateRule,
    measure_errors,
    restored_sample,
    sample_of,
)

ERROR_CLASS = "next update"

_TOO_FEW = 1 / 1000
_WEIGHT = "weight"


@dataclass
class NextUpdate:
    """Compares the next update from what is restored with that from what was handed over.

    Leaves are sampled as they are stored, and samples are dropped when all leaves of a parameter are there.
    Parameters of less than a thousandth of all values are left out: there are many of them, and they would
    cost more than all others. Safe to use from several threads.

    Attributes:
        captured: what was handed over.
        large: the states of all parameters but the smallest.
        errors: what was measured so far.
    """

    captured: Captured
    large: list[OptimizerState] = field(default_factory=list)
    errors: list[ErrorSums] = field(default_factory=list)
    _wanted: dict[int, list["_Pending"]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def of(cls, captured: Captured, found: list[OptimizerState], *, measures: bool = True) -> "NextUpdate":
        """Watch for the leaves of these parameters; where nothing is to be measured, for none."""
        made, sizes = cls(captured), [_size(one.parameter, captured) for one in found]
        least = sum(sizes) * _TOO_FEW
        large = [one for one, size in zip(found, sizes, strict=True) if size >= least]
        made.large = large
        for pending in _pending(large, captured) if measures else ():
            for index in pending.leaves.values():
                made._wanted.setdefault(index, []).append(pending)
        return made

    def note(self, index: int, quantized: RestoredTensor | None) -> None:
        """Take down a leaf that was stored; None for one that is kept exactly."""
        for pending in self._wanted.get(index, ()):
            sample = self._sample(index, quantized, pending)
            with self._lock:
                pending.samples[index] = sample
                pending.bounded |= quantized is not None
                done = len(pending.samples) == len(set(pending.leaves.values()))
            if done:
                self._finish(pending)

    def _sample(self, index: int, quantized: RestoredTensor | None, pending: "_Pending") -> Sample:
        leaf = self.captured.leaves[index]
        counts, exact = [], []
        for part in leaf.views():
            counts.append(part.nbytes // leaf.dtype.itemsize)
            exact.append(sample_of(part, leaf.dtype))
        whole = _joined(exact)
        if quantized is None:
            return Sample(whole, whole)
        return Sample(whole, _joined(self._restored(leaf, counts, exact, quantized, pending)))

    def _restored(
        self,
        leaf: CapturedLeaf,
        counts: list[int],
        exact: list[Floats],
        quantized: RestoredTensor,
        pending: "_Pending",
    ) -> Iterator[Floats]:
        second = pending.samples.get(pending.leaves.get("exp_avg_sq", -1))
        start = 0
        for index, (count, found) in enumerate(zip(counts, exact, strict=True)):
            roots = None if second is None else second.restored[start : start + found.size]
            chunk = quantized.chunks[index]
            yield restored_sample(quantized.coding, chunk, index, found, count, leaf.dtype, roots)
            start += found.size

    def _finish(self, pending: "_Pending") -> None:
        samples = {name: pending.samples[index] for name, index in pending.leaves.items()}
        pending.samples.clear()
        if not pending.bounded:
            return
        with np.errstate(all="ignore"):
            exact = _update(pending.rule, {name: sample.exact for name, sample in samples.items()})
            restored = _update(pending.rule, {name: sample.restored for name, sample in samples.items()})
        sums = measure_errors(exact, restored)
        with self._lock:
            self.errors.append(sums)


@dataclass
class _Pending:
    """A parameter some of whose leaves are not stored yet."""

    rule: UpdateRule
    leaves: dict[str, int]
    samples: dict[int, Sample] = field(default_factory=dict)
    bounded: bool = False


def _pending(found: list[OptimizerState], captured: Captured) -> Iterator[_Pending]:
    for parameter, rule in ((one.parameter, one.rule) for one in found):
        if rule is None or not parameter.leaves.keys() >= set(rule.moments):
            continue
        leaves = {name: parameter.leaves[name] for name in rule.moments}
        if parameter.weight is not None and rule.decay:
            leaves[_WEIGHT] = parameter.weight
        shapes = {captured.leaves[index].shape for index in leaves.values()}
        if len(shapes) == 1 and all(captured.leaves[index].dtype.quantizable for index in leaves.values()):
            yield _Pending(rule, leaves)


def _size(parameter: Parameter, captured: Captured) -> int:
    return element_count(captured.leaves[parameter.any_leaf].shape)


def _update(rule: UpdateRule, samples: dict[str, Floats]) -> Floats:
    return rule.update(samples, samples.get(_WEIGHT))


def _joined(parts: Iterable[Floats]) -> Floats:
    found = list(parts)
    return np.concatenate(found) if found else np.zeros(0, np.float32)
