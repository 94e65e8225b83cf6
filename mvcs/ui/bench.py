"""What was measured, as tables: encodings side by side at several checkpoints, and the cost of a history."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from mvcs.ui.screen import Screen
from mvcs.ui.sizes import count, number, share, size
from mvcs.ui.text import printable, table

if TYPE_CHECKING:
    from mvcs.bench.clock import Speed
    from mvcs.bench.codec import CodecReport, Quantization, Row, Section
    from mvcs.bench.history import CommittedStep, HistoryReport
    from mvcs.bench.making import MakeReport


def made(report: "MakeReport") -> list[str]:
    """Return what a training run left behind."""
    resumed = "" if report.resumed is None else f", taken up at step {report.resumed}"
    where = printable(report.folder)
    who = f"{report.task} ({count(report.parameters, 'parameter')})"
    written = f"{count(len(report.checkpoints), 'checkpoint')} in '{where}', {report.seconds:.0f} s"
    metrics = [
        ", ".join(f"{name} {number(value)}" for name, value in last.metrics.items())
        for last in report.checkpoints[-1:]
    ]
    return [f"Trained {who} to step {report.steps}{resumed}: {written}", *metrics]


def measured(report: "CodecReport", screen: Screen) -> list[str]:
    """Return a table for each class of tensors and each quantizer, measured checkpoints side by side.

    "limit" is bits over those of the computed limit, "copy" speed over that of memcpy.
    """
    steps = ", ".join(f"{one.step} near {one.before}" for one in report.transitions)
    lines = [f"{printable(report.folder)}: {count(report.checkpoints, 'checkpoint')}; steps {steps}"]
    titles = dict.fromkeys(section.title for one in report.transitions for section in one.sections)
    for title in titles:
        found = {
            one.step: section
            for one in report.transitions
            for section in one.sections
            if section.title == title
        }
        lines += ["", *_section(title, found, screen)]
    return lines


def _section(title: str, found: dict[int, "Section"], screen: Screen) -> Iterator[str]:
    first = next(iter(found.values()))
    copied = max(section.memcpy for section in found.values())
    about = f"{count(first.values, 'value')}, {size(first.raw_bytes)}, memcpy {copied:.1f} GB/s"
    yield f"{screen.paint(title, 'head')}: {about}"
    quantizations = {step: one.quantization for step, one in found.items() if one.quantization is not None}
    if quantizations:
        yield from table(list(_quantized(quantizations)), "<>>>>>>>>", screen)
    names = dict.fromkeys(row.name for section in found.values() for row in section.rows)
    rows = {name: dict(_named(found, name)) for name in names}
    heads = [text for step in found for text in (f"bits @{step}", "ratio", "limit")]
    cells = [["encoding", *heads, "encode", "copy", "decode", "copy"]]
    cells += [_encoding(name, row, list(found)) for name, row in rows.items()]
    cells += list(_limits(found))
    yield from table(cells, "<" + ">" * (len(cells[0]) - 1), screen)


def _named(found: dict[int, "Section"], name: str) -> Iterator[tuple[int, "Row"]]:
    return ((step, row) for step, section in found.items() for row in section.rows if row.name == name)


def _quantized(found: dict[int, "Quantization"]) -> Iterator[list[str]]:
    yield [
        "at step",
        "rms error",
        "in steps",
        "largest",
        "codes changed",
        "quantize",
        "copy",
        "restore",
        "copy",
    ]
    for step, one in found.items():
        in_steps = ["-" if value is None else f"{value:.3f}" for value in (one.steps, one.largest)]
        speeds = [*_speed([one.quantize]), *_speed([one.restore])]
        yield [str(step), share(one.relative), *in_steps, share(one.migration), *speeds]


def _encoding(name: str, rows: dict[int, "Row"], steps: Sequence[int]) -> list[str]:
    cells = [text for step in steps for text in _rates(rows.get(step))]
    best = [_speed([row.encode for row in rows.values()]), _speed([row.decode for row in rows.values()])]
    return [name, *cells, *(text for pair in best for text in pair)]


def _rates(row: "Row | None") -> tuple[str, str, str]:
    if row is None:
        return "", "", ""
    return f"{row.bits:.3f}", f"{row.ratio:.3f}", "" if row.of_limit is None else f"{row.of_limit:.3f}x"


def _speed(speeds: Iterable["Speed"]) -> tuple[str, str]:
    best = max(speeds, key=lambda speed: speed.memcpy)
    return f"{best.gigabytes:.2f} GB/s", f"{best.memcpy:.3f}x"


def _limits(found: dict[int, "Section"]) -> Iterator[list[str]]:
    kinds = dict.fromkeys(kind for section in found.values() for kind in section.limits)
    for kind in kinds:
        cells = [text for section in found.values() for text in _limit(section, kind)]
        yield [f"limit {kind} (computed)", *cells, "", "", "", ""]


def _limit(section: "Section", kind: str) -> tuple[str, str, str]:
    bits = section.limits.get(kind)
    if not bits or not section.values:
        return "", "", ""
    return f"{bits:.3f}", f"{8 * section.raw_bytes / section.values / bits:.3f}", ""


def committed(report: "HistoryReport", screen: Screen) -> list[str]:
    """Return what each commit of a run cost, and the ratios of the whole."""
    heads = ["step", "state", "stored", "weights", "CR-w", "CR-all", "rms error", "metadata", "depth", "s"]
    cells = table([heads, *(_commit(one) for one in report.commits)], ">" * len(heads), screen)
    settings = report.quantizer or {"method": "exact"}
    how = ", ".join(f"{name} {value}" for name, value in settings.items() if value not in (None, 0.0))
    return [
        f"{printable(report.folder)}: {count(len(report.commits), 'commit')}, {printable(how)}",
        *cells,
        f"CR-w   {report.weights:.2f}, without the first commit {report.weights_later:.2f}",
        f"CR-all {report.everything:.2f}, without the first commit {report.everything_later:.2f}",
        f"metadata {size(round(report.metadata))} a commit, {report.seconds:.1f} s in all",
    ]


def _commit(one: "CommittedStep") -> list[str]:
    return [
        str(one.step),
        size(one.raw_bytes),
        size(one.stored_bytes),
        size(one.weights_stored),
        f"{one.weights / max(one.weights_stored, 1):.2f}",
        f"{one.raw_bytes / max(one.stored_bytes, 1):.2f}",
        share(one.relative),
        size(one.metadata),
        str(one.depth),
        f"{one.seconds:.2f}",
    ]
