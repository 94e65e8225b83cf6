"""Where the bytes of a store are, as tables and histograms."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from mvcs.ui.text import Screen, bar, count, printable, ratio, seconds, share, size, table, wrapped

if TYPE_CHECKING:
    from mvcs.reports import Bin, BranchSize, ClassSize, CommitSize, EncodingSize, MonthSize, StoreStats

_BAR = 30
_MONTHS = 24
_WHAT = {"elsewhere": "chunks of commits that no ref leads to", "metadata": "trees, commits, footers"}


def lines(value: "StoreStats", screen: Screen) -> list[str]:
    """Return everything, block by block."""
    blocks = [
        _whole(value, screen),
        _classes(value.classes, value.value_bytes + value.exact_bytes, screen),
        _encodings(value.encodings, screen),
        _branches(value.branches, screen),
        _histogram("deltas behind a commit", value.depths, screen, str, _last),
        _histogram(
            "bytes that a restore reads", value.restores, screen, size, lambda high: f"below {size(high)}"
        ),
        _commits("commits that take most", value.largest, screen),
        _commits("commits that cost most to restore", value.dearest, screen),
        _meaning([*value.largest, *value.dearest]),
        _months(value.months, screen),
        _freed(value),
        [printable(note) for note in value.notes],
    ]
    result: list[str] = []
    for block in blocks:
        if block:
            result += [*([""] if result else []), *block]
    return result


def _whole(value: "StoreStats", screen: Screen) -> list[str]:
    kept = value.value_bytes + value.exact_bytes
    what = f"{count(value.commits, 'commit')}: {size(value.raw_bytes)} of states in {size(kept)}"
    parts = [f"value layers {size(value.value_bytes)}", f"exact layers {size(value.exact_bytes)}"]
    if value.leant_bytes:
        parts.append(f"packs of commits that are gone, on which these lean {size(value.leant_bytes)}")
    if value.unreached_bytes:
        parts.append(f"packs that no branch, tag or HEAD needs {size(value.unreached_bytes)}")
    result = [f"{what} ({ratio(value.raw_bytes, kept)})", *wrapped("", [", ".join(parts)], screen)]
    if value.dropped:
        gone = f"the data of {count(value.dropped, 'commit')} were dropped, and count for nothing here"
        left = "; 'mvcs gc' deletes what is left of them" if value.unreached_bytes else ""
        result.append(f"{gone}{left}")
    if value.unused_bytes:
        unused = f"{size(value.unused_bytes)} of what commits that are gone left is unused"
        result.append(f"{unused}: where it is much, 'mvcs compact' rewrites the rest")
    if value.shared_bytes:
        result.append(f"sharing saves {size(value.shared_bytes)}: what is stored once and held again")
    if value.monthly is not None and value.price is not None:
        price = f"{_plain(value.price, 6)} a GB"
        result.append(f"a month costs {_amount(value.monthly)} at {price}: {size(value.stored_bytes)}")
    return result


def _amount(price: float) -> str:
    return f"{price:,.2f}" if price >= 0.995 else _plain(price, 2)


def _plain(price: float, digits: int) -> str:
    """Return a small price as people write it, without an exponent."""
    return f"{Decimal(f'{price:.{digits}g}'):f}"


def _classes(classes: Sequence["ClassSize"], total: int, screen: Screen) -> list[str]:
    rows = [("class", "raw", "stored", "ratio", "exact layers", "of all", "")]
    for item in classes:
        both = item.stored_bytes + item.exact_bytes
        part = both / total if total else 0.0
        smaller = ratio(item.raw_bytes, item.stored_bytes)
        sizes = size(item.raw_bytes), size(item.stored_bytes), smaller, size(item.exact_bytes)
        said = _WHAT.get(item.name, "")
        rows.append((printable(item.name), *sizes, share(part), bar(part, _BAR, screen) or said))
    return table(rows, "<>>>>><", screen, optional=(6,)) if classes else []


def _encodings(encodings: Sequence["EncodingSize"], screen: Screen) -> list[str]:
    rows = [("encoding", "entries", "decoded", "stored", "ratio")]
    rows += [
        (
            item.name,
            f"{item.entries:,}",
            size(item.raw_bytes),
            size(item.stored_bytes),
            ratio(item.raw_bytes, item.stored_bytes),
        )
        for item in encodings
    ]
    return table(rows, "<>>>>", screen) if encodings else []


def _branches(branches: Sequence["BranchSize"], screen: Screen) -> list[str]:
    rows = [("branch", "commits", "raw", "stored", "on no other branch")]
    rows += [
        (
            printable(item.name),
            f"{item.commits:,}",
            size(item.raw_bytes),
            size(item.stored_bytes),
            size(item.alone_bytes),
        )
        for item in branches
    ]
    return table(rows, "~>>>>", screen) if branches else []


def _last(high: int) -> str:
    return f"to {high - 1:,}"


def _histogram(
    title: str,
    bins: Sequence["Bin"],
    screen: Screen,
    low: Callable[[int], str],
    high: Callable[[int], str],
) -> list[str]:
    """Draw how many commits fall into each bin."""
    most = max((item.commits for item in bins), default=0)
    if not most:
        return []
    rows = [(title, "", "commits", "")]
    rows += [
        (
            low(item.low),
            "" if item.high == item.low + 1 else high(item.high),
            f"{item.commits:,}",
            bar(item.commits / most, _BAR, screen),
        )
        for item in bins
    ]
    return table(rows, "<<><", screen, styles=("", "", "", "bar"))


def _commits(title: str, commits: Sequence["CommitSize"], screen: Screen) -> list[str]:
    if not commits:
        return []
    rows = [(title, "step", "stored", "exact layer", "depth", "restore reads", "requests", "takes", "")]
    rows += [
        (
            item.short,
            "" if item.step is None else str(item.step),
            size(item.stored_bytes),
            size(item.exact_bytes) if item.exact_bytes else "-",
            str(item.depth),
            size(item.read_bytes),
            f"{item.requests:,}",
            "-" if item.seconds is None else seconds(item.seconds),
            printable(item.message),
        )
        for item in commits
    ]
    return table(rows, "<>>>>>>><", screen, styles=("id",), optional=(7, 6, 3))


def _meaning(commits: Sequence["CommitSize"]) -> list[str]:
    """Say what the figures of restores count, which other commands count otherwise."""
    if not commits:
        return []
    told = "of tensor data alone; 'mvcs show' and 'mvcs checkout --plan' count footers and trees too"
    lines = [f"restore reads, requests: {told}"]
    if any(item.seconds is None for item in commits):
        lines.append("takes -: this machine was not measured yet, which 'mvcs checkout --plan' does")
    return lines


def _months(months: Sequence["MonthSize"], screen: Screen) -> list[str]:
    priced = any(item.price is not None for item in months)
    if len(months) < 2 and not priced:
        return []
    rows = [("month", "commits", "added", "all by its end", "a month")]
    rows += [
        (
            item.month,
            f"{item.commits:,}",
            size(item.added_bytes),
            size(item.stored_bytes),
            "-" if item.price is None else _amount(item.price),
        )
        for item in months[-_MONTHS:]
    ]
    return table([row[: 5 if priced else 4] for row in rows], "<>>>>"[: 5 if priced else 4], screen)


def _freed(value: "StoreStats") -> list[str]:
    found = value.freeable
    parts = {
        "'mvcs gc' would free": found.gc,
        "once it is old enough": found.waiting or None,
        "'mvcs retention apply'": found.retention,
        "'mvcs compact'": found.compact,
    }
    told = [f"{what} {_signed(amount)}" for what, amount in parts.items() if amount is not None]
    return [", ".join(told)] if told else []


def _signed(amount: int) -> str:
    return size(amount) if amount >= 0 else f"would take {size(-amount)} more"
