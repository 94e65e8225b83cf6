"""One commit in full: what it holds, class by class and tensor by tensor."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mvcs.ui.commits import full, restore
from mvcs.ui.odd_figures import gloss, meanings
from mvcs.ui.terminal.screen import Screen
from mvcs.ui.terminal.sizes import count, number, ratio, size
from mvcs.ui.terminal.text import printable, table, wrapped

if TYPE_CHECKING:
    from mvcs.reports import ClassInfo, CommitDetails, RestoreFigures, TensorInfo

_NAMED = 10
_MEANINGS = {
    "unchanged": "an earlier commit stored these bytes",
    "left out": "on purpose, as the optimizer allows; zeros are restored",
    "derived": "rounded from another tensor, such as the master copy of a weight",
}
_CLASSES = frozenset({"weight", "small", "first moment", "second moment"})


def lines(value: "CommitDetails", refs: Sequence[str], screen: Screen, limit: int | None) -> list[str]:
    """Return the commit, its sizes by class, and its largest tensors as stored: `limit` of them, or all."""
    blocks = [
        full(value.commit, refs, screen),
        _facts(value, screen),
        _classes(value.classes, value.restore, screen),
        tensor_table(value.tensors, screen, limit),
    ]
    result: list[str] = []
    for block in blocks:
        if block:
            result += [*([""] if result else []), *block]
    return result


def _facts(value: "CommitDetails", screen: Screen) -> list[str]:
    from mvcs.objects import EVALUATION_CLASS, NOT_EVALUATED

    result: list[str] = []
    if value.dropped:
        result += wrapped("Data:      ", printable(value.dropped).split(" "), screen, " ")
    if value.shortfall is not None:
        result += wrapped("Ratio:     ", printable(value.shortfall.told).split(" "), screen, " ")
    if value.restore is not None:
        result += wrapped("Restore:   ", restore(value.restore).split(" "), screen, " ")
    if value.files:
        result += wrapped("Files:     ", [printable(name) for name in value.files], screen)
    if value.quantizer:
        result += wrapped("Quantizer: ", _pairs(value.quantizer), screen)
    recorded = {name: item for name, item in value.provenance.items() if name != NOT_EVALUATED}
    if recorded:
        result += wrapped("Recorded:  ", _pairs(recorded), screen)
    for name, sums in value.commit.errors.items():
        what = f"Errors:    {printable(name)}: "
        if name.startswith(EVALUATION_CLASS):
            part = printable(name.removeprefix(EVALUATION_CLASS).strip())
            what = f"Evaluated: {part}: " if part else "Evaluated: "
        # A mean over tensors of a class hides the one that is off most, which stands above.
        shown = {key: item for key, item in sums.items() if key != "relative" or name not in _CLASSES}
        result += wrapped(what, [*_pairs(shown), *gloss(name, shown)], screen)
    for sentence in meanings(value):
        result += wrapped("Meaning:   ", sentence.split(), screen, " ")
    if value.values:
        result.append(
            f"Values:    {count(len(value.values), 'number or text', 'numbers and texts')} beside the tensors"
        )
    return result


def _pairs(values: Mapping[str, object]) -> list[str]:
    known = {name: item for name, item in values.items() if item is not None}
    shown = {name: number(item) if isinstance(item, float) else str(item) for name, item in known.items()}
    return [f"{printable(name)}={printable(text)}" for name, text in shown.items()]


def _classes(classes: Sequence["ClassInfo"], whole: "RestoreFigures | None", screen: Screen) -> list[str]:
    if not classes:
        return []
    rows: list[tuple[str, ...]] = [("class", "raw", "stored", "ratio", "exact layer", "depth")]
    rows += [
        _class(item.name, item.raw_bytes, item.stored_bytes, item.exact_bytes, item.depth) for item in classes
    ]
    if len(classes) > 1:
        raw, stored, exact = (
            sum(getattr(item, name) for item in classes)
            for name in ("raw_bytes", "stored_bytes", "exact_bytes")
        )
        rows.append(_class("total", raw, stored, exact, whole.depth if whole else "-"))
    return table(rows, "<>>>>>", screen)


def _class(name: str, raw: int, stored: int, exact: int, depth: int | str) -> tuple[str, ...]:
    layer = size(exact) if exact else "-"
    return printable(name), size(raw), size(stored), ratio(raw, stored), layer, str(depth)


def tensor_table(tensors: Sequence["TensorInfo"], screen: Screen, limit: int | None) -> list[str]:
    """Return the largest tensors as stored: `limit` of them, or all."""
    largest = sorted(tensors, key=lambda tensor: (-tensor.new_bytes, -tensor.raw_bytes))[:limit]
    if not largest:
        return []
    rows = [("tensor", "dtype", "shape", "encoding", "raw", "stored", "depth", "")]
    rows += [
        (
            printable(tensor.path),
            tensor.dtype,
            "x".join(str(side) for side in tensor.shape) or "scalar",
            tensor.encoding,
            size(tensor.raw_bytes),
            size(tensor.new_bytes) if tensor.where == "new" else "-",
            str(tensor.depth),
            _elsewhere(tensor),
        )
        for tensor in largest
    ]
    hidden = len(tensors) - len(largest)
    more = [f"and {count(hidden, 'smaller tensor')}; --all lists them"] if hidden else []
    lines = table(rows, "~<<<>>><", screen, optional=(3, 1), styles=("", "", "", "", "", "", "", "dim"))
    return [*lines, *more, *_legend(largest, screen)]


def _elsewhere(tensor: "TensorInfo") -> str:
    """Say where the bytes of a tensor are, where this commit did not write them for it alone."""
    return ", ".join(
        [*([tensor.where] if tensor.where != "new" else []), *(["tied"] if tensor.aliases else [])]
    )


def _legend(tensors: Sequence["TensorInfo"], screen: Screen) -> list[str]:
    """Say what the last column means, and name the other tensors that it is about."""
    found = {tensor.where for tensor in tensors}
    lines = [f"{word}: {meaning}" for word, meaning in _MEANINGS.items() if word in found]
    pairs = [("shared:", printable(one.path), "as", printable(one.twin)) for one in tensors if one.twin]
    pairs += [
        ("tied:", printable(one.path), "is", printable(path)) for one in tensors for path in one.aliases
    ]
    named = table(pairs[:_NAMED], "<~<~", screen, header=False)
    more = [f"and {count(len(pairs) - _NAMED, 'more such pair')}"] if len(pairs) > _NAMED else []
    return [screen.paint(line, "dim") for line in (*lines, *named, *more)]
