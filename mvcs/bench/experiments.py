"""The experiments of two papers on a run of one's own, each figure beside the published one.

"Inshrinkerator" (SoCC 2024): figure 11, tables 5 to 8. "QD-Compressor" (TPDS 2023): tables 1, 4, 5 and 10,
whose networks were trained by error feedback; those here were not. What is measured stands in the ledger of
`mvcs.bench.ledger`, so that a killed experiment continues.
"""

import importlib
import importlib.util
import lzma
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from math import prod
from pathlib import Path
from statistics import fmean, median
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from mvcs.bench.codecs.clock import compare, seconds
from mvcs.bench.comparison import Terms, needs_of
from mvcs.bench.comparison import compare as compare_method
from mvcs.bench.judges import TaskJudge
from mvcs.bench.ledger import LATTICE, Ledger, Record, Series
from mvcs.bench.methods.catalog import METHODS
from mvcs.bench.methods.coding import compressed, decompressed
from mvcs.bench.methods.inshrinkerator import Inshrinkerator, types_of
from mvcs.bench.methods.method import (
    Method,
    Needs,
    NotApplicableError,
    Restored,
    Setting,
    Shapes,
    State,
    Tensors,
    joined,
    read_shapes,
    shapes_of,
    unpack,
)
from mvcs.bench.methods.method import before as known_before
from mvcs.bench.methods.qd import QD
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

_USUAL, _DEFAULT = 0.01, 0.05  # bounds; the second is SoCC's (8.2)
_FIRST_OF_TYPES = 4  # sections of a payload of Inshrinkerator before those of layer types


@dataclass(frozen=True)
class Row(Report):
    """One figure beside the published one.

    Attributes:
        what: it is about.
        published: the range over the paper's models, and of how many if not of all; empty where the paper has
            no such figure.
        measured: here; None where that could not be, or where nothing was found.
        unit: of both.
        note: what else is to be said.
    """

    what: str
    published: str
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

    def kept(self, name: str, works: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
        """Return what each work gives, which JSON has to take; from the ledger where that knows it."""
        known: dict[str, Any] = self.ledger.known(name) or {}
        self.progress.start(f"measuring {name}", len(works), "parts")
        for what, work in works.items():
            if what not in known:
                with one_thread(self.options.seed):
                    known[what] = work()
                self.ledger.keep(name, known)
            self.progress.advance(1)
        self.progress.finish()
        return {what: known[what] for what in works}


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


_FIG11 = {"HE": ("25", "30"), "RLE": ("28", "79"), "PE": ("39", "366"), "mvcs, RANS_DELTA": ("", "")}
"""SoCC 2024, section 9.3: the ratio of the whole run of ResNet-152, and its peak."""


def _coders(lab: _Lab) -> list[Row]:
    """Compare the coders on the codes that the search at 5 % found, which are the same for all."""
    method = METHODS["inshrinkerator-pe"]
    series = lab.measure(method, _DEFAULT)
    known: dict[str, list[int]] = lab.ledger.known("fig11") or {}
    state, sizes, weights = None, dict[int, list[int]](), dict[int, int]()
    for record, payload in _payloads(series, lab.run):
        after = method.decode(payload, state)[1]
        if record.payload not in known:
            recorded = lab.run.readers[record.step]()
            others = []
            for other in (METHODS["inshrinkerator-he"], METHODS["inshrinkerator-rle"]):
                needs = needs_of(other, recorded, lab.options.seed)
                others.append(len(other.payload(recorded.weights, state, record.setting, **needs)))
            known[record.payload] = [*others, len(payload), _own_size(payload, state, after)]
            lab.ledger.keep("fig11", known)
        sizes[record.step], weights[record.step] = known[record.payload], record.weights
        state = after
    rows = []
    for place, (coder, (whole, peak)) in enumerate(_FIG11.items()):
        ratios = {step: weights[step] / found[place] for step, found in sizes.items()}
        stored = sum(found[place] for found in sizes.values())
        rows += [
            Row(f"{coder}, whole run", whole, sum(weights.values()) / stored, "x"),
            Row(f"{coder}, peak", peak, max(ratios.values()), "x"),
            *(Row(f"{coder}, step {step}", "", ratio, "x") for step, ratio in ratios.items()),
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


def _transfers(lab: _Lab) -> list[Row]:
    """Store the first checkpoint by itself, and train from what that restores, as the run was trained."""
    first, *_, last = (read().state() for read in lab.run.readers.values())
    before, after = _loss(lab, first), _loss(lab, last)
    found = lab.kept("table6", {one: partial(_transferred, lab, one, first) for one in _TRANSFERRED})
    rows = [Row("the original", "", before, "loss"), Row("the original, fine-tuned", "", after, "loss")]
    for name, (ratio, restored, tuned) in found.items():
        rows += [
            Row(f"{name}: CR-w", "9.99 to 11.32", ratio, "x"),
            Row(f"{name}: restored, worse by", "", 100 * (restored / before - 1), "%"),
            Row(f"{name}: fine-tuned, worse by", "-2.56 to 2.80", 100 * (tuned / after - 1), "%"),
        ]
    return rows


_TRANSFERRED = ("inshrinkerator", LATTICE)


def _transferred(lab: _Lab, name: str, first: Mapping[str, Any]) -> list[float]:
    """Return the ratio of weights, and the loss of what is restored before and after training."""
    task, steps = lab.judge.task, list(lab.run.readers)
    learner = task.learner(task.model())
    learner.load_state_dict(first)
    terms = Terms(_DEFAULT, lab.options.seed, lab.options.evaluations)
    with restores_of(lab.judge, METHODS.get(name, name), lab.variants, terms) as restores:
        restores.commit(learner, steps[0])
        restores.restore(learner, steps[0])
        ratio: float = restores.sizes()["weights"]
    restored = _loss(lab, learner.state_dict())
    plan = first.get("plan", {})
    for step in range(steps[0], steps[-1]):
        train_step(task, learner, step, plan.get("steps", steps[-1]), plan.get("seed", 0))
    return [ratio, restored, _loss(lab, learner.state_dict())]


def _loss(lab: _Lab, state: Mapping[str, Any]) -> float:
    """Return the loss on the whole report sample."""
    model = lab.judge.task.model()
    model.load_state_dict(state["model"])
    return samples_of(lab.judge.task).report.metrics(model)["loss"]


class _OwnAlone(Inshrinkerator):
    """Inshrinkerator with any number of bins for all weights, and nothing pruned."""

    name = "table7-inshrinkerator"
    axes: ClassVar = {
        "bins": (4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 192, 250),
        "prune": (0.0,),
        "protect": (0.005,),
    }


_TABLE7 = {
    0.001: ("37.0 to 106.9, 8 of 9", "none", "none", "13.1 to 54.7"),
    0.01: ("28.4 to 81.5", "35.5 to 60.2, 5 of 9", "31.8 to 33.1, 2 of 9", "9.0 to 32.5"),
    0.05: ("18.5 to 43.2", "23.3 to 53.1", "17.5 to 30.8, 3 of 9", "6.3 to 17.9"),
}
"""SoCC 2024, table 7: mean bins of CNR+, QD+, GOBO+ and Inshrinkerator, by the bound."""


def _bins(lab: _Lab) -> list[Row]:
    """Search the bins of each of ten checkpoints by itself: the first payload of a chain has no base."""
    steps = list(lab.run.readers)[1:]
    chosen = [steps[place] for place in np.unique(np.linspace(0, len(steps) - 1, 10).round().astype(int))]
    methods = {name: METHODS[name] for name in ("cnr", "qd", "gobo")} | {"inshrinkerator": _OwnAlone()}
    rows = []
    for bound, published in _TABLE7.items():
        for (name, method), theirs in zip(methods.items(), published, strict=True):
            found, bits = list[float](), list[float]()
            for step in chosen:
                only = replace(lab.run, readers={step: lab.run.readers[step]})
                ((record, payload),) = _payloads(lab.measure(method, bound, run=only), only)
                if record.kept:
                    found.append(_bins_of(record, payload))
                    bits.append(8 * len(payload) / sum(map(prod, read_shapes(unpack(payload)[0]).values())))
            lacking = len(chosen) - len(found)
            note = f"none within the bound at {lacking} of {len(chosen)} checkpoints" if lacking else ""
            what = f"{name}, {bound:.1%}"
            rows.append(Row(what, theirs, fmean(found) if found else None, "bins", note))
            rows.append(Row(f"{what}, stored", "", fmean(bits) if bits else None, "bits a weight", note))
    return rows


def _bins_of(record: Record, payload: bytes) -> float:
    """Return the bins of a setting; of QD-Compressor's widths the mean over all weights."""
    if "bins" in record.setting:
        return float(record.setting["bins"])
    layout, _, _, widths, *_ = unpack(payload)
    sizes = [prod(shape) for shape in read_shapes(layout).values()]
    return float(np.average(2.0 ** np.frombuffer(widths, np.uint8), weights=sizes))


_TABLE8 = {"quantile": "4.50 to 4.73", "clustering": "8.79 to 65.2"}
"""SoCC 2024, table 8: CuPy's time over the paper's, and CuML's, on a GPU."""
_SHARE = 0.3


def _speeds(lab: _Lab) -> list[Row]:
    """Time the sketch and the clustering on the last checkpoint's weights, repeated to as many values."""
    values = np.resize(joined(list(lab.run.readers.values())[-1]().weights), lab.options.values)
    magnitudes, rank = np.abs(values), int(_SHARE * values.size)
    numbers = torch.from_numpy(magnitudes)

    def quantile() -> float:
        return Sketch.of([values]).magnitude_quantile(_SHARE, "low")

    works = {
        "quantile, numpy.partition": lambda: compare(lambda: np.partition(magnitudes, rank), quantile, 5),
        "quantile, torch.kthvalue": lambda: compare(lambda: torch.kthvalue(numbers, rank + 1), quantile, 5),
    }
    what, rows = "clustering, scikit-learn", list[Row]()
    if importlib.util.find_spec("sklearn") is None:
        rows.append(Row(what, _TABLE8["clustering"], None, "x", "not installed: pip install scikit-learn"))
    else:
        kmeans = importlib.import_module("sklearn.cluster").KMeans(32, n_init=1, random_state=0)
        column, config = values.reshape(-1, 1), KMeansConfig(bins=32)
        works[what] = lambda: compare(
            lambda: kmeans.fit(column),
            lambda: fit_codebook(Sketch.of([values]), config, "float32"),
            1,
            warm=0,
        )
    timed = {what: lambda work=work: work().to_json() for what, work in works.items()}
    for what, found in reversed(lab.kept(f"table8-{values.size}", timed).items()):
        note = f"{found['first_s'] * 1e3:.1f} ms, ours {found['second_s'] * 1e3:.1f} ms"
        rows.insert(0, Row(what, _TABLE8[what.partition(",")[0]], found["ratio"], "x", note))
    return rows


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

    def code(self, tensors: Tensors, state: State | None, setting: Setting, needs: Needs) -> Sequence[bytes]:
        """Return what the base does for differences."""
        bases = known_before(state, "restored", shapes_of(tensors))
        moved = {name: tensors[name] - (np.float32(0) if base is None else base) for name, base in bases}
        return super().code(moved, None, setting, needs)

    def restore(self, sections: Sequence[bytes], shapes: Shapes, state: State | None) -> Restored:
        """Return the sums of differences and what was restored before."""
        moved, _ = super().restore(sections, shapes, None)
        bases = known_before(state, "restored", shapes)
        found = {name: moved[name] + (np.float32(0) if base is None else base) for name, base in bases}
        return found, {"restored": found}


_Ratio = tuple[str, str, Method, str | None]
"""What is measured, what is published, the method, and its setting where that is fixed."""
_TABLE1: Sequence[_Ratio] = (
    ("global", "8.92 to 11.45", _GlobalQD(), "8-8"),
    ("local, difference first", "10.73 to 20.77", _DeltaFirstQD(), "8-8"),
    ("local, codes first", "14.15 to 24.17", METHODS["qd"], "8-8"),
)
_TABLE4: Sequence[_Ratio] = (
    ("8 bits", "16.79 to 29.04", METHODS["qd"], "8-8"),
    ("16 bits", "3.49 to 4.05", METHODS["qd"], "16-16"),
)
_TABLE5_QD: Sequence[_Ratio] = (
    ("zstd-3", "1.08", METHODS["zstd-3"], None),
    ("sz3", "4.47 to 4.76", METHODS["sz3"], None),
    ("deltadnn", "8.92 to 11.45", METHODS["deltadnn"], None),
    ("lc", "7.61 to 8.56", METHODS["lc"], None),
    ("qd, 8-8 bits", "15.50 to 29.04", METHODS["qd"], "8-8"),
    ("qd, 4-8 bits", "20.30 to 39.99", METHODS["qd"], "4-8"),
)
"""TPDS 2023, tables 1, 4 and 5."""


def _ratios(lab: _Lab, table: Sequence[_Ratio]) -> list[Row]:
    """Compare the ratios of all weights to what methods store for them."""
    rows = []
    for what, published, method, fixed in table:
        try:
            series = lab.measure(method, _USUAL, fixed)
        except NotApplicableError as error:
            rows.append(Row(what, published, None, "x", error.message))
            continue
        found = Result.of(series, series.records(), list(lab.run.readers))
        missed = f", none within 1 % at {found.missed} of {found.checkpoints}" if found.missed else ""
        note = f"loss {found.mean:+.2%} in the mean{missed}"
        rows.append(Row(what, published, found.weights, "x", note))
    return rows


_TABLE9 = {
    "the first quarter": (0, 0.25, "1 to 3", "2 to 8"),
    "the second": (0.25, 0.5, "1 to 4", "2 to 12"),
    "the third": (0.5, 0.75, "1 to 5", "2 to 6"),
    "the last": (0.75, 1, "1 to 3", "1 to 6"),
    "the first half": (0, 0.5, "1 to 4", "9 to 32"),
    "the second half": (0.5, 1, "1 to 2", "6 to 15"),
}
"""TPDS 2023, table 9: a period, and rounds of training with QD-Compressor and with LC-Checkpoint."""
_LOOKS = 10


def _recovery(lab: _Lab) -> list[Row]:
    """Code each period by itself, train on from what its end restores to, and count steps to the old loss."""
    steps, works, published = list(lab.run.readers), dict[str, Callable[[], Any]](), dict[str, str]()
    for period, (begin, end, *figures) in _TABLE9.items():
        own = steps[int(begin * (len(steps) - 1)) : int(end * (len(steps) - 1)) + 1]
        for (name, setting), figure in zip(_RECOVERED.items(), figures, strict=True):
            what = f"{name}, {period}"
            works[what] = partial(_recovered, lab, own, METHODS[name], setting)
            published[what] = str(figure)
    lacking = "; not from one checkpoint to the next"
    return [
        Row(what, published[what], found, "steps", "theirs in rounds" + (lacking if found is None else ""))
        for what, found in lab.kept("qd9", works).items()
    ]


_RECOVERED: Mapping[str, Setting] = {"qd": QD.fixed["4-8"], "lc": {"bits": 3}}


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


_TABLE10 = {
    "training, a round": "9.15 to 62.01",
    "quantization": "0.02 to 0.06",
    "LZMA, compressing": "0.33 to 10.66",
    "LZMA, decompressing": "0.07 to 0.43",
    "restoring": "0.03 to 0.08",
}
"""TPDS 2023, table 10: seconds; writing a file, 0.06 to 0.15, is not repeated."""


def _breakdown(lab: _Lab) -> list[Row]:
    """Time LZMA of QD-Compressor's codes at 4 to 8 bits, and training from one checkpoint to the next."""
    found = list(_payloads(lab.measure(METHODS["qd"], _USUAL, "4-8"), lab.run))
    works = {record.payload: partial(_packing, record, payload) for record, payload in found}
    timed = lab.kept("qd10", {"training": partial(_round, lab), **works})
    parts = [timed.pop("training"), *map(median, zip(*timed.values(), strict=True))]
    figures = zip(_TABLE10.items(), parts, strict=True)
    return [Row(what, published, part, "s") for (what, published), part in figures]


def _packing(record: Record, payload: bytes) -> list[float]:
    """Return the seconds of `_TABLE10` from the second on."""
    coded = unpack(payload)[-1]
    codes = lzma.decompress(coded)
    packed, unpacked = seconds(lambda: compressed(codes)), seconds(lambda: decompressed(coded, len(codes)))
    return [max(record.encode - packed, 0.0), packed, unpacked, max(record.decode - unpacked, 0.0)]


def _round(lab: _Lab) -> float:
    """Return the seconds of training between two checkpoints, from a few steps of a new model."""
    task, steps = lab.judge.task, list(lab.run.readers)
    learner = task.learner(task.model())
    took = [
        seconds(partial(train_step, task, learner, step, steps[-1], lab.options.seed)) for step in range(3)
    ]
    return median(took) * median(after - before for before, after in pairwise(steps))


_TABLE5 = {
    ("cnr", 10): ("-0.21 to 3.97", "5.71 to 7.82", "0.55 to 1.03"),
    ("uniform", 10): ("-0.09 to 1.10, 3 of 4", "11.82 to 22.15, 3 of 4", "0.10 to 0.18, 3 of 4"),
    ("inshrinkerator", 10): ("-0.46 to 0.80", "26.19 to 39.09", "0.32 to 0.58"),
    ("inshrinkerator", 5): ("0.16", "", ""),
    ("inshrinkerator", 20): ("1.1", "", ""),
}
"""SoCC 2024, table 5 and section 9.1: excess, CR-w and overhead within 5 %, by method and restores."""
_CHECKPOINTS = 20


def _restarts(lab: _Lab) -> list[Row]:
    """Train with restores through each method, and the same without any."""
    plain, rows = _arms(lab, "none", 0), list[Row]()
    for times in lab.options.restores:
        for name in ("ulp", *lab.options.methods):
            what = f"{'exact and one ulp' if name == 'ulp' else name}, {times} restores"
            try:
                arms = _arms(lab, name, times)
            except NotApplicableError as error:
                rows.append(Row(what, "", None, "%", error.message))
                continue
            excess = [100 * (one.loss / other.loss - 1) for one, other in zip(arms, plain, strict=True)]
            note = f"{min(excess):+.2f} to {max(excess):+.2f}" if len(excess) > 1 else ""
            figures = _TABLE5.get((name, times), ("", "", ""))
            rows.append(Row(f"{what}: excess", figures[0], fmean(excess), "%", note))
            if name == "ulp":
                continue
            spent = sum(one.spent for one in arms) / sum(one.training for one in arms)
            rows += [
                Row(f"{what}: CR-w", figures[1], fmean(one.weights or 0.0 for one in arms), "x"),
                Row(f"{what}: peak", "", max(one.peak or 0.0 for one in arms), "x"),
                Row(f"{what}: CR-all", "", fmean(one.everything or 0.0 for one in arms), "x"),
                Row(f"{what}: overhead", figures[2], 100 * spent, "%"),
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
            partial(_ratios, table=_TABLE1),
        ),
        "qd4": Experiment(
            "QD-Compressor (TPDS 2023), table 4",
            _FEEDBACK.format("probably trained"),
            partial(_ratios, table=_TABLE4),
        ),
        "qd5": Experiment(
            "QD-Compressor (TPDS 2023), table 5",
            "SZ3 for SZ; sz3, deltadnn and lc at the fewest bytes within 1 %, their settings are not said"
            " there; " + _FEEDBACK.format("probably trained"),
            partial(_ratios, table=_TABLE5_QD),
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
