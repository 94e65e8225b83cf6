"""One commit in full, one file of it, and single objects."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mvcs.ui.commits import full, restore
from mvcs.ui.text import (
    Screen,
    count,
    lines,
    listed,
    number,
    printable,
    ratio,
    size,
    table,
    value_text,
    wrapped,
)

_NAMED = 10
_MEANINGS = {
    "unchanged": "an earlier commit stored these bytes",
    "left out": "on purpose, as the optimizer allows; zeros are restored",
    "derived": "rounded from another tensor, such as the master copy of a weight",
}
_CLASSES = frozenset({"weight", "small", "first moment", "second moment"})
_INDENT = "  "
_ALARMING = 0.1
_GLOSSES = {
    "small": "biases, norms and other small tensors",
    "pace": "how much of the weights' earlier movement continues: 1 all, below 0 reversed",
    "snap-back": "retained: the share of progress since a lossy restore that is kept",
}


if TYPE_CHECKING:
    from mvcs.reports import ClassInfo, CommitDetails, CommitInfo, RestoreFigures, TensorInfo
    from mvcs.restore import FileDetails


def commit_details(
    value: "CommitDetails", refs: Sequence[str], screen: Screen, limit: int | None
) -> list[str]:
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


def file_details(found: "FileDetails", screen: Screen, limit: int | None) -> list[str]:
    """Return the tensors of a file, the text of another, or the files of a folder."""
    if found.content is not None:
        return _content(found, found.content)
    if found.files:
        return [printable(path) for path in found.files]
    short = screen.paint(found.commit.short, "id")
    title = f"{short}:{printable(found.path)}  {found.format}, {size(found.raw_bytes)}"
    said = ((path, value_text(value)) for path, value in found.values.items())
    values = listed(said, None if limit is None else "--all")
    table = tensor_table(found.tensors, screen, limit)
    return [title, *(["", *table] if table else []), *(["", *values] if values else [])]


def _content(found: "FileDetails", content: bytes) -> list[str]:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        what = f"{count(len(content), 'byte')} that are no text"
        return [f"{what}: 'mvcs checkout {found.commit.short}:{printable(found.path)} -o FILE' writes them"]
    return lines(text.removesuffix("\n"))


def outline(value: object) -> Iterator[str]:
    """Yield the lines of a decoded object: pairs of name and value as `name: value`, others by dashes."""
    if isinstance(value, list):
        for item in value:
            yield from _entry(item)
    elif value is not None:
        yield _leaf(value)


def _entry(item: object) -> Iterator[str]:
    if isinstance(item, list) and len(item) == 2 and isinstance(item[0], str):
        name, value = item
        yield from _labelled(f"{printable(name)}:", value)
    else:
        yield from _labelled("-", item)


def _labelled(label: str, value: object) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{label} {_leaf(value)}"
    elif not any(isinstance(item, list) for item in value):
        yield f"{label} {', '.join(_leaf(item) for item in value) or '-'}"
    else:
        yield label
        yield from (_INDENT + line for line in outline(value))


def _leaf(value: object) -> str:
    return "-" if value is None else printable(str(value))


def gloss(name: str, figures: Mapping[str, float]) -> list[str]:
    """Return what the figures of a name are about, in brackets; nothing for a name that tells it."""
    most = figures.get("most")
    if name == "tensor limit" and most is not None:
        return [f"(no weight is off by more than {most:g} of its root mean square)"]
    return [f"({_GLOSSES[name]})"] if name in _GLOSSES else []


def meanings(value: "CommitDetails") -> Iterator[str]:
    """Yield a sentence for each figure of a commit that is large by design."""
    info = value.commit
    if info.worst is not None and info.worst.relative >= _ALARMING:
        yield f"Worst is one tensor's rounding over its own root mean square; {_together(info)}"
    if info.worst_moment is not None and info.worst_moment.relative >= _ALARMING:
        yield "moments are kept as finely as resuming needs, not as rounding could"
    if info.left_out:
        yield "what is left out is restored as zeros, and refilled by the optimizer within a few steps"
    yield from _kept_exactly(value)


def _kept_exactly(value: "CommitDetails") -> Iterator[str]:
    """Say what is exact though it was to be bounded, where the reason of a large commit does not say it."""
    from mvcs.objects import EVALUATION_CLASS
    from mvcs.reports import Cause

    info, cause = value.commit, None if value.shortfall is None else value.shortfall.cause
    if not info.bounded and EVALUATION_CLASS in info.errors and cause != Cause.NOTHING_KEPT_THE_BOUND:
        yield "nothing that was evaluated kept the bound, so the commit is exact"
    exact = [one for one in value.tensors if one.role == "weight" and one.exact_id is None]
    if info.bounded and exact and cause != Cause.EXACT_WEIGHTS:
        yield f"{count(len(exact), 'weight')} kept exactly, such as {printable(exact[0].path)}"


def _together(info: "CommitInfo") -> str:
    """Say what tells how much all errors together matter."""
    if isinstance(info.degradation, float | int):
        return "degradation says what all errors do together"
    return "what all errors do together only an evaluation tells (mvcs tune)"
