"""What was measured, as tables: encodings side by side at several checkpoints, and the cost of a history."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from mvcs.ui.text import Screen, count, number, printable, seconds, share, size, table, wrapped

if TYPE_CHECKING:
    from mvcs.bench import (
        BoundedReport,
        BoundedStep,
        ChannelsReport,
        CodecReport,
        CodecRow,
        CodecSection,
        CommittedStep,
        ComparisonReport,
        ConstantStretch,
        HistoryReport,
        Judged,
        LinkSpeed,
        MakeReport,
        MethodsReport,
        PaperReport,
        Result,
        RunResults,
        Speed,
    )

RESULT_HEADS = (
    "method",
    "bound",
    "CR-w",
    "later",
    "CR-all",
    "kept",
    "worst",
    "mean",
    "settings",
    "encode",
    "decode",
    "s",
)
"""What `result_cells` returns."""
MOMENTS = "excp and lattice keep moments less than exactly, the others exactly"
"""What to know where whole states are compared."""
KEPT = "within the bound on a second sample, give or take two standard errors of the measurement"
"""What the column "kept" counts."""
ARM_HEADS = (
    "arm", "loss", "float32", "bits", "back", "replicas", "error", "steps/s", "ms", "coding", "memory",
    "disk",
)  # fmt: skip
"""What `arm_rows` returns."""
ARM_LEGEND = (
    "loss: of the last epoch, in nats a byte, and over that of float32; bits: a value forward and back;"
    " replicas: bytes to average their gradients; error: of activations, |a-m'|/|a|, by edge; steps/s: over"
    " loopback; ms: of the processor, computing a micro-batch, and of coding it; memory, disk: of messages"
)
_SIDE_BY_SIDE = 3
_QUANTIZED = ["codes", "rms error", "in steps", "largest", "changed", "quantize", "copy", "restore", "copy"]


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

    Of more than three only the means are shown; a ratio of means is that of all bytes. "limit" is bits over
    those of the computed limit, "copy" speed over that of memcpy.
    """
    steps = ", ".join(f"{one.step} near {one.before}" for one in report.transitions)
    if len(report.transitions) > _SIDE_BY_SIDE:
        steps = f"{report.transitions[0].step} to {report.transitions[-1].step}, means"
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


def _section(title: str, found: dict[int, "CodecSection"], screen: Screen) -> Iterator[str]:
    first = next(iter(found.values()))
    copied = max(section.memcpy for section in found.values())
    about = f"{count(first.values, 'value')}, {size(first.raw_bytes)}, memcpy {copied:.1f} GB/s"
    yield f"{screen.paint(title, 'head')}: {about}"
    columns = _columns(found)
    if first.quantization is not None:
        yield from table(
            [_QUANTIZED, *map(_quantized, columns, columns.values())],
            "<>>>>>>>>",
            screen,
            optional=(6, 8, 3, 2),
        )
    heads = [text for label in columns for text in (f"bits {label}", "ratio", "limit")]
    cells = [["encoding", *heads, "encode", "copy", "decode", "copy"]]
    # The first checkpoint may lack what is near another, so the last one gives the order.
    names = dict.fromkeys(row.name for section in reversed(found.values()) for row in section.rows)
    cells += [_encoding(name, columns) for name in names]
    kinds = dict.fromkeys(kind for section in found.values() for kind in section.limits)
    cells += [_limits(kind, columns) for kind in kinds]
    # Speeds over memcpy go first, then distances from the limit, then ratios.
    last = len(cells[0]) - 1
    optional = [last, last - 2, *range(3, last - 3, 3), *range(2, last - 3, 3)]
    yield from table(cells, "<" + ">" * last, screen, optional=optional)


def _columns(found: dict[int, "CodecSection"]) -> "dict[str, list[CodecSection]]":
    """Group sections by what a column is about: one checkpoint each while they are few, else all."""
    if len(found) > _SIDE_BY_SIDE:
        return {f"of {len(found)}": list(found.values())}
    return {f"@{step}": [section] for step, section in found.items()}


def _quantized(label: str, sections: "list[CodecSection]") -> list[str]:
    found = [section.quantization for section in sections if section.quantization is not None]
    steps = [one.steps for one in found if one.steps is not None]
    largest = [one.largest for one in found if one.largest is not None]
    changed = [one.migration for one in found if one.migration is not None]
    return [
        label,
        share(_mean([one.relative for one in found])),
        f"{_mean(steps):.3f}" if steps else "-",
        f"{max(largest):.3f}" if largest else "-",
        share(_mean(changed)) if changed else "-",
        *_speed([one.quantize for one in found]),
        *_speed([one.restore for one in found]),
    ]


def _encoding(name: str, columns: "dict[str, list[CodecSection]]") -> list[str]:
    grouped = [
        [(section, row) for section in sections for row in section.rows if row.name == name]
        for sections in columns.values()
    ]
    rows = [row for pairs in grouped for _, row in pairs]
    speeds = [_speed([row.encode for row in rows]), _speed([row.decode for row in rows])]
    return [
        name,
        *(text for pairs in grouped for text in _rates(pairs)),
        *(text for pair in speeds for text in pair),
    ]


def _rates(pairs: "list[tuple[CodecSection, CodecRow]]") -> tuple[str, str, str]:
    if not pairs:
        return "", "", ""
    bits = _mean([row.bits for _, row in pairs])
    limits = [section.limits.get("near" if row.near else "alone") for section, row in pairs]
    known = [limit for limit in limits if limit]
    compared = f"{bits / _mean(known):.3f}x" if len(known) == len(pairs) else ""
    return f"{bits:.3f}", f"{_mean([row.bits * row.ratio for _, row in pairs]) / bits:.3f}", compared


def _limits(kind: str, columns: "dict[str, list[CodecSection]]") -> list[str]:
    cells: list[str] = []
    for sections in columns.values():
        known = [(section, bits) for section in sections if (bits := section.limits.get(kind))]
        bits = _mean([found for _, found in known])
        raw = _mean([8 * section.raw_bytes / section.values for section, _ in known])
        cells += [f"{bits:.3f}", f"{raw / bits:.3f}", ""] if known else ["", "", ""]
    return [f"limit {kind} (computed)", *cells, "", "", "", ""]


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / max(len(numbers), 1)


def _speed(speeds: Iterable["Speed"]) -> tuple[str, str]:
    best = max(speeds, key=lambda speed: speed.memcpy)
    return f"{best.gigabytes:.2f} GB/s", f"{best.memcpy:.3f}x"


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


def bounded(report: "BoundedReport", screen: Screen) -> list[str]:
    """Return what each commit of a replayed run cost and lost, and the run as a whole."""
    heads = ["step", "", "stored", "CR-w", "CR-all", "search", "verify", "report", "evaluations", "s"]
    cells = table([heads, *(_judged(one) for one in report.commits)], "><>>>>>>>>", screen, optional=(8, 5))
    setting, history = report.setting, report.history
    bound = f"at most {_percent(setting.max_degradation)} worse, moments {setting.moments}"
    bound += f", {setting.search_mean:g} evaluations a commit on average"
    spent = [
        f"{value:.2f} {what}"
        for what, value in (
            ("evaluations", report.evaluations),
            ("s of search", report.search_seconds),
            ("s of the processor for the codec", report.codec_seconds),
        )
        if value is not None
    ]
    kept = f"{share(report.kept)} of commits within the bound on the verify sample, up to its sampling error"
    mean = f"{_percent(report.mean_report)} in the mean"
    return [
        f"{printable(history.folder)}: {count(len(report.commits), 'commit')}, {bound}",
        *cells,
        f"CR-w   {history.weights:.2f}, without the first commit {history.weights_later:.2f}",
        f"CR-all {history.everything:.2f}, without the first commit {history.everything_later:.2f}",
        *_evenness(report.constant),
        f"{kept}; {report.exact} exact",
        f"verify at most {_percent(report.worst_verify)}",
        f"report at most {_percent(report.worst_report)}, {mean}",
        f"a commit: {', '.join(spent)}" if spent else "what commits took was not written down",
    ]


def compared(report: "ComparisonReport", screen: Screen) -> list[str]:
    """Return a table for each run of an output folder: a row for each method, bound and seed."""
    lines = [f"{printable(report.folder)}: {count(len(report.runs), 'run')}"]
    for run in report.runs:
        lines += ["", run_about(run)]
        if run.results:
            rows = [RESULT_HEADS, *map(result_cells, run.results)]
            lines += table(rows, "<>>>>>>>>>>>", screen, optional=(9, 10, 8, 11, 3))
            legend = f"kept: {KEPT}; CR-all: {MOMENTS}; s: seconds of the processor a checkpoint"
            lines += wrapped("", legend.split(), screen, " ")
        else:
            lines.append("Nothing was measured.")
        skipped = run.skipped.items()
        lines += [f"{printable(name)} was not measured: {printable(why)}" for name, why in skipped]
    return lines


def run_about(run: "RunResults") -> str:
    """Return what was compared."""
    judge = run.run["judge"]
    by = judge.get("task") or judge.get("eval")
    many = count(len(run.run["steps"]), "checkpoint")
    return f"{printable(run.run['source'])}, {many}, judged by {printable(by)}"


def result_cells(one: "Result") -> list[str]:
    """Return what a method cost and lost on a run."""
    return [
        one.method + measured_part(one),
        "-" if one.bound is None else f"{one.bound:g}",
        f"{one.weights:.2f}",
        "-" if one.weights_later is None else f"{one.weights_later:.2f}",
        f"{one.everything:.2f}",
        "-" if one.kept is None else share(one.kept),
        _percent(one.worst),
        _percent(one.mean),
        f"{one.tested:.1f}",
        f"{one.encode:.4f}",
        f"{one.decode:.4f}",
        seconds(one.searched).removesuffix(" s"),
    ]


def measured_part(one: "Result") -> str:
    """Return how many of a run's checkpoints a result has, where it has not all."""
    return f" ({one.checkpoints} of {one.checkpoints + one.unmeasured})" if one.unmeasured else ""


def paper(report: "PaperReport", screen: Screen) -> list[str]:
    """Return the figures of an experiment, published and measured."""
    rows = [
        [
            row.what,
            row.published,
            "-" if row.measured is None else f"{row.measured:.4g} {row.unit}",
            printable(row.note),
        ]
        for row in report.rows
    ]
    return [
        f"{report.source}; {printable(report.run)}",
        *wrapped("differs: ", report.differs.split(), screen, " "),
        *table([["", "published", "measured", ""], *rows], "<>><", screen),
    ]


def channels(report: "ChannelsReport", screen: Screen) -> list[str]:
    """Return what links sent and what was learned over them: a row for each arm."""
    lines = [channels_about(report), *table([ARM_HEADS, *arm_rows(report)], "<" + ">" * 11, screen)]
    lines += wrapped("", ARM_LEGEND.split(), screen, " ")
    if rates := channel_rates(report):
        rows = [["steps a second", *rates], *link_rows(report, rates)]
        lines += ["", *table(rows, "<" + ">" * len(rates), screen)]
    return lines


def channels_about(report: "ChannelsReport") -> str:
    """Return how arms were trained."""
    plan = report.plan
    return (
        f"{plan['task']}, {count(plan['stages'], 'stage')}, {count(plan['replicas'], 'replica')},"
        f" {count(plan['pieces'], 'piece')} in {count(plan['epochs'], 'epoch')}, seed {plan['seed']}"
    )


def arm_rows(report: "ChannelsReport") -> list[list[str]]:
    """Return what `ARM_HEADS` says of each arm."""
    exact = next((one.loss[-1] for one in report.arms if one.arm == "float32"), None)
    return [
        [
            one.arm,
            f"{one.loss[-1]:.4f}",
            "-" if exact is None else f"{one.loss[-1] / exact - 1:+.2%}",
            f"{one.forward_bits:.2f}",
            f"{one.backward_bits:.2f}",
            size(one.averaged) if one.averaged else "-",
            " ".join("-" if each is None else f"{each:.1%}" for each in one.error),
            f"{one.steps_a_second:.2f}",
            f"{1e3 * one.compute:.2f}",
            f"{1e3 * one.coding:.2f}",
            size(one.memory) if one.memory else "-",
            size(one.disk) if one.disk else "-",
        ]
        for one in report.arms
    ]


def channel_rates(report: "ChannelsReport") -> list[str]:
    """Return the rates that any arm was measured at, the highest first."""
    rates = {link.rate: link.bits_a_second for one in report.arms for link in one.links}
    return sorted(rates, key=rates.__getitem__, reverse=True)


def link_rows(report: "ChannelsReport", rates: Sequence[str]) -> list[list[str]]:
    """Return steps a second of each arm by rate, and whether links were real."""
    found = [(one.arm, {link.rate: link for link in one.links}) for one in report.arms]
    return [[arm, *(_link(links.get(rate)) for rate in rates)] for arm, links in found if links]


def _link(link: "LinkSpeed | None") -> str:
    return "-" if link is None else f"{link.steps_a_second:.2f} {link.how} ({1e3 * link.wire:.2f} ms)"


def methods(report: "MethodsReport", screen: Screen) -> list[str]:
    """Return each method with its paper, what is searched, and what differs from the paper."""
    lines = []
    for one in report.methods:
        lines.append(f"{screen.paint(one.name, 'head')}: {one.paper}")
        axes = [f"{name} {', '.join(map(str, values))}" for name, values in one.axes.items()]
        for what, said in (
            ("searched", "; ".join(axes)),
            ("fixed", ", ".join(one.fixed)),
            ("needs", ", ".join(one.needs)),
            ("differs", one.differs),
            ("not installed", one.missing),
        ):
            lines += wrapped(f"  {what}: ", said.split(), screen, " ") if said else []
    return lines


def _evenness(constant: "ConstantStretch | None") -> list[str]:
    if constant is None:
        return []
    where = f"at a constant learning rate, steps {constant.first} to {constant.last}"
    return [f"{where}: the largest of ten commits has {constant.largest:.2f} times their median"]


def _judged(one: "BoundedStep") -> list[str]:
    size_, spent = one.size, one.spent
    return [
        str(size_.step),
        one.exactness,
        size(size_.stored_bytes),
        f"{size_.weights / max(size_.weights_stored, 1):.2f}",
        f"{size_.raw_bytes / max(size_.stored_bytes, 1):.2f}",
        "-" if one.search is None else _with_error(one.search),
        _with_error(one.verify),
        _with_error(one.report),
        "-" if spent is None else f"{spent.evaluations:.2f}",
        "-" if spent is None else f"{spent.search_seconds + spent.codec_seconds:.1f}",
    ]


def _with_error(one: "Judged") -> str:
    error = "" if one.standard_error is None else f" ± {one.standard_error:.3%}"
    return f"{_percent(one.degradation)}{error}"


def _percent(fraction: float) -> str:
    return f"{fraction:+.3%}"
