"""A page of what was compared: charts, each with its numbers as a table, in one file that loads nothing else.

Names of methods, runs and settings are other people's text. In HTML they are escaped, and in the charts'
JSON no `<` is left. The page's policy lets its own script run and no other, and nothing be loaded.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from html import escape
from math import isfinite
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from mvcs.ui import bench, charts
from mvcs.ui.bench import KEPT, MOMENTS, RESULT_HEADS, measured_part, result_cells, run_about
from mvcs.ui.text import printable

if TYPE_CHECKING:
    from mvcs.bench import ChannelsReport, ComparisonReport, Result, RunResults

_MARKS = "●■▲◆▼✚"  # as `charts.SHAPES`
_POINTS = 40  # checkpoints in a chart, at most
_BARS = 16  # in a chart, at most
_MEGA = 1e6
_WEIGHTS, _REST = "weights", "rest"
_SIZE = ("ratio", "CR-w")
_TEMPLATE = Path(__file__).with_name("bench_page.html")


def page(report: "ComparisonReport") -> str:
    """Return HTML.

    Args:
        report: what an output folder has.
    """
    methods = _coloured(report)
    parts = [part for run in report.runs for part in _Run(run, methods).parts()]
    if report.channels is not None:
        parts += _channels(report.channels)
    script = charts.script()
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    filled = Template(_TEMPLATE.read_text(encoding="utf-8"))
    return filled.substitute(content="\n".join(parts), script=script, allowed=allowed)


def _channels(report: "ChannelsReport") -> Iterator[str]:
    """Yield HTML of arms whose links send few bits."""
    yield f"<h2>{_text(bench.channels_about(report))}</h2>"
    yield _table(bench.ARM_HEADS, bench.arm_rows(report)) + f"<p class=note>{_text(bench.ARM_LEGEND)}.</p>"
    epochs = range(1, report.plan["epochs"] + 1)
    heads = ["epoch", *map(str, epochs)]
    losses = [(one.arm, {epoch: one.loss[epoch - 1] for epoch in epochs}) for one in report.arms]
    sent = [
        (one.arm, {epoch: (one.forward[epoch - 1] + one.backward[epoch - 1]) / _MEGA for epoch in epochs})
        for one in report.arms
    ]
    for title, sentence, what, curves in (
        (
            "Loss by epoch",
            "The mean over the pieces of an epoch, while they are learned.",
            "nats a byte",
            losses,
        ),
        ("Bytes by epoch", "Activations and gradients between stages, of all processes.", "MB", sent),
    ):
        cells = [[arm, *(f"{number:.4f}" for number in curve.values())] for arm, curve in curves]
        yield _curves(title, sentence, ("epoch", what), curves, _table(heads, cells))
    if rates := bench.channel_rates(report):
        speeds = [
            (one.arm, {link.bits_a_second / _MEGA: link.steps_a_second for link in one.links})
            for one in report.arms
        ]
        table = _table(["steps a second", *rates], bench.link_rows(report, rates))
        sentence = "Links limit what a process sends. In brackets: what sending a micro-batch takes at least."
        yield _curves("Steps a second by link", sentence, ("Mbit/s", "steps a second"), speeds, table)


def _curves(
    title: str,
    sentence: str,
    axes: tuple[str, str],
    curves: Sequence[tuple[str, Mapping[Any, float]]],
    table: str,
) -> str:
    """Return a line for each arm."""
    names = [arm for arm, _ in curves][: len(charts.SHAPES)]
    rows = [
        {"label": arm, "method": arm if arm in names else charts.OTHERS, "x": x, "y": y}
        for arm, curve in curves
        for x, y in curve.items()
    ]
    drawn = charts.lines(rows, names, ("x", axes[0]), ("y", axes[1]), logarithmic=axes[0] != "epoch")
    key = _key((_MARKS[place], f"m{place}", name) for place, name in enumerate(names))
    return _figure(title, sentence, drawn, key, table)


def _coloured(report: "ComparisonReport") -> list[str]:
    """Return the methods that get colours: those that keep a bound in the fewest bytes first."""
    places = dict[str, tuple[bool, bool, int]]()
    for run in report.runs:
        for place, one in enumerate(sorted(run.results, key=lambda one: -one.weights)):
            found = (one.bound is None, one.missed + one.unmeasured > 0, place)
            places[_family(one)] = min(places.get(_family(one), found), found)
    return sorted(places, key=places.__getitem__)[: len(charts.SHAPES)]


@dataclass(frozen=True)
class _Run:
    """What is shown of one run."""

    run: "RunResults"
    methods: Sequence[str]

    def parts(self) -> Iterator[str]:
        """Yield HTML."""
        yield f"<h2>{_text(run_about(self.run))}</h2>"
        if not self._results:
            yield "<p>Nothing was measured.</p>"
        elif any(one.unmeasured for one in self._results):
            yield f"<p>{_UNFINISHED}</p>"
        yield from (f"<p>{self._answer(bound)}</p>" for bound in self._bounds)
        for name, why in self.run.skipped.items():
            yield f"<p>{_text(name)} was not measured: {_text(why)}</p>"
        if not self._results:
            return
        cells = ((self._label(one), *result_cells(one)[1:]) for one in self._results)
        yield _table(RESULT_HEADS, cells) + f"<p class=note>{_COLUMNS}</p>"
        yield self._rate()
        yield self._speed("encode")
        yield self._speed("decode")
        yield self._classes()
        for bound in (*self._bounds, None):
            found = [one for one in self._results if one.bound == bound]
            if found:
                named = "Fixed settings" if bound is None else f"At most {_percent(bound)} worse"
                yield f"<h3>{named}: over training</h3>"
                yield self._sizes(found)
                yield self._restores(found)
            if bound is not None:
                yield self._settings(found)

    @property
    def _results(self) -> "list[Result]":
        return self.run.results

    @cached_property
    def _bounds(self) -> list[float]:
        return sorted({one.bound for one in self._results if one.bound is not None})

    @cached_property
    def _shown(self) -> dict[int, int]:
        """Steps that charts show, and how many checkpoints there are up to each."""
        steps = sorted({record.step for one in self._results for record in one.records})
        shown = min(len(steps), _POINTS)
        places = [place * (len(steps) - 1) // max(shown - 1, 1) for place in range(shown)]
        return {steps[place]: place + 1 for place in places}

    def _label(self, one: "Result") -> str:
        """Return what a result is called: its bound, seed and version where those of others differ."""
        label, others = printable(one.method) + measured_part(one), self._results
        if one.bound is not None and len(self._bounds) > 1:
            label += f" {_percent(one.bound)}"
        if len({other.seed for other in others}) > 1:
            label += f" seed {one.seed}"
        if len({other.version for other in others if other.method == one.method}) > 1:
            label += f" v{one.version}"
        return label

    def _look(self, one: "Result") -> dict[str, Any]:
        """Return how a result is drawn."""
        family = _family(one)
        method = family if family in self.methods else charts.OTHERS
        return {"label": self._label(one), "method": method, "fixed": one.bound is None}

    def _key(self, results: "Iterable[Result]") -> str:
        """Return what colours and shapes of methods mean."""
        shown = {self._look(one)["method"] for one in results}
        marks = [(_MARKS[place], f"m{place}", name) for place, name in enumerate(self.methods)]
        return _key(mark for mark in (*marks, ("●", "other", charts.OTHERS)) if mark[-1] in shown)

    def _answer(self, bound: float) -> str:
        """Return which methods take the fewest bytes within a bound, and what they cost."""
        limit = _percent(bound)
        kept = [one for one in self._results if one.bound == bound and not one.missed + one.unmeasured]
        if not kept:
            return f"Nothing is known to keep the bound of {limit} at every checkpoint."
        weights = max(kept, key=lambda one: one.weights)
        states = max(kept, key=lambda one: one.everything)
        said = (
            f"At most {limit} worse: <strong>{_text(weights.method)}</strong> makes weights smallest,"
            f" {weights.weights:.1f} times, and <strong>{_text(states.method)}</strong> whole states,"
            f" {states.everything:.1f} times ({MOMENTS})."
        )
        for one in [weights] if weights is states else [weights, states]:
            said += (
                f" States from {_text(one.method)} are off by {one.mean:+.2%} on average, and"
                f" {_percent(one.kept or 0.0)} of them are {KEPT}. The last takes {one.restore[-1]:.2g} s of"
                f" the processor to restore; finding settings takes {one.searched:.2g} s a checkpoint."
            )
        return said

    def _rate(self) -> str:
        rows = [{**self._look(one), "lost": one.mean, "ratio": one.weights} for one in self._results]
        rows = [row for row in rows if isfinite(row["lost"])]
        lost = ("lost", "degradation")
        cells = [(self._label(one), f"{one.mean:+.3%}", f"{one.weights:.2f}") for one in self._results]
        return _figure(
            "Size against quality",
            "Higher is smaller, and further left is closer to the original; a dashed line is a bound. Hollow"
            " marks are fixed settings, which were not searched: at the right edge they may be further off.",
            charts.scatter(rows, self.methods, lost, _SIZE, limits=self._bounds or [0.01]),
            self._key(self._results),
            _table(("method", lost[1], _SIZE[1]), cells),
        )

    def _speed(self, what: str) -> str:
        limit = max(self._bounds, default=0.0)
        rows, best = list[dict[str, Any]](), 0.0
        for one in sorted(self._results, key=lambda one: (-getattr(one, what), -one.weights)):
            row = {**self._look(one), "speed": getattr(one, what), "ratio": one.weights}
            rows.append(row | {"best": one.mean <= limit and one.weights > best})
            best = max(best, one.weights if one.mean <= limit else 0.0)
        speed = ("speed", f"speed to {what}, memcpy is 1")
        return _figure(
            f"Size against speed to {what}",
            "Higher is smaller, and further right is quicker; the line joins what no other method exceeds in"
            f" both, of those that are at most {_percent(limit)} worse on average."
            " Of lattice it is that of whole states, moments included; most others code weights alone.",
            charts.scatter(rows, self.methods, speed, _SIZE),
            self._key(self._results),
            _table(
                ("method", speed[1], _SIZE[1]),
                ((row["label"], f"{row['speed']:.5f}", f"{row['ratio']:.2f}") for row in rows),
            ),
        )

    def _classes(self) -> str:
        results = sorted(self._results, key=lambda one: -one.everything)
        found = [(self._label(one), _by_class(one)) for one in results]
        totals = dict[str, float]()
        for _, sizes in found:
            for kind, megabytes in sizes.items():
                totals[kind] = totals.get(kind, 0.0) + megabytes
        kinds = sorted(totals.keys() - {_WEIGHTS, _REST}, key=totals.__getitem__, reverse=True)
        classes = [_WEIGHTS, *kinds[: charts.CLASSES - 2], _REST]
        cells = list[tuple[str, list[float]]]()
        for label, sizes in found:
            stored = [sizes.get(kind, 0.0) for kind in classes[:-1]]
            cells.append((label, [*stored, sum(sizes.values()) - sum(stored)]))
        rows = [
            {"label": label, "class": classes[place], "size": value, "place": place}
            for label, stored in cells[:_BARS]
            for place, value in enumerate(stored)
        ]
        return _figure(
            "Whole states by what is in them",
            f"What a checkpoint takes on average, the smallest first: {MOMENTS}. Those of lattice, which is"
            " mvcs itself, are counted in the rest.",
            charts.bars(rows, [label for label, _ in cells[:_BARS]], classes, "MB a checkpoint"),
            _key(("■", f"k{place}", kind) for place, kind in enumerate(classes)),
            _table(
                ("MB a checkpoint", *classes),
                ((label, *(f"{value:.3f}" for value in stored)) for label, stored in cells),
            ),
        )

    def _sizes(self, results: "list[Result]") -> str:
        return self._lines(
            "Size over training",
            "What the weights of each checkpoint take; the first has nothing before it.",
            [(one, [record.stored / _MEGA for record in one.records]) for one in results],
            "MB for weights",
        )

    def _restores(self, results: "list[Result]") -> str:
        return self._lines(
            "Restore cost by depth",
            "Seconds of the processor that a checkpoint takes with all payloads that it continues; lattice"
            " restores whole states.",
            [(one, one.restore) for one in results],
            "seconds",
            by_depth=True,
        )

    def _settings(self, results: "list[Result]") -> str:
        """Return a table of what the search chose at each checkpoint: a row for each axis of a method."""
        rows = list[list[str]]()
        for one in results:
            chosen = {record.step: record.setting for record in one.records}
            for axis in one.records[0].setting:
                values = (_value(chosen.get(step, {}).get(axis, "")) for step in self._shown)
                rows.append([f"{self._label(one)}: {printable(axis)}", *values])
        heads = ["setting", *map(str, self._shown)]
        return f"<h4>Chosen settings</h4>{_table(heads, rows)}" if rows else ""

    def _lines(
        self,
        title: str,
        sentence: str,
        found: "Sequence[tuple[Result, Sequence[float]]]",
        what: str,
        *,
        by_depth: bool = False,
    ) -> str:
        """Return a line for each result, by step or by the number of checkpoints up to there."""
        rows, cells = list[dict[str, Any]](), list[list[str]]()
        shown = {step: depth if by_depth else step for step, depth in self._shown.items()}
        for one, numbers in found:
            known = dict(zip((record.step for record in one.records), numbers, strict=True))
            cells.append([self._label(one), *(_value(known.get(step, "")) for step in shown)])
            rows += [
                {**self._look(one), "x": x, "y": known[step]} for step, x in shown.items() if step in known
            ]
        across = ("x", "checkpoints in the chain" if by_depth else "step")
        return _figure(
            title,
            sentence,
            charts.lines(rows, self.methods, across, ("y", what)),
            self._key(one for one, _ in found),
            _table([what, *map(str, shown.values())], cells),
        )


def _family(result: "Result") -> str:
    """Return the method of a fixed setting, too."""
    return printable(result.method.partition(":")[0])


def _by_class(result: "Result") -> dict[str, float]:
    """Return MB a checkpoint by class."""
    found = dict[str, float]()
    for record in result.records:
        for kind, stored in record.by_class.items():
            name = printable(kind)
            found[name] = found.get(name, 0.0) + stored / len(result.records) / _MEGA
    return found


def _value(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else printable(str(value))


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _text(text: str) -> str:
    return escape(printable(text))


def _key(marks: Iterable[tuple[str, str, str]]) -> str:
    found = (
        f'<span><b style="color:var(--{colour})">{sign}</b> {_text(name)}</span>'
        for sign, colour, name in marks
    )
    return f"<p class=key>{''.join(found)}</p>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{_text(one)}" for one in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}' for cell in row)}" for row in rows)
    return f"<div class=wide><table><thead><tr>{head}<tbody>{body}</table></div>"


def _figure(title: str, sentence: str, spec: charts.Spec, key: str, table: str) -> str:
    drawn = json.dumps(spec, allow_nan=False).replace("<", "\\u003c")
    return (
        f"<figure><h4>{_text(title)}</h4><figcaption>{_text(sentence)}</figcaption>"
        f'<div class=chart><script type="application/json">{drawn}</script></div>{key}'
        f"<details><summary>The numbers</summary>{table}</details></figure>"
    )


_COLUMNS = (
    "CR-w: bytes of weights over bytes stored for them; later: without the first checkpoint; CR-all: the same"
    f" of whole states, where {MOMENTS}. kept: share of checkpoints {KEPT}; worst: the largest degradation"
    " there, which may thus be a little beyond the bound; mean: that on a third sample. settings: evaluated a"
    " checkpoint; encode and decode: speed, memcpy is 1; s: seconds of the processor a checkpoint, the search"
    " included."
)
_UNFINISHED = (
    "This run is unfinished, or some of its records are damaged. Where a method has fewer checkpoints than"
    " the run, their number is behind its name, and the next lines leave it out. The same 'mvcs bench run'"
    " measures the rest."
)
