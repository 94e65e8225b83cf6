"""Charts of Vega-Lite, as values of its JSON, and the script that draws them in a browser.

Methods have the same colour and shape in all charts of a page. Colours and fonts are names of CSS, so that a
page's style decides them, light or dark. Text in data is never markup: the script draws it as text of SVG.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import altair as alt
import vl_convert

OTHERS = "others"
"""What methods without a colour of their own are drawn as."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
"""One for each colour `--m0`, `--m1`, ... of the page's style."""
CLASSES = 5
"""How many colours `--k0`, `--k1`, ... there are for parts of a state."""

Rows = Sequence[Mapping[str, Any]]
Spec = dict[str, Any]
_INK, _FAINT, _OTHER, _LINES = "var(--ink)", "var(--faint)", "var(--other)", "var(--line)"
_TEXT = {"labelColor": _INK, "titleColor": _INK, "labelFontSize": 12, "titleFontSize": 12}
_CONFIG = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        **_TEXT,
        "titleFontWeight": "normal",
        "gridColor": _LINES,
        "domainColor": _FAINT,
        "tickColor": _FAINT,
        "labelLimit": 130,
        "labelOverlap": True,
        "tickCount": 5,
    },
}
_METHOD = alt.Tooltip("label:N", title="method")
_ROWS = alt.NamedData("rows")
_NUMBERS = alt.Axis(format=".3~g")
_HEIGHT, _BAR = 300, 22


@cache
def script() -> str:
    """Return JavaScript that draws each element of the class `chart` from the JSON in it."""
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    known = vl_convert.get_vegalite_versions()
    return str(vl_convert.javascript_bundle(_DRAW, vl_version=version if version in known else known[-1]))


_DRAW = """
for (const holder of document.querySelectorAll(".chart")) {
  const spec = JSON.parse(holder.firstElementChild.textContent);
  vegaEmbed(holder, spec, {mode: "vega-lite", renderer: "svg", actions: false, ast: true});
}
"""


def scatter(
    rows: Rows,
    methods: Sequence[str],
    x: tuple[str, str],
    y: tuple[str, str],
    *,
    limits: Sequence[float] = (),
) -> Spec:
    """Return a mark for each row; those that are "fixed" are hollow.

    Args:
        rows: "label", "method", "fixed", what the axes show, and "best" for those that a line joins.
        methods: those that have colours; others of `rows` have "method" `OTHERS`.
        x: field and title; a share of degradation where there are limits, else a ratio on a logarithmic axis.
        y: likewise, logarithmic.
        limits: lines across; x ends a little behind the last, and larger values stand at that end.
    """
    (across, title), (up, other) = x, y
    if limits:
        low = 1.1 * min([0.0, *(row[across] for row in rows)])
        room = alt.Scale(domain=[low, max(limits) * 1.5], clamp=True, nice=False)
        horizontal = alt.X(f"{across}:Q", title=title, scale=room, axis=alt.Axis(format="~%"))
    else:
        horizontal = alt.X(f"{across}:Q", title=title, scale=_logarithmic(rows, across), axis=_NUMBERS)
    vertical = alt.Y(f"{up}:Q", title=other, scale=_logarithmic(rows, up), axis=_NUMBERS)
    tips = [alt.Tooltip(f"{across}:Q", title=title, format=".3%" if limits else ".3~g")]
    tips.append(alt.Tooltip(f"{up}:Q", title=other, format=".3~f"))
    crossed = alt.Chart(alt.Data(values=[{across: limit} for limit in limits]))
    joined = alt.Chart(_ROWS).mark_line(color=_FAINT, strokeWidth=1).transform_filter("datum.best")
    layers = []
    if limits:
        layers.append(crossed.mark_rule(color=_FAINT, strokeDash=[4, 4]).encode(x=horizontal))
    if any(row.get("best") for row in rows):
        layers.append(joined.encode(horizontal, vertical))
    for fixed in sorted({row["fixed"] for row in rows}, reverse=True):
        marks = alt.Chart(_ROWS).mark_point(filled=not fixed, size=90, strokeWidth=2, opacity=1)
        marks = marks.transform_filter("datum.fixed" if fixed else "!datum.fixed")
        layers.append(marks.encode(horizontal, vertical, *_looks(methods), tooltip=[_METHOD, *tips]))
    return _spec(alt.layer(*layers), sorted(rows, key=lambda row: row["method"] != OTHERS), _HEIGHT)


def lines(
    rows: Rows, methods: Sequence[str], x: tuple[str, str], y: tuple[str, str], *, logarithmic: bool = False
) -> Spec:
    """Return a line for each label.

    Args:
        rows: "label", "method", and what the axes show.
        methods: those that have colours; others of `rows` have "method" `OTHERS`.
        x: field and title; whole numbers.
        y: likewise; positive, logarithmic.
        logarithmic: x is as well, and may be fractions.
    """
    (across, title), (up, other) = x, y
    whole = _NUMBERS if logarithmic else alt.Axis(format="~d", tickMinStep=1)
    room = _logarithmic(rows, across) if logarithmic else alt.Scale(zero=False, nice=False)
    horizontal = alt.X(f"{across}:Q", title=title, scale=room, axis=whole)
    vertical = alt.Y(f"{up}:Q", title=other, scale=_logarithmic(rows, up), axis=_NUMBERS)
    tips = [
        _METHOD,
        alt.Tooltip(f"{across}:Q", title=title),
        alt.Tooltip(f"{up}:Q", title=other, format=".4~g"),
    ]
    colour, shape = _looks(methods)
    layers = []
    for named in sorted({row["method"] != OTHERS for row in rows}):
        encoded = alt.Chart(_ROWS).transform_filter(f"datum.method {'!' if named else '='}= '{OTHERS}'")
        encoded = encoded.encode(horizontal, vertical, colour, detail="label:N", order=f"{across}:Q")
        layers.append(encoded.mark_line(strokeWidth=2 if named else 1))
        marks = encoded.mark_point(filled=True, size=45 if named else 12, opacity=1)
        layers.append(marks.encode(shape, tooltip=tips))
    return _spec(alt.layer(*layers), rows, _HEIGHT)


def bars(rows: Rows, order: Sequence[str], classes: Sequence[str], title: str) -> Spec:
    """Return a bar for each label, with a part for each class.

    Args:
        rows: "label", "class", "size", and "place" of the class.
        order: of labels.
        classes: at most `CLASSES`, in the order of parts.
        title: of the axis.
    """
    colours = alt.Scale(domain=list(classes), range=[f"var(--k{place})" for place in range(CLASSES)])
    tips = [_METHOD, alt.Tooltip("class:N", title="part"), alt.Tooltip("size:Q", title=title, format=".4~g")]
    chart = (
        alt.Chart(_ROWS)
        .mark_bar(stroke="var(--paper)", strokeWidth=1)
        .encode(
            alt.X("size:Q", title=title),
            alt.Y("label:N", title=None, sort=list(order)),
            alt.Color("class:N", scale=colours, legend=None),
            alt.Order("place:Q"),
            tooltip=tips,
        )
    )
    return _spec(chart, rows, 40 + _BAR * len(order))


def _looks(methods: Sequence[str]) -> tuple[alt.Color, alt.Shape]:
    named, count = [*methods, OTHERS], len(methods)
    colours = alt.Scale(domain=named, range=[*(f"var(--m{place})" for place in range(count)), _OTHER])
    shapes = alt.Scale(domain=named, range=[*SHAPES[:count], "circle"])
    return (
        alt.Color("method:N", scale=colours, legend=None),
        alt.Shape("method:N", scale=shapes, legend=None),
    )


def _logarithmic(rows: Rows, field: str) -> alt.Scale:
    values = [row[field] for row in rows if row[field] > 0] or [1.0]
    return alt.Scale(type="log", domain=[min(values) / 1.2, max(values) * 1.2], nice=False)


def _spec(chart: Any, rows: Rows, height: int) -> Spec:  # noqa: ANN401  # any chart
    fitting = alt.AutoSizeParams(type="fit", contains="padding")
    spec: Spec = chart.properties(width="container", height=height, autosize=fitting).to_dict()
    del spec["$schema"]
    return {**spec, "datasets": {"rows": rows}, "config": _CONFIG}  # altair would check each row
