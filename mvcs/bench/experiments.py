"""The experiments of two papers on a run of one's own, each figure beside the published one.

"Inshrinkerator" (SoCC 2024): figure 11, tables 5 to 8. "QD-Compressor" (TPDS 2023): tables 1, 4, 5 and 10,
whose networks were trained by error feedback; those here were not. What is measured stands in the ledger of
`mvcs.bench.ledger`, so that a killed experiment continues.
"""

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from pathlib import Path
from statistics import fmean, median
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from mvcs.bench.codecs.clock import Work, compare, seconds
from mvcs.bench.comparison import Terms, needs_of
from mvcs.bench.comparison import compare as compare_method
from mvcs.bench.judges import TaskJudge
from mvcs.bench.ledger import LATTICE, Ledger, Record, Series
from mvcs.bench.methods.catalog import METHODS
from mvcs.bench.methods.inshrinkerator import Inshrinkerator, types_of
from mvcs.bench.methods.method import (
    Floats,
    Method,
    NotApplicableError,
    Setting,
    Shapes,
    State,
    Tensors,
    joined,
    read_shapes,
    unpack,
)
from mvcs.bench.methods.method import before as known_before
from mvcs.bench.methods.qd import QD, Codes
from mvcs.bench.restarts import Arm, Plan, restores_of, train_arm
from mvcs.bench.results import Result
from mvcs.bench.runs.recorded_state import RecordedRun
from mvcs.bench.runs.run_maker import one_thread, train_step
from mvcs.bench.runs.tasks import samples_of
from mvcs.delta import encode_moves
from mvcs.errors import CorruptionError, UsageError, meant
from mvcs.inshrinkerator import fit_codebook
from mvcs.progress import Progress
from mvcs.quantize import KMeansConfig, Sketch
from mvcs.reports import Report

Published = Mapping[str, float | None]
"""A paper's figure for each of its models; None where it says that there is none."""
_CODERS = ("he", "rle", "pe")
_OURS = "mvcs"
_FIRST_OF_TYPES = 4  # sections of a payload of Inshrinkerator before those of layer types
_PAIRS = 5
_TEN = 10
_TRAIN_STEPS = 3


@dataclass(frozen=True)
class Row(Report):
    """One figure beside the published one.

    Attributes:
        what: it is about.
        published: by the paper's models; empty where the paper has no such figure.
        measured: here; None where that could not be, or where nothing was found.
        unit: of both.
        note: what else is to be said.
    """

    what: str
    published: Published
    measured: float | None
    unit: str
    note: str = ""


@dataclass(frozen=True)
class PaperReport(Report):
    """What an experiment came to.

    Attributes:
        name: how it is asked for.
        source: paper, and table or figure.
        differs: what differs from the paper.
        run: where the checkpoints came from.
        rows: in the paper's order.
    """

    name: str
    source: str
    differs: str
    run: str
    rows: list[Row]


@dataclass(frozen=True)
class Options:
    """How experiments are made.

    Attributes:
        seed: of what methods draw.
        evaluations: at one checkpoint, at most; None is as many as a search takes.
        values: for `table8`, how many are sorted and clustered.
        steps: for `table5`, of training; there are 20 checkpoints, and one after each step if that is fewer.
        restores: for `table5`, how often arms are restored.
        seeds: for `table5`, how many arms there are of each kind, the first with `seed`.
        methods: for `table5`, which are restored from.
    """

    seed: int = 0
    evaluations: int | None = None
    values: int = 5_000_000
    steps: int = 800
    restores: Sequence[int] = (10,)
    seeds: int = 1
    methods: Sequence[str] = ("cnr", "uniform", "inshrinkerator", "lattice", "excp")


@dataclass(frozen=True)
class _Lab:
    """What an experiment has to work with."""

    given: RecordedRun | None
    judge: TaskJudge
    out: Path
    options: Options
    progress: Progress

    @property
    def run(self) -> RecordedRun:
        """The recorded checkpoints.

        Raises:
            UsageError: there are none.
        """
        if self.given is None:
            raise UsageError("this experiment needs checkpoints", hint="name their folder behind its name")
        return self.given

    @cached_property
    def ledger(self) -> Ledger:
        """What was measured of them."""
        return Ledger.of(self.out, self.run.source, self.run.digest, self.run.readers, self.judge.identity)

    @property
    def variants(self) -> Ledger:
        """The same of what no report shows."""
        folder = self.ledger.folder / "variants"
        folder.mkdir(exist_ok=True)
        return replace(self.ledger, folder=folder)

    def measure(
        self,
        method: Method,
        max_degradation: float,
        fixed: str | None = None,
        run: RecordedRun | None = None,
    ) -> Series:
        """Measure a method on the checkpoints, or on some of them by themselves.

        What is no method of `mvcs bench run` on the whole run is kept with the variants.
        """
        terms = Terms(max_degradation, self.options.seed, self.options.evaluations)
        usual = run is None and METHODS.get(method.name) is method
        ledger = self.ledger if usual else self.variants
        return compare_method(
            run or self.run, self.judge, method, ledger, terms, fixed=fixed, progress=self.progress
        )

    def ratio(self, what: str, published: Published, method: Method, fixed: str | None = None) -> Row:
        """Return a row with the ratio of all weights to what a method stores for them."""
        try:
            series = self.measure(method, _USUAL, fixed)
        except NotApplicableError as error:
            return Row(what, published, None, "x", error.message)
        found = Result.of(series, series.records(), list(self.run.readers))
        missed = f", none within 1 % at {found.missed} of {found.checkpoints}" if found.missed else ""
        note = f"loss {found.mean:+.2%} in the mean{missed}"
        return Row(what, published, found.weights, "x", note)


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper.

    Attributes:
        source: paper, and table or figure.
        differs: what differs from the paper.
        rows: does it.
    """

    source: str
    differs: str
    rows: Callable[[_Lab], list[Row]] = field(repr=False)


def run_experiment(
    name: str, run: RecordedRun | None, judge: TaskJudge, out: Path, options: Options, *, progress: Progress
) -> PaperReport:
    """Repeat an experiment of a paper on a run, or continue where a killed call was.

    Args:
        name: a key of `EXPERIMENTS`.
        run: the checkpoints; None for `table5`, which trains.
        judge: evaluates what they restore.
        out: the folder of the ledger.
        options: how it is made.
        progress: is told of every checkpoint.

    Raises:
        UsageError: there is no such experiment, or it needs checkpoints.
        FileFormatError: a checkpoint is not of the judge's model.
    """
    if name not in EXPERIMENTS:
        hint = meant(name, list(EXPERIMENTS)) or f"there are {', '.join(EXPERIMENTS)}"
        raise UsageError(f"there is no experiment '{name}'", hint=hint)
    experiment = EXPERIMENTS[name]
    rows = experiment.rows(_Lab(run, judge, out, options, progress))
    about = judge.task.name if run is None else run.source
    return PaperReport(name, experiment.source, experiment.differs, about, rows)


_FIG11: Mapping[str, tuple[Published, Published]] = {
    "he": ({"ResNet-152": 25}, {"ResNet-152": 30}),
    "rle": ({"ResNet-152": 28}, {"ResNet-152": 79}),
    "pe": ({"ResNet-152": 39}, {"ResNet-152": 366}),
}
"""SoCC 2024, section 9.3: the ratio of the whole run, and its peak."""
_USUAL, _DEFAULT = 0.01, 0.05  # the second is SoCC's (8.2)


def _coders(lab: _Lab) -> list[Row]:
    """Compare the coders on the codes that the search at 5 % found, which are the same for all."""
    method = METHODS["inshrinkerator-pe"]
    series = lab.measure(method, _DEFAULT)
    known: dict[str, dict[str, int]] = lab.ledger.known("fig11") or {}
    state, sizes, weights = None, dict[int, dict[str, int]](), dict[int, int]()
    for record, payload in _payloads(series, lab.run):
        after = method.decode(payload, state)[1]
        if record.payload not in known:
            recorded = lab.run.readers[record.step]()
            found = {"pe": len(payload), _OURS: _own_size(payload, state, after)}
            for coder in ("he", "rle"):
                other = METHODS[f"inshrinkerator-{coder}"]
                needs = needs_of(other, recorded, lab.options.seed)
                found[coder] = len(other.payload(recorded.weights, state, record.setting, **needs))
            known[record.payload] = found
            lab.ledger.keep("fig11", known)
        sizes[record.step], weights[record.step] = known[record.payload], record.weights
        state = after
    rows = []
    for coder in (*_CODERS, _OURS):
        title = f"{_OURS}, RANS_DELTA" if coder == _OURS else coder.upper()
        whole, peak = _FIG11.get(coder, ({}, {}))
        ratios = {step: weights[step] / sizes[step][coder] for step in sizes}
        stored = sum(found[coder] for found in sizes.values())
        rows += [
            Row(f"{title}, whole run", whole, sum(weights.values()) / stored, "x"),
            Row(f"{title}, peak", peak, max(ratios.values()), "x"),
            *(Row(f"{title}, step {step}", {}, ratio, "x") for step, ratio in ratios.items()),
        ]
    return rows


def _payloads(series: Series, run: RecordedRun) -> Iterator[tuple[Record, bytes]]:
    """Yield the records of a chain with their payloads."""
    digest = ""
    for step in run.readers:
        found = series.find(step, digest)
        if found is None:
            raise CorruptionError(f"the record of step {step} changed meanwhile")
        digest = found[0].payload
        yield found


def _own_size(payload: bytes, before: State | None, after: State) -> int:
    """Return bytes of the same codes by our own coder, with the tables and what is protected."""
    size = 0
    for names, base, _ in types_of(after.shapes, before):
        codes = np.concatenate([after.known["codes"][name].ravel() for name in names])
        size += len(encode_moves(codes, base, 1, [base.size]))
    for section in unpack(payload)[_FIRST_OF_TYPES:]:
        table, protected, *_ = unpack(section)
        size += len(table) + len(protected)
    return size


class _OwnAlone(Inshrinkerator):
    """Inshrinkerator with any number of bins for all weights, and nothing pruned."""

    name = "table7-inshrinkerator"
    axes: ClassVar = {
        "bins": (4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 192, 250),
        "prune": (0.0,),
        "protect": (0.005,),
    }


_MODELS = (
    "ResNet18", "ResNet50", "ResNet152", "MobileNet V3 Large", "VGG19", "ViT B32", "ViT L32", "BERT Base",
    "GPT-2 Medium",
)  # fmt: skip
_TABLE6: Mapping[str, Published] = {
    "CR-w": {"BERT-L": 11.32, "Pythia 1B": 9.99},
    "fine-tuned": {"SST-2": -0.11, "MNLI": 0.0, "STS-B": -2.56, "Alpaca": 2.80},
}
"""SoCC 2024, table 6; the second is by how much the metric is worse than that of the original, fine-tuned."""
_TRANSFERRED = ("inshrinkerator", LATTICE)


def _transfers(lab: _Lab) -> list[Row]:
    """Store the first checkpoint by itself, and train from what that restores, as the run was trained."""
    known: dict[str, dict[str, float]] = lab.ledger.known("table6") or {}
    first, *_, last = (read().state() for read in lab.run.readers.values())
    task = lab.judge.task
    sample = samples_of(task).report

    def loss(state: Mapping[str, Any]) -> float:
        learner = task.learner(task.model())
        learner.load_state_dict(state)
        return sample.metrics(learner.model)["loss"]

    lab.progress.start("fine-tuning", len(_TRANSFERRED), "times")
    for name in _TRANSFERRED:
        if name not in known:
            with one_thread(lab.options.seed):
                known[name] = _transferred(lab, METHODS.get(name, name), first)
            lab.ledger.keep("table6", known)
        lab.progress.advance(1)
    lab.progress.finish()
    before, after = loss(first), loss(last)
    rows = [
        Row("the original", {}, before, "loss"),
        Row("the original, fine-tuned", {}, after, "loss"),
    ]
    for name, found in known.items():
        lost, tuned = 100 * (found["restored"] / before - 1), 100 * (found["fine-tuned"] / after - 1)
        rows += [
            Row(f"{name}: CR-w", _TABLE6["CR-w"], found["CR-w"], "x"),
            Row(f"{name}: restored", {}, lost, "%", "worse than the original"),
            Row(
                f"{name}: fine-tuned",
                _TABLE6["fine-tuned"],
                tuned,
                "%",
                "worse than the original, fine-tuned",
            ),
        ]
    return rows


def _transferred(lab: _Lab, method: Method | str, first: Mapping[str, Any]) -> dict[str, float]:
    """Return the ratio of weights, and the loss of what is restored before and after training."""
    task, steps = lab.judge.task, list(lab.run.readers)
    learner, sample = task.learner(task.model()), samples_of(task).report
    learner.load_state_dict(first)
    terms = Terms(_DEFAULT, lab.options.seed, lab.options.evaluations)
    with restores_of(lab.judge, method, lab.variants, terms) as restores:
        restores.commit(learner, steps[0])
        restores.restore(learner, steps[0])
        ratio = restores.sizes()["weights"]
    restored = sample.metrics(learner.model)["loss"]
    plan = first.get("plan", {})
    for step in range(steps[0], steps[-1]):
        train_step(task, learner, step, plan.get("steps", steps[-1]), plan.get("seed", 0))
    return {"CR-w": ratio, "restored": restored, "fine-tuned": sample.metrics(learner.model)["loss"]}


_TABLE7: Mapping[float, Mapping[str, Sequence[float | None]]] = {
    0.001: {
        "cnr": (42.84, 46.36, 59.32, 65.24, 50.46, 37.01, 37.40, None, 106.86),
        "qd": (None,) * 9,
        "gobo": (None,) * 9,
        "inshrinkerator": (21.25, 21.39, 20.18, 27.92, 13.06, 19.88, 13.31, 54.30, 54.71),
    },
    0.01: {
        "cnr": (33.75, 35.07, 40.71, 54.44, 31.01, 28.37, 32.95, 81.45, 47.71),
        "qd": (35.51, 53.65, None, None, 45.36, 38.43, None, None, 60.17),
        "gobo": (33.12, 31.78, None, None, None, None, None, None, None),
        "inshrinkerator": (16.85, 14.36, 11.92, 32.48, 8.99, 14.33, 10.79, 22.75, 16.19),
    },
    0.05: {
        "cnr": (23.55, 23.06, 26.74, 36.68, 18.48, 20.85, 25.36, 43.18, 24.60),
        "qd": (23.25, 33.69, 39.36, 47.96, 25.15, 28.79, 35.34, 53.10, 31.14),
        "gobo": (17.50, 20.12, None, 30.79, None, None, None, None, None),
        "inshrinkerator": (10.19, 8.24, 7.20, 17.91, 6.26, 9.75, 8.46, 12.74, 9.08),
    },
}
"""SoCC 2024, table 7: mean bins. None is a timeout of 30 minutes, or that nothing was found."""


def _bins(lab: _Lab) -> list[Row]:
    """Search the bins of each of ten checkpoints by itself: the first payload of a chain has no base."""
    steps = list(lab.run.readers)[1:]
    chosen = [steps[place] for place in np.unique(np.linspace(0, len(steps) - 1, _TEN).round().astype(int))]
    methods = {name: METHODS[name] for name in ("cnr", "qd", "gobo")} | {"inshrinkerator": _OwnAlone()}
    rows = []
    for bound, published in _TABLE7.items():
        for name, method in methods.items():
            found, bits = list[float](), list[float]()
            for step in chosen:
                only = replace(lab.run, readers={step: lab.run.readers[step]})
                ((record, payload),) = _payloads(lab.measure(method, bound, run=only), only)
                if record.kept:
                    found.append(_bins_of(record, payload))
                    bits.append(8 * len(payload) / sum(map(prod, read_shapes(unpack(payload)[0]).values())))
            lacking = len(chosen) - len(found)
            note = f"none within the bound at {lacking} of {len(chosen)} checkpoints" if lacking else ""
            what, theirs = f"{name}, {bound:.1%}", dict(zip(_MODELS, published[name], strict=True))
            rows.append(Row(what, theirs, fmean(found) if found else None, "bins", note))
            rows.append(Row(f"{what}, stored", {}, fmean(bits) if bits else None, "bits a weight", note))
    return rows


def _bins_of(record: Record, payload: bytes) -> float:
    """Return the bins of a setting; of QD-Compressor's widths the mean over all weights."""
    if "bins" in record.setting:
        return float(record.setting["bins"])
    layout, _, _, widths, *_ = unpack(payload)
    sizes = [prod(shape) for shape in read_shapes(layout).values()]
    return float(np.average(2.0 ** np.frombuffer(widths, np.uint8), weights=sizes))


_TABLE8: Mapping[str, Published] = {
    "quantile": {
        "ResNet152": 71.9 / 15.2,
        "ViT L32": 364 / 80.9,
        "BERT Base": 155 / 33.9,
        "GPT-2 M": 390 / 86.2,
    },
    "clustering": {
        "ResNet152": 10200 / 1160,
        "ViT L32": 50100 / 1140,
        "BERT Base": 20700 / 411,
        "GPT-2 M": 53400 / 819,
    },
}
"""SoCC 2024, table 8: CuPy's milliseconds over the paper's, and CuML's, on a GPU."""
_CLUSTERS = 32
_SHARE = 0.3


def _speeds(lab: _Lab) -> list[Row]:
    """Time the sketch and the clustering on the last checkpoint's weights, repeated to as many values."""
    last = list(lab.run.readers.values())[-1]()
    values = np.resize(joined(last.weights), lab.options.values)
    key = f"table8-{values.size}"
    known: dict[str, dict[str, float]] = lab.ledger.known(key) or {}
    magnitudes = np.abs(values)
    rank = int(_SHARE * values.size)
    numbers = torch.from_numpy(magnitudes)
    works: dict[str, tuple[Work, Work] | None] = {
        "quantile, numpy.partition": (
            lambda: np.partition(magnitudes, rank), lambda: _quantile(values)
        ),
        "quantile, torch.kthvalue": (lambda: torch.kthvalue(numbers, rank + 1), lambda: _quantile(values)),
        "clustering, scikit-learn": _clusterings(values),
    }  # fmt: skip
    rows = []
    lab.progress.start("timing", len(works), "pairs")
    with one_thread(lab.options.seed):
        for what, work in works.items():
            published = _TABLE8[what.partition(",")[0]]
            if work is None:
                rows.append(Row(what, published, None, "x", "not installed: pip install scikit-learn"))
                continue
            if what not in known:
                pairs = 1 if what.startswith("clustering") else _PAIRS
                known[what] = compare(*work, pairs, warm=0 if pairs == 1 else 1).to_json()
                lab.ledger.keep(key, known)
            found = known[what]
            note = f"{found['first_s'] * 1e3:.1f} ms, ours {found['second_s'] * 1e3:.1f} ms"
            rows.append(Row(what, published, found["ratio"], "x", note))
            lab.progress.advance(1)
    lab.progress.finish()
    return rows


def _quantile(values: Floats) -> float:
    return Sketch.of([values]).magnitude_quantile(_SHARE, "low")


def _clusterings(values: Floats) -> tuple[Work, Work] | None:
    if importlib.util.find_spec("sklearn") is None:
        return None
    kmeans = importlib.import_module("sklearn.cluster").KMeans
    config = KMeansConfig(bins=_CLUSTERS)
    column = values.reshape(-1, 1)
    return (
        lambda: kmeans(_CLUSTERS, n_init=1, random_state=0).fit(column),
        lambda: fit_codebook(Sketch.of([values]), config, "float32"),
    )


class _GlobalQD(QD):
    """QD-Compressor with one range for all tensors."""

    name = "qd1-global"

    def ends(self, tensors: Tensors) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the lowest and the highest value of all, for each."""
        lows, highs = super().ends(tensors)
        return np.full_like(lows, lows.min(initial=np.inf)), np.full_like(highs, highs.max(initial=-np.inf))


class _DeltaFirstQD(QD):
    """QD-Compressor's codes of differences from what was restored before; the first are of the weights."""

    name = "qd1-delta-first"

    def code(
        self,
        tensors: Tensors,
        state: State | None,
        setting: Setting,
        **_needs: Any,  # noqa: ANN401  # it has none
    ) -> Sequence[bytes]:
        """Return what the base does for differences."""
        bases = known_before(state, "restored", {name: one.shape for name, one in tensors.items()})
        moved = {name: tensors[name] - (np.float32(0) if base is None else base) for name, base in bases}
        return super().code(moved, None, setting)

    def restore(
        self, sections: Sequence[bytes], shapes: Shapes, state: State | None
    ) -> tuple[Tensors, Mapping[str, Any]]:
        """Return the sums of differences and what was restored before."""
        moved, _ = super().restore(sections, shapes, None)
        bases = known_before(state, "restored", shapes)
        found = {name: moved[name] + (np.float32(0) if base is None else base) for name, base in bases}
        return found, {"restored": found}


_NETWORKS = ("VGG-16", "ResNet-18", "GoogleNet", "MobileNet", "ShuffleNet (1)", "ShuffleNet (2)")


def _networks(*ratios: float) -> Published:
    return dict(zip(_NETWORKS, ratios, strict=True))


def _orders(lab: _Lab) -> list[Row]:
    """Compare ranges and the order of quantization and difference (TPDS 2023, table 1)."""
    return [
        lab.ratio("global", _networks(8.92, 10.41, 10.21, 10.05, 9.61, 11.45), _GlobalQD(), "8-8"),
        lab.ratio(
            "local, difference first",
            _networks(20.77, 15.46, 18.21, 11.41, 10.73, 13.34),
            _DeltaFirstQD(),
            "8-8",
        ),
        lab.ratio(
            "local, codes first", _networks(24.17, 19.26, 22.35, 14.96, 14.15, 17.82), METHODS["qd"], "8-8"
        ),
    ]


def _widths(lab: _Lab) -> list[Row]:
    """Compare codes of 8 and of 16 bits (TPDS 2023, table 4)."""
    return [
        lab.ratio("8 bits", {"MobileNet": 16.79, "VGG-16": 29.04}, METHODS["qd"], "8-8"),
        lab.ratio("16 bits", {"MobileNet": 3.49, "VGG-16": 4.05}, METHODS["qd"], "16-16"),
    ]


def _totals(lab: _Lab) -> list[Row]:
    """Compare the bytes of whole runs (TPDS 2023, table 5)."""
    published: list[tuple[str, str | None, Published]] = [
        ("zstd-3", None, _networks(1.079, 1.084, 1.082, 1.080, 1.076, 1.083)),
        ("sz3", None, _networks(4.643, 4.763, 4.731, 4.631, 4.469, 4.590)),
        ("deltadnn", None, _networks(8.92, 10.41, 10.21, 10.05, 9.61, 11.45)),
        ("lc", None, _networks(8.10, 8.24, 8.56, 7.98, 7.61, 7.75)),
        ("qd", "8-8", _networks(29.04, 21.51, 25.22, 16.79, 15.50, 19.70)),
        ("qd", "4-8", _networks(39.99, 27.98, 33.22, 21.70, 20.30, 25.29)),
    ]
    return [
        lab.ratio(f"{name}, {fixed} bits" if fixed else name, figures, METHODS[name], fixed)
        for name, fixed, figures in published
    ]


class _TimedQD(QD):
    """QD-Compressor that knows how long LZMA took, in seconds of the processor."""

    def __init__(self) -> None:
        self.took: float = 0.0

    def coded(self, moved: Sequence[Codes], cycles: Sequence[int]) -> Sequence[bytes]:
        """Return what the base does."""
        found: list[Sequence[bytes]] = []
        self.took = seconds(lambda: found.append(super(_TimedQD, self).coded(moved, cycles)))
        return found[0]

    def uncoded(self, sections: Sequence[bytes], cycles: Sequence[int], sizes: Sequence[int]) -> Codes:
        """Return what the base does."""
        found: list[Codes] = []
        self.took = seconds(lambda: found.append(super(_TimedQD, self).uncoded(sections, cycles, sizes)))
        return found[0]


_TABLE9: Mapping[str, tuple[tuple[float, float], Published, Published]] = {
    "the first quarter": ((0, 0.25), _networks(1, 1, 2, 3, 2, 2), _networks(3, 2, 3, 8, 5, 3)),
    "the second": ((0.25, 0.5), _networks(2, 1, 4, 1, 2, 2), _networks(2, 3, 7, 5, 4, 12)),
    "the third": ((0.5, 0.75), _networks(5, 3, 1, 1, 2, 2), _networks(2, 3, 6, 4, 5, 4)),
    "the last": ((0.75, 1), _networks(3, 1, 2, 1, 2, 2), _networks(2, 2, 3, 1, 2, 6)),
    "the first half": ((0, 0.5), _networks(1, 2, 1, 2, 3, 4), _networks(17, 32, 27, 16, 16, 9)),
    "the second half": ((0.5, 1), _networks(1, 1, 1, 1, 1, 2), _networks(6, 14, 15, 12, 10, 7)),
}
"""TPDS 2023, table 9: a period, and rounds of training with QD-Compressor and with LC-Checkpoint."""
_LOOKS = 10


def _recovery(lab: _Lab) -> list[Row]:
    """Code each period by itself, train on from what its end restores to, and count steps to the old loss."""
    known: dict[str, float | None] = lab.ledger.known("qd9") or {}
    steps = list(lab.run.readers)
    methods: dict[str, Setting] = {"qd": QD.fixed["4-8"], "lc": {"bits": 3}}
    rows = []
    lab.progress.start("recovering", len(methods) * len(_TABLE9), "periods")
    for period, ((begin, end), *published) in _TABLE9.items():
        own = steps[int(begin * (len(steps) - 1)) : int(end * (len(steps) - 1)) + 1]
        for (name, setting), figures in zip(methods.items(), published, strict=True):
            what = f"{name}, {period}"
            if what not in known:
                with one_thread(lab.options.seed):
                    known[what] = _recovered(lab, own, METHODS[name], setting)
                lab.ledger.keep("qd9", known)
            found = known[what]
            note = "" if found is not None else "not from one checkpoint to the next"
            rows.append(Row(what, figures, found, "steps", f"theirs in rounds; {note}".removesuffix("; ")))
            lab.progress.advance(1)
    lab.progress.finish()
    return rows


def _recovered(lab: _Lab, steps: Sequence[int], method: Method, setting: Setting) -> float | None:
    """Return after how many steps the loss is what it was, looked at a few times; None if it never was."""
    state = None
    for step in steps:
        recorded = lab.run.readers[step]()
        state = method.encode(recorded.weights, state, setting)[1]
    task, original = lab.judge.task, recorded.state()
    learner, sample = task.learner(task.model()), samples_of(task).verify
    learner.load_state_dict(original)
    goal = sample.metrics(learner.model)["loss"]
    learner.load_state_dict(recorded.state(None if state is None else state.tensors))
    saved = list(lab.run.readers)
    most, plan = saved[1] - saved[0], original.get("plan", {})
    for done in range(most + 1):
        if done % max(most // _LOOKS, 1) == 0 and sample.metrics(learner.model)["loss"] <= goal:
            return float(done)
        train_step(task, learner, steps[-1] + done, plan.get("steps", saved[-1]), plan.get("seed", 0))
    return None


_TABLE10: Mapping[str, Published] = {
    "training, a round": _networks(9.15, 15.56, 62.01, 18.51, 12.2, 18.92),
    "quantization": _networks(0.02, 0.03, 0.06, 0.05, 0.05, 0.04),
    "LZMA, compressing": _networks(10.66, 5.37, 2.35, 0.70, 0.33, 1.82),
    "LZMA, decompressing": _networks(0.17, 0.43, 0.23, 0.09, 0.07, 0.19),
    "restoring": _networks(0.03, 0.03, 0.08, 0.06, 0.05, 0.05),
}
"""TPDS 2023, table 10: seconds; writing a file, 0.06 to 0.15, is not repeated."""


def _breakdown(lab: _Lab) -> list[Row]:
    """Time the parts of QD-Compressor at 4 to 8 bits, and training from one checkpoint to the next."""
    method, setting = _TimedQD(), QD.fixed["4-8"]
    known: dict[str, dict[str, float]] = lab.ledger.known("qd10") or {}
    state = None
    lab.progress.start("timing", len(lab.run.readers), "checkpoints")
    with one_thread(lab.options.seed):
        for step, read in lab.run.readers.items():
            tensors, payloads, states = read().weights, list[bytes](), list[State]()
            base = state

            def encode(
                base: State | None = base, tensors: Tensors = tensors, to: list[bytes] = payloads
            ) -> None:
                to.append(method.payload(tensors, base, setting))

            def decode(
                base: State | None = base, of: list[bytes] = payloads, to: list[State] = states
            ) -> None:
                to.append(method.decode(of[0], base)[1])

            whole = seconds(encode)
            packed = method.took
            back = seconds(decode)
            parts = (whole - packed, packed, method.took, back - method.took)
            known.setdefault(str(step), dict(zip(list(_TABLE10)[1:], parts, strict=True)))
            lab.ledger.keep("qd10", known)
            state = states[0]
            lab.progress.advance(1)
        if "training" not in known:
            known["training"] = {"seconds": _round(lab)}
            lab.ledger.keep("qd10", known)
    lab.progress.finish()
    found = {"training, a round": known["training"]["seconds"]} | {
        what: median(known[str(step)][what] for step in lab.run.readers) for what in list(_TABLE10)[1:]
    }
    return [Row(what, figures, found[what], "s") for what, figures in _TABLE10.items()]


def _round(lab: _Lab) -> float:
    """Return the seconds of training between two checkpoints, from a few steps of a new model."""
    task, steps = lab.judge.task, list(lab.run.readers)
    learner = task.learner(task.model())
    took = [
        seconds(lambda step=step: train_step(task, learner, step, steps[-1], lab.options.seed))  # type: ignore[misc]
        for step in range(_TRAIN_STEPS)
    ]
    return median(took) * median(after - before for before, after in pairwise(steps))


_TABLE5: Mapping[str, Mapping[str, Sequence[float | None]]] = {
    "excess": {
        "cnr": (0.36, -0.21, 3.97, 0.25),
        "uniform": (-0.09, 0.12, None, 1.10),
        "inshrinkerator": (0.50, -0.46, 0.80, 0.61),
    },
    "CR-w": {
        "cnr": (5.71, 7.82, 6.78, 6.35),
        "uniform": (11.82, 16.31, None, 22.15),
        "inshrinkerator": (39.09, 26.19, 29.25, 29.81),
    },
    "overhead": {
        "cnr": (0.61, 0.96, 1.03, 0.55),
        "uniform": (0.11, 0.18, None, 0.10),
        "inshrinkerator": (0.35, 0.51, 0.58, 0.32),
    },
}
"""SoCC 2024, table 5: 10 restores within 5 %; None is a run that did not hold."""
_TRAINED = ("ResNet-152", "ViT L32", "BERT Base", "GPT-2 M")
_OTHER_RESTORES: Mapping[int, float] = MappingProxyType({5: 0.16, 20: 1.1})
"""SoCC 2024, section 9.1: excess of Inshrinkerator for ResNet-152."""
_CHECKPOINTS = 20


def _restarts(lab: _Lab) -> list[Row]:
    """Train with restores through each method, and the same without any."""
    given = lab.options
    controls: dict[int, list[Arm]] = {times: _arms(lab, "ulp", times) for times in given.restores}
    plain = _arms(lab, "none", 0)
    rows = []
    for times in given.restores:
        rows += _excess(f"exact and one ulp, {times} restores", {}, plain, controls[times])
        for name in given.methods:
            what = f"{name}, {times} restores"
            try:
                arms = _arms(lab, name, times)
            except NotApplicableError as error:
                rows.append(Row(what, {}, None, "%", error.message))
                continue
            figures = {kind: _published5(kind, name, times) for kind in _TABLE5}
            rows += _excess(what, figures["excess"], plain, arms)
            spent = sum(one.spent for one in arms) / sum(one.training for one in arms)
            found = [one.weights or 0.0 for one in arms]
            all_of_it = [one.everything or 0.0 for one in arms]
            rows += [
                Row(f"{what}: CR-w", figures["CR-w"], fmean(found), "x"),
                Row(f"{what}: peak", {}, max(one.peak or 0.0 for one in arms), "x"),
                Row(f"{what}: CR-all", {}, fmean(all_of_it), "x"),
                Row(f"{what}: overhead", figures["overhead"], 100 * spent, "%"),
            ]
    return rows


def _arms(lab: _Lab, name: str, times: int) -> list[Arm]:
    """Train an arm for each seed."""
    given = lab.options
    plans = [
        Plan(given.steps, min(_CHECKPOINTS, given.steps), times, _DEFAULT, seed, given.evaluations)
        for seed in range(given.seed, given.seed + given.seeds)
    ]
    method = METHODS.get(name, name)
    return [train_arm(lab.judge, method, lab.out, plan, progress=lab.progress) for plan in plans]


def _published5(kind: str, name: str, times: int) -> Published:
    if times == 10 and name in _TABLE5[kind]:
        return dict(zip(_TRAINED, _TABLE5[kind][name], strict=True))
    if kind == "excess" and name == "inshrinkerator" and times in _OTHER_RESTORES:
        return {"ResNet-152": _OTHER_RESTORES[times]}
    return {}


def _excess(what: str, published: Published, plain: Sequence[Arm], arms: Sequence[Arm]) -> list[Row]:
    """Return how much larger the loss is at the end, seed by seed."""
    found = [100 * (one.loss / other.loss - 1) for one, other in zip(arms, plain, strict=True)]
    note = f"{min(found):+.2f} to {max(found):+.2f}" if len(found) > 1 else ""
    return [Row(f"{what}: excess", published, fmean(found), "%", note)]


_FEEDBACK = "the paper's networks were {} by error feedback, those here without it"
EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        "fig11": Experiment(
            "Inshrinkerator (SoCC 2024), figure 11 and section 9.3",
            "no restores, behind which the paper has its peaks; settings within 5 %, found with PE",
            _coders,
        ),
        "table5": Experiment(
            "Inshrinkerator (SoCC 2024), table 5 and section 9.1",
            "excess is of the loss, theirs mostly of accuracy; 20 checkpoints; moments that a method does not"
            " code are exact; overhead is of one processor, theirs beside training on GPUs",
            _restarts,
        ),
        "table6": Experiment(
            "Inshrinkerator (SoCC 2024), table 6 and section 9.2",
            "the first checkpoint has to be of a trained model; the last is what the original learned; loss"
            " is compared, theirs is accuracy but for Alpaca",
            _transfers,
        ),
        "table7": Experiment(
            "Inshrinkerator (SoCC 2024), table 7",
            "bins of qd are the mean over weights; 0.5 % of weights are protected, which is not said there;"
            " gobo's are those beside embeddings",
            _bins,
        ),
        "table8": Experiment(
            "Inshrinkerator (SoCC 2024), table 8",
            "seconds of one processor against numpy, torch and scikit-learn; published are CuPy and CuML"
            " on a GPU; our clustering is exact, its sketch in",
            _speeds,
        ),
        "qd1": Experiment(
            "QD-Compressor (TPDS 2023), table 1",
            "8 bits, which is not said there; its ratios of 'global' are those of Delta-DNN in table 5; "
            + _FEEDBACK.format("perhaps trained"),
            _orders,
        ),
        "qd4": Experiment(
            "QD-Compressor (TPDS 2023), table 4", _FEEDBACK.format("probably trained"), _widths
        ),
        "qd5": Experiment(
            "QD-Compressor (TPDS 2023), table 5",
            "SZ3 for SZ; sz3, deltadnn and lc at the fewest bytes within 1 %, their settings are not said"
            " there; " + _FEEDBACK.format("probably trained"),
            _totals,
        ),
        "qd9": Experiment(
            "QD-Compressor (TPDS 2023), table 9",
            "steps until the loss on the verify sample is that of the recorded state; lc at 3 bits; "
            + _FEEDBACK.format("trained"),
            _recovery,
        ),
        "qd10": Experiment(
            "QD-Compressor (TPDS 2023), table 10",
            "seconds of one processor; training is timed over a few steps; " + _FEEDBACK.format("trained"),
            _breakdown,
        ),
    }
)
"""In the order in which they are listed."""
