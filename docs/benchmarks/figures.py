"""Figures of docs/benchmarks.md in words: filters for its template."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Entry = dict[str, Any]
LEVELS = {"portable": "portable", "avx2": "AVX2", "avx512": "AVX-512", "neon": "NEON"}
ERRORS = 2  # standard errors by which a bound may seem to be passed
REVISION = 12  # letters of a revision that are shown
LEFT_OUT = ("RAW", "PLANES", "CODES")  # encodings that are never the smallest


def matching(ledger: Mapping[str, Entry], prefix: str) -> dict[str, Entry]:
    """Return the results whose names begin so."""
    return {name: entry for name, entry in ledger.items() if name.startswith(prefix)}


def without(commands: Mapping[str, str], ledger: Mapping[str, Entry]) -> dict[str, str]:
    """Return the commands that no result is of."""
    return {name: command for name, command in commands.items() if name not in ledger}


def about(entries: Iterable[Entry]) -> str:
    """Return when, where and at what load some results were measured, as a sentence."""
    found = list(entries)
    loads = [entry["machine"]["load"] for entry in found if entry["machine"]["load"] is not None]
    load = between(f"{each:.1f}" for each in sorted(loads))
    days = between(sorted(entry["date"] for entry in found))
    places = "; ".join(sorted({place(entry["machine"]) for entry in found}))
    at = ", ".join(
        sorted({(entry.get("revision") or "")[:REVISION] or "an unrecorded revision" for entry in found})
    )
    return f"Measured on {days} at {at}: {places}{load and f', load {load}'}."


def older(entries: Mapping[str, Entry]) -> str:
    """Return which of some results are older than the code that they measure, as a line; "" where none is."""
    names = [f"`{name}`" for name, entry in entries.items() if entry["older"]]
    return (
        f"**Older than the code:** {', '.join(names) if len(names) < len(entries) else 'all of it'}."
        if names
        else ""
    )


def paired(found: Mapping[str, Any], digits: int = 2) -> str:
    """Return the median of a ratio and its quartiles."""
    low, high = (f"{found[key]:.{digits}f}" for key in ("low", "high"))
    return f"{found['ratio']:.{digits}f}" + (f" ({low} to {high})" if low != high else "")


def between(ordered: Iterable[str]) -> str:
    """Return the first and the last of some texts, once where they are the same."""
    found = list(ordered)
    return " to ".join(dict.fromkeys((found[0], found[-1]))) if found else ""


def place(facts: Mapping[str, Any]) -> str:
    """Return the facts of a machine in words."""
    level = LEVELS.get(facts["instructions"], facts["instructions"])
    kind = f"{facts['cores']} cores ({facts['architecture']}, {level}), {facts['memory_gib']} GiB"
    return f"{kind}, Python {facts['python']}, torch {facts['torch']}"


def signed(value: float, digits: int = 2) -> str:
    """Return a change in percent with its sign."""
    return f"{100 * value:+.{digits}f} %"


def share(value: float, digits: int = 2) -> str:
    """Return a share in percent."""
    return f"{100 * value:.{digits}f} %"


def size(amount: float) -> str:
    """Return a number of bytes as people read it."""
    return f"{amount / 1e6:.2f} MB" if amount >= 1e5 else f"{amount / 1e3:.1f} kB"


def judged(commits: Iterable[Mapping[str, Any]], sample: str, bound: float) -> str:
    """Return how many commits keep the bound on a sample up to its error, their mean, and the worst."""
    found = [commit[sample] for commit in commits]
    kept = sum(one["degradation"] - ERRORS * (one["standard_error"] or 0) <= bound for one in found)
    worst = max(found, key=lambda one: one["degradation"])
    doubt = "" if worst["standard_error"] is None else f" ± {share(worst['standard_error'])}"
    mean = sum(one["degradation"] for one in found) / len(found)
    return f"{kept}, {signed(mean)}, {signed(worst['degradation'])}{doubt}"


def transitions(entries: Mapping[str, Entry]) -> list[Entry]:
    """Return the measured checkpoints of some runs, each with the name of its run."""
    return [
        {"run": entry["results"]["folder"]} | one
        for entry in entries.values()
        for one in entry["results"]["transitions"]
    ]


def rates(columns: list[Entry]) -> Iterator[tuple[str, str, list[Entry | None]]]:
    """Yield values, encoding, and what it makes of them at each checkpoint, None where there are none."""
    cells = [
        {(section["title"], row["name"]): row for section in column["sections"] for row in section["rows"]}
        for column in columns
    ]
    titles = dict.fromkeys(title for found in cells for title, _ in found)
    for title in titles:
        names = dict.fromkeys(name for found in cells for other, name in found if other == title)
        for index, name in enumerate(name for name in names if not name.startswith(LEFT_OUT)):
            yield "" if index else title, f"`{name}`", [found.get((title, name)) for found in cells]


FILTERS = {
    each.__name__: each
    for each in (matching, without, about, older, paired, signed, share, size, judged, transitions, rates)
}
