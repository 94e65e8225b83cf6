"""What differs between two commits, or between a commit and the working files."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mvcs.ui.text import Screen, bar, count, listed, printable, share, size, table, value_text, wrapped

FILES_LISTED = 10
_BAR = 12
_LONGEST = 60
_MODEL = ("weight", "small")
_LAYERS = {"exact": "exact values", "value": "quantized values", "mixed": "exact and quantized values"}
_SHORT_BAR = 10


if TYPE_CHECKING:
    from mvcs.reports import Diff, FileChange, TensorDiff


def lines(
    value: "Diff", screen: Screen, limit: int | None = FILES_LISTED, *, headed: bool = True
) -> list[str]:
    """Return what is compared, the tensors that differ, those of the model first, and everything else.

    Args:
        value: what differs.
        screen: what it is for.
        limit: of how many tensors of the model, and of how many others, the change is shown; None for all.
        headed: whether to begin with the names of what is compared.
    """
    heading = [_compared(value, screen)] if headed else []
    option = None if limit is None else "--all" if headed else _command(value)
    blocks = [
        [*heading, *_why(value, screen)],
        [f"{state + ':':<10} {printable(path)}" for path, state in value.files],
        *_changed(_groups(value.tensors), screen, limit, "--all" if headed else _command(value)),
        [
            f"{tensor.state + ':':<10} {printable(tensor.path)}"
            for tensor in value.tensors
            if tensor.state != "changed"
        ],
        listed(((path, f"{_short(left)} -> {_short(new)}") for path, left, new in value.values), option),
        [_unchanged(value)],
    ]
    result: list[str] = []
    for block in blocks:
        if block:
            result += [*([""] if result else []), *block]
    return result


def _compared(value: "Diff", screen: Screen) -> str:
    left = screen.paint(value.left.short if value.left else "nothing", "id")
    right = screen.paint(value.right.short if value.right else "the working files", "id")
    return f"{left}{_layer(value.left_layer)} -> {right}{_layer(value.right_layer)}"


def _command(value: "Diff") -> str:
    """Return the command that shows all of a difference."""
    sides = [side.short for side in (value.left, value.right) if side is not None]
    return f"'mvcs diff {' '.join(sides)} --all'"


def _layer(layer: str | None) -> str:
    return f" ({_LAYERS[layer]})" if layer in _LAYERS else ""


def _why(value: "Diff", screen: Screen) -> list[str]:
    """Say why quantized values are compared, and how exact ones are, where they can be."""
    if not {"value", "mixed"} & {value.left_layer, value.right_layer}:
        return []
    lacking = [
        side.short
        for side in (value.left, value.right)
        if side is not None and side.bounded and side.exact_layer != "kept"
    ]
    if lacking:
        text = f"exact values of {' and '.join(lacking)} are not stored here"
    elif value.right_layer == "files":
        text = "the files were restored to quantized values, so these are compared"
    else:
        text = "--exact compares exact values"
    return [screen.paint(line, "dim") for line in wrapped("", text.split(" "), screen, " ")]


def _groups(tensors: Sequence["TensorDiff"]) -> list[list["TensorDiff"]]:
    """Return changed tensors of the model, and all others, each with what moved most first."""
    changed = sorted((tensor for tensor in tensors if tensor.state == "changed"), key=_rank)
    model = [tensor for tensor in changed if tensor.role in _MODEL]
    return [group for group in (model, [tensor for tensor in changed if tensor.role not in _MODEL]) if group]


def _rank(tensor: "TensorDiff") -> tuple[bool, bool, float]:
    """Put what moved before what was rounded, moments before counters, and the largest change first."""
    relative = tensor.relative
    unknown = relative is None or math.isnan(relative)
    return tensor.cause is not None, tensor.role == "other", -math.inf if unknown else -(relative or 0.0)


def _changed(
    groups: Sequence[Sequence["TensorDiff"]], screen: Screen, limit: int | None, option: str
) -> Iterator[list[str]]:
    """Yield the lines of each group, as parts of one table, with what their last column means."""
    listed = [group[:limit] for group in groups]
    full = [
        max((item.relative or 0.0 for item in group if item.cause is None), default=0.0) for group in listed
    ]
    rows: list[tuple[str, ...]] = [("tensor", "changed", "rms change", "largest", "cosine", "relative", "")]
    rows += [_row(item, most, screen) for group, most in zip(listed, full, strict=True) for item in group]
    styles = ("", "", "", "", "", "", "bar")
    lines = table(rows, "~>>>>><", screen, styles=styles, optional=(2, 3, 1, 4)) if len(rows) > 1 else [""]
    at = 1
    for group, shown, most in zip(groups, listed, full, strict=True):
        head = lines[:1] if at == 1 and shown else []
        yield [
            *head,
            *lines[at : at + len(shown)],
            *_rest(group[len(shown) :], option),
            *_legend(group, most, screen),
        ]
        at += len(shown)


def _rest(hidden: Sequence["TensorDiff"], option: str) -> list[str]:
    if not hidden:
        return []
    rounded = sum(tensor.cause is not None for tensor in hidden)
    moved = len(hidden) - rounded
    what = (
        count(moved, "smaller change")
        if moved
        else count(rounded, "change by rounding", "changes by rounding")
    )
    more = f" and {rounded:,} by rounding" if moved and rounded else ""
    return [f"and {what}{more}; {option} lists them"]


def _legend(group: Sequence["TensorDiff"], largest: float, screen: Screen) -> list[str]:
    """Say what the last column shows."""
    causes = {tensor.cause for tensor in group}
    texts = [f"A full bar is a relative change of {share(largest)}."] if largest else []
    if "rounding" in causes:
        texts.append("Rounding: no element differs by more than a step of the quantizer.")
    if "left out" in causes:
        texts.append("Left out: a side has none of these values, and zeros in their place.")
    return [screen.paint(text, "dim") for text in texts]


def _row(tensor: "TensorDiff", largest: float, screen: Screen) -> tuple[str, ...]:
    relative = tensor.relative or 0.0
    fraction = relative / largest if 0 < largest < float("inf") else float(relative > 0)
    return (
        printable(tensor.path),
        "-" if tensor.changed_fraction is None else share(tensor.changed_fraction),
        _maybe(tensor.rms_change),
        _maybe(tensor.max_change),
        _maybe(tensor.cosine),
        "-" if tensor.relative is None else share(relative),
        tensor.cause or bar(fraction, _BAR, screen),
    )


def _maybe(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _short(value: object) -> str:
    text = value_text(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _unchanged(value: "Diff") -> str:
    if not (value.tensors or value.values or value.files):
        return "no difference"
    return f"{count(value.unchanged, 'tensor')} unchanged"


def listing(found: Sequence["FileChange"], listed: str, screen: Screen) -> list[str]:
    """Return what differs as one of `--stat`, `--name-only` and `--name-status` shows it."""
    if listed == "stat":
        return counts(found, screen)
    marks = {"added": "A\t", "removed": "D\t"}
    states = [marks.get(item.state, "M\t") if listed == "name-status" else "" for item in found]
    return [state + printable(item.path) for state, item in zip(states, found, strict=True)]


def counts(found: Sequence["FileChange"], screen: Screen) -> list[str]:
    """Return a line a file or part, a bar for the share of its bytes that differ, and how many there are."""
    rows = [
        (f" {printable(item.path)}", "|", _tensors(item), _bytes(item), _bar(item, screen)) for item in found
    ]
    lines = (
        table(rows, "~<<><", screen, styles=("", "dim", "", "", "bar"), header=False, optional=(4,))
        if rows
        else []
    )
    return [*lines, f" {_how_many(found)} differ{'s' if len(found) == 1 else ''}"]


def _how_many(found: Sequence["FileChange"]) -> str:
    kinds = [item.kind for item in found]
    counted = [count(kinds.count(kind), kind) for kind in dict.fromkeys(kinds)]
    return " and ".join(counted) or count(0, "file")


def _tensors(item: "FileChange") -> str:
    if item.state != "changed":
        return f"{item.state}, {count(item.tensors, 'tensor')}" if item.tensors else item.state
    return f"{item.changed} of {count(item.tensors, 'tensor')}" if item.tensors or item.changed else "changed"


def _bytes(item: "FileChange") -> str:
    part = item.state == "changed" and item.changed_bytes != item.raw_bytes
    return f"{size(item.changed_bytes)} of {size(item.raw_bytes)}" if part else size(item.raw_bytes)


def _bar(item: "FileChange", screen: Screen) -> str:
    return bar(item.changed_bytes / item.raw_bytes if item.raw_bytes else 0.0, _SHORT_BAR, screen)
