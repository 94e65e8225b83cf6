"""Commits as the log shows them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from mvcs.errors import some_of
from mvcs.ui.text import (
    Screen,
    count,
    first_line,
    lines,
    number,
    printable,
    ratio,
    seconds,
    share,
    size,
    wrapped,
)

if TYPE_CHECKING:
    from mvcs.reports import CommitInfo, HistorySize, RestoreFigures

LISTED = 10
NAMED = 5


def moment(time: datetime) -> str:
    """Return a time on the reader's own clock, with its offset."""
    return time.astimezone().strftime("%Y-%m-%d %H:%M:%S %z")


def metrics(values: Mapping[str, float]) -> str:
    """Return metrics as `name=value`, two spaces apart."""
    return "  ".join(f"{printable(name)}={number(value)}" for name, value in values.items())


def names(refs: Sequence[str], screen: Screen) -> str:
    """Return the names that point at a commit, in parentheses; nothing when there are none."""
    if not refs:
        return ""
    painted = [screen.paint(printable(ref), "head" if ref.startswith("HEAD") else "ref") for ref in refs]
    return f"({', '.join(painted)})"


def exactness(info: "CommitInfo") -> str:
    """Say how exact a commit is, in a few words."""
    if info.exactness == "exact":
        return "exact"
    measured = isinstance(info.degradation, float | int)
    loss = f" (degradation {number(float(info.degradation or 0))})" if measured else ""
    return f"bounded{loss}; exact layer {info.exact_layer}"


def sizes(info: "CommitInfo") -> str:
    """Say what a commit took: "stored 1.2 MB of 56 MB (46x), bounded; exact layer kept"."""
    smaller = ratio(info.raw_bytes, info.stored_bytes)
    times = "" if smaller == "-" else f" ({smaller})"
    amounts = f"{size(info.stored_bytes)} of {size(info.raw_bytes)}{times}"
    what = ", weights alone" if info.weights_only else ""
    gone = f"; {dropped(info)}" if info.data_dropped else ""
    return f"{'was ' * info.data_dropped}stored {amounts}, {exactness(info)}{what}{gone}"


def dropped(info: "CommitInfo") -> str:
    """Say that a commit's data were dropped, and that they are there still, where that was looked for."""
    return "data dropped, and still there until gc" if info.data_left else "data dropped"


def restore(figures: "RestoreFigures") -> str:
    """Say what a restore takes: "reads 1.2 MB in 30 requests, 3 deltas deep, about 0.1 s here"."""
    deep = f"{count(figures.depth, 'delta')} deep"
    time = [] if figures.seconds is None else [f"about {seconds(figures.seconds)} here"]
    reads = f"reads {size(figures.read_bytes)} in {count(figures.requests, 'request')}"
    return ", ".join([reads, deep, *time])


def off(info: "CommitInfo") -> str | None:
    """Say which tensor is off most and how far, and what is left out; None where there is nothing to say."""
    said = [
        f"{what}{printable(found.tensor)} {share(found.relative)}"
        for what, found in (("", info.worst), ("moment ", info.worst_moment))
        if found is not None
    ]
    said += [f"{printable(name)}s left out" for name in info.left_out]
    return ", ".join(said) or None


def lossy_origin(info: "CommitInfo") -> str | None:
    """Say that a commit descends from a lossily restored state, or may; None when it does not."""
    if info.lineage_exact:
        return None
    if info.lineage_exact is None:
        return "unknown, as nothing on record tells whether it or an ancestor continued from rounded values"
    if info.restored_from:
        return f"continued from the value layer of {info.restored_from[:12]}, which is lossy"
    if not info.parents:
        return "files of it were restored from the value layer of a bounded commit, which is lossy"
    return "an ancestor continued from a lossy state"


def unmeasured(info: "CommitInfo") -> str | None:
    """Say why a commit's quality is not known though it was to be measured; None where that is not so."""
    return None if info.not_evaluated is None else f"not measured, since {printable(info.not_evaluated)}"


def full(info: "CommitInfo", refs: Sequence[str], screen: Screen) -> list[str]:
    """Return a commit as several lines: what names it, who, when, how good, how large, and its message."""
    fields: dict[str, list[str]] = {
        "Parents:": [parent[:12] for parent in info.parents] if len(info.parents) > 1 else [],
        "Author:": [printable(info.author)],
        "Date:": [moment(info.time)],
        "Step:": [] if info.step is None else [f"{info.step}"],
        "Metrics:": [metrics({name: value}) for name, value in info.metrics.items()],
    }
    sentences = {
        "Sizes:": sizes(info),
        "Worst:": off(info),
        "Quality:": unmeasured(info),
        "Lineage:": lossy_origin(info),
    }
    title = f"{screen.paint(f'commit {info.short}', 'id')} {names(refs, screen)}".rstrip()
    body = (
        [f"    {line}".rstrip() for line in lines(info.message.strip("\n"))] if info.message.strip() else []
    )
    facts = [wrapped(f"{name:<9}", items, screen) for name, items in fields.items() if items]
    facts += [wrapped(f"{name:<9}", text.split(" "), screen, " ") for name, text in sentences.items() if text]
    return [title, *chain.from_iterable(facts), *(["", *body] if body else [])]


def oneline(info: "CommitInfo", refs: Sequence[str], screen: Screen) -> str:
    """Return a commit as one line: id, names, step, message, metrics, size."""
    notes = ["not evaluated"] * bool(info.not_evaluated) + ["data dropped"] * info.data_dropped
    tail = [metrics(info.metrics), f"{'was ' * info.data_dropped}{size(info.stored_bytes)}", *notes]
    parts = [
        screen.paint(info.short, "id"),
        names(refs, screen),
        "" if info.step is None else f"step {info.step}",
        first_line(info.message),
        screen.paint("[" + "  ".join(part for part in tail if part) + "]", "dim"),
    ]
    return " ".join(part for part in parts if part)


def together(whole: "HistorySize") -> str:
    """Say what all commits of a list took: "4 commits: stored 1.2 MB of 56 MB (46x)"."""
    return f"{count(whole.commits, 'commit')}: {whole}"


def created(info: "CommitInfo", branch: str | None) -> list[str]:
    """Return what a person wants to know about the commit just made, on a branch or on none."""
    where = printable(branch) if branch else "detached HEAD"
    result = [f"[{where} {info.short}] {first_line(info.message)}".rstrip()]
    facts = [] if info.step is None else [f"step {info.step}"]
    if info.metrics:
        facts.append(metrics(info.metrics))
    if facts:
        result.append(" " + ", ".join(facts))
    result.append(f" {_taken(info)}")
    worst = off(info)
    if worst:
        result.append(f" off most, over its root mean square: {worst}")
    if info.exact_bytes:
        result.append(f" the exact layer takes {size(info.exact_bytes)} until it is dropped")
    result += _listed("moved", [f"{old} -> {new}" for old, new in info.moved.items()])
    if info.added:
        shown = some_of([printable(path) for path in info.added], NAMED)
        result.append(f" {count(len(info.added), 'new file')}: {shown}")
    result += _listed("kept", info.kept) + _listed("gone from the commit:", info.left)
    return [*result, *(f" lineage: {origin}" for origin in [lossy_origin(info)] if origin)]


def _taken(info: "CommitInfo") -> str:
    """Say what a new commit took; of one that amends, beside what was there before."""
    if info.amends is None:
        return sizes(info)
    old = info.amends[:12]
    return f"in the place of {old}, {size(info.stored_bytes)} more; {exactness(info)}"


def _listed(what: str, paths: Sequence[str]) -> list[str]:
    """Return a line for each file, and one for the rest of many."""
    rest = len(paths) - LISTED
    more = [f" {what} {rest} more"] if rest > 0 else []
    return [f" {what} {printable(path)}" for path in paths[:LISTED]] + more
