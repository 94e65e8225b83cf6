"""What a commit is, and what is said of it later: tags, which name it, and notes, which add metrics."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import cbor
from mvcs.objects.checked_fields import (
    Pairs,
    as_bool,
    as_float,
    as_integer,
    as_list,
    as_pairs,
    as_text,
    recording,
)
from mvcs.objects.ids import Kind, ObjectId, as_id, object_id

# in the provenance of a commit that a run cannot be resumed from
HOLDS_KEY, ONLY_WEIGHTS = "holds", "weights"
MAX_COMMIT = 1 << 20  # bytes
RUN_KEY = "run"  # in the provenance of a training hook's commit: which run it belongs to
EVALUATION_CLASS = "evaluation"  # beside the errors of classes: how its quality was measured
PARTS_KEY = "parts"  # in the provenance of a run that has more weights than its model: what each part gets
NOT_EVALUATED = "not evaluated"  # in the provenance where quality could not be measured: why
# in the provenance of bounded commits: whose moments it has, and by which tiers
OPTIMIZER_KEY, MOMENTS_KEY, TIERS_KEY = "optimizer", "moments", "moment tiers"
_GOAL = "metric.{}.goal"  # in the provenance where the writer knew which way a metric is better
EXACT, BOUNDED = "exact", "bounded"
MAX_PARENTS = 64
_TIME_LIMIT = 1 << 62

Extension = tuple[str, bool, cbor.Value]
"""What a later version says of a commit: a name, whether a reader has to know it, and a value."""


@dataclass(frozen=True)
class Commit:
    """One recorded state.

    Attributes:
        tree: id of what was committed.
        parents: ids of the commits it continues; the first is the one whose state it continued from.
        author: who made it.
        time: microseconds since 1970-01-01 UTC.
        message: what the author says of it.
        step: optimizer step, or None.
        metrics: name and value, in the order given; values may be NaN or infinite.
        exactness: "exact", or "bounded" when some leaf is quantized.
        lineage_exact: whether no state on the way here was restored lossily; None where nothing tells.
        restored_from: the bounded commit this state continued from, when that was lossy.
        quantized_against: the commit whose codes were the base; need not be a parent.
        quantizer: the quantization configuration, name and value.
        errors: measured numeric errors: leaf class, then name and value.
        degradation: measured loss of quality, relative; None when it was not measured.
        provenance: versions and settings worth keeping, name and value.
        extensions: what a newer version adds, kept as it is: name, whether a reader has to know it, value.
    """

    tree: ObjectId
    parents: tuple[ObjectId, ...]
    author: str
    time: int
    message: str
    step: int | None = None
    metrics: tuple[tuple[str, float], ...] = ()
    exactness: str = EXACT
    lineage_exact: bool | None = True
    restored_from: ObjectId | None = None
    quantized_against: ObjectId | None = None
    quantizer: Pairs | None = None
    errors: tuple[tuple[str, tuple[tuple[str, float], ...]], ...] = ()
    degradation: float | None = None
    provenance: Pairs = ()
    extensions: tuple[Extension, ...] = ()

    @property
    def weights_only(self) -> bool:
        """Whether it holds a model without what resuming needs beside it."""
        return (HOLDS_KEY, ONLY_WEIGHTS) in self.provenance

    @property
    def moment_tiers(self) -> dict[str, str]:
        """The tier of each optimizer by its name, where they differ; what is hostile tells nothing."""
        return {name: tier for name, tier in self.table(TIERS_KEY).items() if isinstance(tier, str)}

    def table(self, key: str) -> dict[str, object]:
        """Return the JSON object in the provenance under a key; what is hostile, or not there, is empty."""
        text = dict(self.provenance).get(key)
        try:
            found = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            found = None
        return found if isinstance(found, dict) else {}

    def encode(self) -> bytes:
        """Return the canonical content: an array of the fields in the order above.

        Raises:
            UsageError: a value is out of its field's range.
        """
        content = cbor.dumps(
            [
                self.tree,
                list(self.parents),
                self.author,
                self.time,
                self.message,
                self.step,
                [list(pair) for pair in self.metrics],
                self.exactness,
                self.lineage_exact,
                self.restored_from,
                self.quantized_against,
                None if self.quantizer is None else [list(pair) for pair in self.quantizer],
                [[name, [list(pair) for pair in sums]] for name, sums in self.errors],
                self.degradation,
                [list(pair) for pair in self.provenance],
                [list(extension) for extension in self.extensions],
            ]
        )
        with recording("this commit"):
            type(self).decode(content)
        return content

    @property
    def id(self) -> ObjectId:
        """The commit's id."""
        return object_id(Kind.COMMIT, self.encode())

    @classmethod
    def decode(cls, content: bytes | memoryview) -> "Commit":
        """Read canonical content.

        Raises:
            CorruptionError: it is not a commit.
            UnsupportedFormatError: it has something that this version does not know, and has to.
        """
        parsed = {name: PARSERS[name](value) for name, value in named_fields(content)}
        return cls(**parsed)  # type: ignore[arg-type]  # each parser returns its own field's type

    def metric(self, name: str) -> float | None:
        """Return a metric by name; None when it is absent or NaN."""
        value = dict(self.metrics).get(name)
        return None if value is None or math.isnan(value) else value

    def goal(self, name: str) -> str | None:
        """Return which way a metric is better, "min" or "max"; None where this commit does not tell."""
        goal = dict(self.provenance).get(_GOAL.format(name))
        return goal if isinstance(goal, str) and goal in ("min", "max") else None


def named_fields(content: bytes | memoryview) -> list[tuple[str, cbor.Value]]:
    """Return the fields of a commit's canonical content with their names, none of them looked at.

    Raises:
        CorruptionError: it is not a commit, or larger than one may be.
        UnsupportedFormatError: it has more or fewer.
    """
    if len(content) > MAX_COMMIT:
        raise CorruptionError(f"a commit takes {len(content)} bytes, more than {MAX_COMMIT}")
    values, names = as_list(cbor.loads(content), "a commit"), list(Commit.__dataclass_fields__)
    if len(values) != len(names):
        raise UnsupportedFormatError("a commit does not have the fields of format 1")
    return list(zip(names, values, strict=True))


def goal_pair(name: str, goal: str) -> tuple[str, str]:
    """Return the pair of the provenance that tells which way a metric is better."""
    return _GOAL.format(name), goal


@dataclass(frozen=True)
class Tag:
    """A lasting name for a commit.

    Attributes:
        target: the commit.
        author: who named it.
        time: microseconds since 1970-01-01 UTC.
        message: why.
    """

    target: ObjectId
    author: str
    time: int
    message: str

    def encode(self) -> bytes:
        """Return the canonical content.

        Raises:
            UsageError: a value is out of its field's range.
        """
        content = cbor.dumps([self.target, self.author, self.time, self.message])
        with recording("this tag"):
            Tag.decode(content)
        return content

    @property
    def id(self) -> ObjectId:
        """The tag's id."""
        return object_id(Kind.TAG, self.encode())

    @classmethod
    def decode(cls, content: bytes) -> "Tag":
        """Read canonical content.

        Raises:
            CorruptionError: it is not a tag.
        """
        target, author, time, message = as_list(cbor.loads(content), "a tag", 4)
        return cls(
            as_id(target), as_text(author, "a tag"), as_integer(time, "a tag"), as_text(message, "a tag")
        )


@dataclass(frozen=True)
class Note:
    """Metrics learned after a commit was made.

    Attributes:
        target: the commit.
        metrics: name and value.
        author: who adds them.
        time: microseconds since 1970-01-01 UTC.
    """

    target: ObjectId
    metrics: tuple[tuple[str, float], ...]
    author: str
    time: int

    def encode(self) -> bytes:
        """Return the canonical content.

        Raises:
            UsageError: a value is out of its field's range.
        """
        metrics: list[cbor.Value] = [list(pair) for pair in self.metrics]
        content = cbor.dumps([self.target, metrics, self.author, self.time])
        with recording("this note"):
            Note.decode(content)
        return content

    @property
    def id(self) -> ObjectId:
        """The note's id."""
        return object_id(Kind.NOTE, self.encode())

    @classmethod
    def decode(cls, content: bytes) -> "Note":
        """Read canonical content.

        Raises:
            CorruptionError: it is not a note.
        """
        target, metrics, author, time = as_list(cbor.loads(content), "a note", 4)
        pairs = metric_pairs(metrics, "a note's metrics")
        return cls(as_id(target), pairs, as_text(author, "a note"), as_integer(time, "a note"))


def metric_pairs(value: object, what: str) -> tuple[tuple[str, float], ...]:
    """Check decoded `[name, float]` pairs."""
    return tuple((name, as_float(number, what)) for name, number in as_pairs(value, what))


def _time(value: object) -> int:
    return as_integer(value, "a commit's time", -_TIME_LIMIT, _TIME_LIMIT)


def _step(value: object) -> int | None:
    return None if value is None else as_integer(value, "a commit's step", -(1 << 63))


def _optional_id(value: object) -> ObjectId | None:
    return None if value is None else as_id(value)


def _exactness(value: object) -> str:
    if value not in (EXACT, BOUNDED):
        raise UnsupportedFormatError(f"a commit is exact in a way this version does not know: {value!r}")
    return value


def _errors(value: object) -> tuple[tuple[str, tuple[tuple[str, float], ...]], ...]:
    what = "a commit's errors"
    return tuple((name, metric_pairs(sums, what)) for name, sums in as_pairs(value, what))


def _extensions(value: object) -> tuple[Extension, ...]:
    what = "an extension of a commit"
    found = []
    for item in as_list(value, "a commit's extensions"):
        name, required, content = as_list(item, what, 3)
        found.append((as_text(name, what), as_bool(required, what), content))
        if required:
            raise UnsupportedFormatError(
                f"a commit has {name!r}, which this version has to know and does not",
                hint="a newer mvcs wrote it; upgrade and try again",
            )
    if len({name for name, _, _ in found}) != len(found):
        raise CorruptionError("a commit names an extension twice")
    return tuple(found)


def _parents(value: object) -> tuple[ObjectId, ...]:
    named = as_list(value, "a commit's parents")
    if len(named) > MAX_PARENTS:
        raise CorruptionError(f"a commit has {len(named)} parents, more than {MAX_PARENTS}")
    parents = tuple(map(as_id, named))
    if len(set(parents)) != len(parents):
        raise CorruptionError("a commit names a parent twice")
    return parents


PARSERS: Final[Mapping[str, Callable[[object], object]]] = {
    "tree": as_id,
    "parents": _parents,
    "author": lambda value: as_text(value, "a commit's author"),
    "time": _time,
    "message": lambda value: as_text(value, "a commit's message"),
    "step": _step,
    "metrics": lambda value: metric_pairs(value, "a commit's metrics"),
    "exactness": _exactness,
    "lineage_exact": lambda value: None if value is None else as_bool(value, "a commit's lineage_exact"),
    "restored_from": _optional_id,
    "quantized_against": _optional_id,
    "quantizer": lambda value: None if value is None else as_pairs(value, "a commit's quantizer"),
    "errors": _errors,
    "degradation": lambda value: None if value is None else as_float(value, "a commit's degradation"),
    "provenance": lambda value: as_pairs(value, "a commit's provenance"),
    "extensions": _extensions,
}
