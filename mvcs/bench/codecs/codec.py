"""Rate, error and speed of every encoding and quantizer on real checkpoints, each near the one before it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mvcs.bench.codecs import limits
from mvcs.bench.codecs.clock import Clock, Speed
from mvcs.bench.codecs.coders import EXACT, Coder, Content, coders_of, has_zipnn, others
from mvcs.bench.codecs.quantizers import (
    Classes,
    Coded,
    Quantizer,
    SecondMoment,
    comparable,
    content_of,
    error,
    migration,
    quantizers,
)
from mvcs.bench.runs.checkpoint_files import WEIGHTS, Checkpoint, TensorClass, checkpoints, narrowed, read
from mvcs.delta import Buffer, Bytes, ElementFormat
from mvcs.errors import CorruptionError
from mvcs.progress import Progress
from mvcs.reports import Report

ROUNDS = 3
_SPREAD = (0.05, 0.5, 1.0)


@dataclass(frozen=True)
class CodecRow(Report):
    """One encoding on one class of tensors.

    Attributes:
        name: of the encoding.
        near: whether it uses the checkpoint before.
        bits: stored bits a value.
        ratio: bytes of the values over bytes stored.
        of_limit: bits over those of the computed limit, where there is one.
        encode: speed in bytes of values.
        decode: speed in bytes of values; the result was compared.
    """

    name: str
    near: bool
    bits: float
    ratio: float
    of_limit: float | None
    encode: Speed
    decode: Speed


@dataclass(frozen=True)
class Quantization(Report):
    """One quantizer on the weights.

    Attributes:
        relative: root mean square error over root mean square value.
        steps: root mean square error in steps; None without a lattice.
        largest: largest error in steps; None without a lattice.
        migration: share of codes that changed since the checkpoint before, where there is one.
        quantize: speed from values to codes, fitting included.
        restore: speed from codes to values.
    """

    relative: float
    steps: float | None
    largest: float | None
    migration: float | None
    quantize: Speed
    restore: Speed


@dataclass(frozen=True)
class CodecSection(Report):
    """One class of tensors, or the codes of one quantizer.

    Attributes:
        title: what it is.
        values: how many.
        raw_bytes: bytes of the values.
        memcpy: gigabytes a second of copying as many bytes.
        limits: computed bits a value, "alone" and "near" the checkpoint before.
        quantization: for codes.
        rows: one for each encoding.
    """

    title: str
    values: int
    raw_bytes: int
    memcpy: float
    limits: dict[str, float]
    quantization: Quantization | None
    rows: list[CodecRow]


@dataclass(frozen=True)
class Transition(Report):
    """A checkpoint measured near the one before it."""

    step: int
    before: int
    sections: list[CodecSection]


@dataclass(frozen=True)
class CodecReport(Report):
    """Everything that was measured."""

    folder: str
    checkpoints: int
    transitions: list[Transition]
    notes: list[str] = field(default_factory=list)


def measure_codec(
    folder: Path, *, every: int | None = None, quick: bool = False, progress: Progress
) -> CodecReport:
    """Measure an early, a middle and the last checkpoint of a run.

    Args:
        folder: of checkpoints.
        every: measure every so many checkpoints instead.
        quick: time everything once, and without `every` measure the last checkpoint alone.
        progress: is told of every checkpoint read.

    Raises:
        NotFoundError: there are fewer than two checkpoints.
        CorruptionError: an encoding did not give back what went in.
    """
    found = checkpoints(folder)
    chosen = _chosen(len(found), every=every, quick=quick)
    bench = _Bench(1 if quick else ROUNDS, progress)
    transitions = list(bench.walk(found, chosen, from_start=not quick or every is not None))
    notes = [] if has_zipnn() else ["ZipNN is not installed and not compared: pip install 'mvcs[bench]'"]
    return CodecReport(str(folder), len(found), transitions, notes)


def _chosen(count: int, *, every: int | None, quick: bool) -> list[int]:
    if every is not None:
        return list(range(every, count, every)) or [count - 1]
    if quick:
        return [count - 1]
    return sorted({max(1, round(share * (count - 1))) for share in _SPREAD})


class _Bench:
    """Walks a run once; quantizers that remember see every checkpoint, the chosen ones are measured."""

    def __init__(self, rounds: int, progress: Progress) -> None:
        self._rounds = rounds
        self._progress = progress
        self._quantizers = quantizers()

    def walk(
        self, found: Sequence[Checkpoint], chosen: Sequence[int], *, from_start: bool
    ) -> Iterator[Transition]:
        before: dict[str, TensorClass] = {}
        coded: dict[str, Coded] = {}
        wanted = set(chosen) | {index - 1 for index in chosen}
        needed = range(max(chosen) + 1) if from_start else sorted(wanted)
        self._progress.start("measuring", len(needed), "checkpoints")
        for index in needed:
            now = read(found[index])
            known, later = self._coded(now, coded, measured=index in wanted)
            if index in chosen:
                exact = self._exact(now, before)
                sections = [*exact, *self._quantized(known, coded, later)]
                yield Transition(found[index].step, found[index - 1].step, sections)
            before, coded = now, later
            self._progress.advance(1)
        self._progress.finish()

    def _coded(
        self, now: Classes, before: Mapping[str, Coded], *, measured: bool
    ) -> tuple[Classes, dict[str, Coded]]:
        """Return the classes, with what some quantizers need of others, and codes by quantizer."""
        known, coded = dict(now), dict[str, Coded]()
        for quantizer in self._quantizers:
            possible = {quantizer.subject, quantizer.needs or quantizer.subject} <= known.keys()
            if possible and (measured or quantizer.remembers):
                codes = coded[quantizer.name] = quantizer.code(known, before.get(quantizer.name))
                if isinstance(quantizer, SecondMoment):
                    roots = quantizer.roots(known, codes)
                    known[roots.name] = roots
        return known, coded

    def _exact(self, now: dict[str, TensorClass], before: dict[str, TensorClass]) -> Iterator[CodecSection]:
        for name, own in now.items():
            yield self._class(own, before.get(name))
            if name == WEIGHTS and own.dtype.name == "float32":
                old = before.get(name)
                yield self._class(narrowed(own), narrowed(old) if old else None)

    def _class(self, own: TensorClass, old: TensorClass | None) -> CodecSection:
        contents, bases = _aligned(own, old)
        content = Content.cut(contents, bases, ElementFormat.of(own.dtype.itemsize, own.dtype.kind))
        near = {} if bases is None else {"near": limits.exact_bits(contents, bases, own.dtype)}
        clock = Clock(own.raw_bytes, self._rounds)
        rows = self._rows((*EXACT, *others(content.element)), content, own.values, clock, near)
        return _section(own.name, own, clock, near, None, rows)

    def _quantized(
        self, known: Classes, before: Mapping[str, Coded], later: Mapping[str, Coded]
    ) -> Iterator[CodecSection]:
        for quantizer in self._quantizers:
            coded, old = later.get(quantizer.name), before.get(quantizer.name)
            if coded is not None:
                yield self._codes(quantizer, known, coded, old if comparable(coded, old) else None)

    def _codes(self, quantizer: Quantizer, known: Classes, coded: Coded, old: Coded | None) -> CodecSection:
        own, width = known[quantizer.subject], quantizer.width
        content = content_of(coded, old, width)
        clock = Clock(own.raw_bytes, self._rounds)
        measured = Quantization(
            *error(own, coded),
            None if old is None else migration(coded, old, width),
            clock.time(lambda: quantizer.code(known, old)),
            clock.time(lambda: [tensor.restore() for tensor in coded.values()]),
        )
        parts = [part for tensor in coded.values() for part in tensor.parts]
        computed = {"alone": limits.codes_bits(parts, None, width, content.levels)}
        if old is not None:
            bases = [part for path, tensor in coded.items() for part in old[path].near(tensor)]
            computed["near"] = limits.codes_bits(parts, bases, width, content.levels)
        rows = self._rows(coders_of(width), content, own.values, clock, computed)
        return _section(f"codes: {quantizer.name}", own, clock, computed, measured, rows)

    def _rows(
        self,
        coders: Iterable[Coder],
        content: Content,
        values: int,
        clock: Clock,
        computed: Mapping[str, float],
    ) -> list[CodecRow]:
        usable = [coder for coder in coders if content.bases is not None or not coder.near]
        return [_row(coder, content, values, clock, computed) for coder in usable]


def _aligned(own: TensorClass, old: TensorClass | None) -> tuple[list[Bytes], list[Bytes] | None]:
    """Return contents, and those of the checkpoint before where every tensor is there in the same size."""
    contents = [tensor.content for tensor in own.tensors.values()]
    if old is None or old.dtype != own.dtype:
        return contents, None
    bases = [old.tensors[path].content for path in own.tensors if path in old.tensors]
    same = [base.size for base in bases] == [content.size for content in contents]
    return contents, bases if same else None


def _row(
    coder: Coder, content: Content, values: int, clock: Clock, computed: Mapping[str, float]
) -> CodecRow:
    payloads = coder.encode(content)
    _compare(coder, content, payloads)
    stored = sum(map(len, payloads))
    limit = computed.get("near" if coder.near else "alone")
    return CodecRow(
        coder.name,
        coder.near,
        8 * stored / max(values, 1),
        clock.size / max(stored, 1),
        8 * stored / limit if limit else None,
        clock.time(lambda: coder.encode(content)),
        clock.time(lambda: coder.decode(payloads, content)),
    )


def _compare(coder: Coder, content: Content, payloads: Sequence[Buffer]) -> None:
    restored = b"".join(bytes(part) for part in coder.decode(payloads, content))
    if restored != b"".join(chunk.tobytes() for chunk in content.chunks):
        raise CorruptionError(f"{coder.name} does not give back what it was given")


def _section(
    title: str,
    own: TensorClass,
    clock: Clock,
    computed: dict[str, float],
    quantization: Quantization | None,
    rows: list[CodecRow],
) -> CodecSection:
    values = max(own.values, 1)
    shares = {name: bits / values for name, bits in computed.items()}
    return CodecSection(title, own.values, own.raw_bytes, clock.copied, shares, quantization, rows)
