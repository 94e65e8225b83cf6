"""What was measured of methods on runs: a folder of records, each of one checkpoint, whole or not there.

A record is a JSON file beside the payload that it is about (docs/format/ledger.md). Payloads are what a
killed comparison continues from: they are decoded again, in order, and give the state of the next checkpoint.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from blake3 import blake3

from mvcs.bench.bounded import Judged
from mvcs.errors import FileFormatError, NotFoundError
from mvcs.local_files import replace_file
from mvcs.reports import Report

LATTICE = "lattice"
"""mvcs's own bounded commits, whose records have no payloads: what they restore lies in a repository."""
RUN_FILE = "run.json"
_FORM = 1
_MAX_RECORD = 1 << 20
_MAX_SHARED = 1 << 28  # batches of all samples and checkpoints
_MAX_PAYLOAD = 1 << 36


@dataclass(frozen=True)
class Record(Report):
    """How one method did on one checkpoint.

    Attributes:
        step: of the checkpoint.
        setting: the value of each axis.
        kept: it was found by the search to keep the bound, or asked for as it is. Otherwise it is the finest
            setting, and breaks the bound.
        raw: bytes of the whole state.
        weights: bytes of its weights of two and more dimensions.
        stored: bytes for these: of the payload, or of its part for them.
        everything: bytes for the whole state: the payload, and what it does not have, stored exactly.
        by_class: bytes of `everything` by class: weights, kinds of moments, the rest.
        tested: settings that were evaluated.
        search: on the sample of the search, of the setting that was taken; None where nothing was evaluated.
        verify: on the sample that verifies the search.
        report: on the sample that results are about.
        encode: seconds of the processor.
        decode: likewise.
        memcpy: likewise, of copying as many bytes as the weights have.
        searched: seconds of the processor of the whole search, evaluations included.
        payload: BLAKE3 of the payload, and of all before it: what the next one continues.
    """

    step: int
    setting: Mapping[str, float | int | str]
    kept: bool
    raw: int
    weights: int
    stored: int
    everything: int
    by_class: Mapping[str, int]
    tested: int
    search: Judged | None
    verify: Judged
    report: Judged
    encode: float
    decode: float
    memcpy: float
    searched: float
    payload: str

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        samples = {name: _judged(row[name]) for name in ("verify", "report")}
        search = None if row["search"] is None else _judged(row["search"])
        return cls(**{**row, **samples, "search": search})


@dataclass(frozen=True)
class Series:
    """The records of one method at one bound, with one seed, in the order of steps.

    Attributes:
        folder: where they lie.
        method: its name; a fixed setting has its own behind a colon.
        version: of the method.
        bound: the degradation accepted; None where nothing is searched.
        seed: of what the method draws.
    """

    folder: Path = field(repr=False)
    method: str
    version: int
    bound: float | None
    seed: int

    @property
    def _place(self) -> Path:
        bound = "fixed" if self.bound is None else f"{self.bound:g}"
        name = self.method.replace(":", "-")
        return self.folder / f"{name}-v{self.version}-{bound}-{self.seed}"

    def begin(self) -> None:
        """Make the folder, and say what it is about."""
        self._place.mkdir(parents=True, exist_ok=True)
        replace_file(self._place / "series.json", _json(self.to_json()))

    def to_json(self) -> dict[str, Any]:
        """Return what it is about."""
        return {"method": self.method, "version": self.version, "bound": self.bound, "seed": self.seed}

    def find(self, step: int, before: str) -> tuple[Record, bytes] | None:
        """Return a record with its payload; None where it is not there, torn, or continues something else.

        Args:
            step: of the checkpoint.
            before: `payload` of the record before; empty for the first.
        """
        try:
            record = Record.read(json.loads(_bounded(self._record(step), _MAX_RECORD)))
            payload = _bounded(self._payload(step), _MAX_PAYLOAD)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return (record, payload) if record.payload == chained(before, payload) else None

    def add(self, record: Record, payload: bytes) -> None:
        """Write a record down, its payload first."""
        replace_file(self._payload(record.step), payload)
        replace_file(self._record(record.step), _json(record.to_json()))

    def records(self) -> list[Record]:
        """Return all records that are whole, in the order of steps."""
        found = []
        for path in self._place.glob("step_*.json"):
            try:
                found.append(Record.read(json.loads(_bounded(path, _MAX_RECORD))))
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return sorted(found, key=lambda one: one.step)

    def _record(self, step: int) -> Path:
        return self._place / f"step_{step:09}.json"

    def _payload(self, step: int) -> Path:
        return self._place / f"step_{step:09}.payload"


@dataclass(frozen=True)
class Ledger:
    """Everything that was measured on one run with one evaluation.

    Attributes:
        folder: a folder of the user's output folder.
        run: what it is about: where the checkpoints came from, their steps, how they were evaluated.
    """

    folder: Path
    run: Mapping[str, Any]

    @classmethod
    def of(cls, out: Path, source: str, content: str, steps: Iterable[int], judge: Mapping[str, Any]) -> Self:
        """Return the part of an output folder for one run and judge, which is made if it is not there.

        Args:
            out: the folder.
            source: where the checkpoints came from.
            content: a digest of them.
            steps: theirs.
            judge: what decides its numbers.
        """
        digest = blake3(json.dumps([content, judge]).encode()).hexdigest()
        folder = out / digest[:16]
        folder.mkdir(parents=True, exist_ok=True)
        about = {"source": source, "steps": list(steps), "judge": dict(judge)}
        found = cls(folder, {"form": _FORM, "digest": digest, **about})
        replace_file(folder / RUN_FILE, _json(found.run))
        return found

    @classmethod
    def all_in(cls, out: Path, *, required: bool = True) -> list[Self]:
        """Return the runs of an output folder.

        Raises:
            NotFoundError: there are none, and some are required.
            FileFormatError: the description of one is damaged.
        """
        found = [cls(path.parent, _described(path)) for path in sorted(out.glob(f"*/{RUN_FILE}"))]
        if required and not found:
            raise NotFoundError(
                f"'{out}' has no results", hint="'mvcs bench run DIR --out OUT' measures some"
            )
        return found

    def series(self, method: str, version: int, bound: float | None, seed: int) -> Series:
        """Return the records of a method, few or many."""
        return Series(self.folder, method, version, bound, seed)

    def all_series(self) -> Iterator[Series]:
        """Yield what there are records of."""
        for path in sorted(self.folder.glob("*/series.json")):
            row = _described(path)
            yield Series(self.folder, row["method"], row["version"], row["bound"], row["seed"])

    def skip(self, method: str, reason: str) -> None:
        """Say why a method could not be measured."""
        self.keep("skipped", {**(self.known("skipped") or {}), method: reason})

    def known(self, name: str) -> Any:  # noqa: ANN401  # anything that JSON has
        """Return what `keep` was given under a name; None where there is nothing, or something torn."""
        try:
            return json.loads(_bounded(self.folder / f"{name}.json", _MAX_SHARED))
        except (OSError, ValueError):
            return None

    def keep(self, name: str, value: object) -> None:
        """Keep what all methods share."""
        replace_file(self.folder / f"{name}.json", _json(value))


def chained(before: str, payload: bytes) -> str:
    """Return BLAKE3 of the digest of the payloads before, and this one."""
    hasher = blake3(before.encode())
    hasher.update(payload)
    return hasher.hexdigest()


def _judged(row: Mapping[str, Any]) -> Judged:
    """Return a sample's numbers; those that are not finite are texts in JSON."""
    error = row["standard_error"]
    return Judged(float(row["degradation"]), None if error is None else float(error))


def _bounded(path: Path, most: int) -> bytes:
    if path.stat().st_size > most:
        raise ValueError(f"'{path}' is too large")
    return path.read_bytes()


def _described(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(_bounded(path, _MAX_RECORD))
    except ValueError as error:
        raise FileFormatError(f"'{path}' is damaged", hint="remove its folder, and measure again") from error
    if not isinstance(found, dict):
        raise FileFormatError(f"'{path}' is damaged", hint="remove its folder, and measure again")
    return found


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()
