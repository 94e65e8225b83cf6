"""What a commit is: a tree, where it came from, what was measured, and how exact it is."""

import json
import math
from dataclasses import dataclass

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import cbor
from mvcs.objects.checked_fields import Pairs, as_list, recording
from mvcs.objects.commit_fields import EXACT, PARSERS, Extension
from mvcs.objects.ids import Kind, ObjectId, object_id

HOLDS_KEY, ONLY_WEIGHTS = (
    "holds",
    "weights",
)  # in the provenance of a commit that a run cannot be resumed from
MAX_COMMIT = 1 << 20  # bytes
RUN_KEY = "run"  # in the provenance of a training hook's commit: which run it belongs to
EVALUATION_CLASS = "evaluation"  # beside the errors of classes: how its quality was measured
PARTS_KEY = "parts"  # in the provenance of a run that has more weights than its model: what each part gets
NOT_EVALUATED = "not evaluated"  # in the provenance where quality could not be measured: why
OPTIMIZER_KEY, MOMENTS_KEY, TIERS_KEY = (
    "optimizer",
    "moments",
    "moment tiers",
)  # in the provenance of bounded commits: whose moments it has, and by which tiers
_GOAL = "metric.{}.goal"  # in the provenance where the writer knew which way a metric is better


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
        text = dict(self.provenance).get(TIERS_KEY)
        try:
            found = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            found = None
        pairs = found.items() if isinstance(found, dict) else ()
        return {name: tier for name, tier in pairs if isinstance(tier, str)}

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
