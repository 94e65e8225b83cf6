"""What differs between two commits, or between a commit and the working files."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mvcs.ui.screen import Screen
from mvcs.ui.sizes import count, number, share
from mvcs.ui.text import bar, printable, table

if TYPE_CHECKING:
    from mvcs.repository.reports import Diff, TensorDiff

_BAR = 12
_LONGEST = 60


def changes(value: "Diff", screen: Screen) -> list[str]:
    """Return the tensors that differ, each with a bar for its relative change, then everything else."""
    left = value.left.short if value.left else "nothing"
    right = value.right.short if value.right else "the working files"
    blocks = [
        [f"{screen.paint(left, 'id')} -> {screen.paint(right, 'id')}"],
        [f"{state + ':':<10} {printable(path)}" for path, state in value.files],
        _changed(value.tensors, screen),
        [
            f"{tensor.state + ':':<10} {printable(tensor.path)}"
            for tensor in value.tensors
            if tensor.state != "changed"
        ],
        [f"{printable(path)}: {_short(left)} -> {_short(new)}" for path, left, new in value.values],
        [_unchanged(value)],
    ]
    result: list[str] = []
    for block in blocks:
        if block:
            result += [*([""] if result else []), *block]
    return result


def _changed(tensors: Sequence["TensorDiff"], screen: Screen) -> list[str]:
    changed = [tensor for tensor in tensors if tensor.state == "changed"]
    if not changed:
        return []
    largest = max((tensor.relative or 0.0 for tensor in changed), default=0.0)
    rows: list[tuple[str, ...]] = [("tensor", "changed", "rms change", "largest", "cosine", "relative", "")]
    rows += [_row(tensor, largest, screen) for tensor in changed]
    return table(rows, "~>>>>><", screen, styles=("", "", "", "", "", "", "bar"), optional=(2, 3, 6, 1))


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
        bar(fraction, _BAR, screen),
    )


def _maybe(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _short(value: object) -> str:
    text = number(value) if isinstance(value, float) else printable(repr(value))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _unchanged(value: "Diff") -> str:
    if not (value.tensors or value.values or value.files):
        return "no difference"
    return f"{count(value.unchanged, 'tensor')} unchanged"
