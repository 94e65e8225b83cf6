"""Rules of retention as they are recorded: what each keeps, in a numbered record that has all in force.

`docs/format/retention.md` is the specification.
"""

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypedDict

from mvcs.errors import CorruptionError, UsageError, no_option, whole
from mvcs.objects import MAX_NUMBER, as_integer, as_list, as_text, cbor, seal, unseal
from mvcs.retention.record_row import RecordRow
from mvcs.store import Backend

FOLDER = "retention/rules"
MAX_RECORD = 1 << 14
_MAGIC = b"MVCSRUL1"
_TIME_LIMIT = 1 << 62
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_GOALS = ("min", "max", None)
MICROSECONDS = 1_000_000
UNITS = {"w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1}
"""Seconds of what ages are given in, the longest first."""
_AGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhdw])")
_BEST = re.compile(r"([0-9]+):(?:(min|max):)?(.+)", re.DOTALL)
_LIMIT = 1 << 62  # what is no less would never be reached


class Layer(IntEnum):
    """What a rule keeps of a commit."""

    EXACT = 0
    DATA = 1

    @property
    def text(self) -> str:
        """What people call it."""
        return "exact layer" if self is Layer.EXACT else "data"


class Keeps(IntEnum):
    """The kinds of rules that this version knows."""

    LAST = 0
    EVERY = 1
    BEST = 2
    NEWER = 3
    TAGGED = 4


@dataclass(frozen=True)
class Rule:
    """One rule: a commit keeps a layer when any rule of that layer keeps it.

    Attributes:
        layer: what it is about, as in `Layer`.
        kind: as in `Keeps`; another number is a later version's.
        arguments: as the page says for each kind.
    """

    layer: int
    kind: int
    arguments: tuple[cbor.Value, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether this version knows what it keeps."""
        return self.kind in tuple(Keeps)

    @property
    def keeps_tags(self) -> bool:
        """Whether it may keep what tags name; a later version's may."""
        return self.kind == Keeps.TAGGED or not self.is_known

    @property
    def text(self) -> str:
        """The rule in words."""
        if self.kind == Keeps.LAST:
            return f"the last {self.count} of each branch"
        if self.kind == Keeps.EVERY:
            return "every step" if self.count == 1 else f"every {self.count} steps"
        if self.kind == Keeps.BEST:
            return f"the {self.count} best by {self.metric}" + (f" ({self.goal})" if self.goal else "")
        if self.kind == Keeps.NEWER:
            return f"newer than {age_text(self.count)}"
        return "tagged" if self.kind == Keeps.TAGGED else f"a rule of a later version (number {self.kind})"

    @property
    def count(self) -> int:
        """How many it keeps; the step that others are multiples of; or an age in microseconds."""
        return as_integer(self.arguments[0], "a rule's number", 1)

    @property
    def metric(self) -> str:
        """The metric by which it keeps the best."""
        return as_text(self.arguments[1], "a rule's metric")

    @property
    def goal(self) -> str | None:
        """Whether a low or a high metric is better; None where the commits tell."""
        goal = self.arguments[2]
        return goal if isinstance(goal, str) else None

    @property
    def value(self) -> cbor.Value:
        """The form in a record."""
        return [int(self.layer), int(self.kind), list(self.arguments)]

    @classmethod
    def from_value(cls, value: cbor.Value) -> "Rule":
        """Read the form in a record.

        Raises:
            CorruptionError: it is malformed, or arguments do not fit a kind that is known.
        """
        layer, kind, arguments = as_list(value, "a rule", 3)
        made = cls(
            as_integer(layer, "a rule's layer", 0, 256),
            as_integer(kind, "a rule's number", 0, 1 << 32),
            tuple(as_list(arguments, "a rule's arguments")),
        )
        _check(made)
        return made


def _check(rule: Rule) -> None:
    counts = {Keeps.LAST: 1, Keeps.EVERY: 1, Keeps.BEST: 3, Keeps.NEWER: 1, Keeps.TAGGED: 0}
    if not rule.is_known:
        return
    arguments = as_list(list(rule.arguments), "a rule's arguments", counts[Keeps(rule.kind)])
    if arguments:
        as_integer(arguments[0], "a rule's number", 1)
    if rule.kind == Keeps.BEST:
        as_text(arguments[1], "a rule's metric")
        if arguments[2] not in _GOALS:
            raise CorruptionError(f"a rule has the goal {arguments[2]!r}")


@dataclass(frozen=True)
class RuleRecord:
    """All rules in force from a time on.

    Attributes:
        number: 0 for the first of the store.
        rules: what is kept; of a layer without rules nothing is decided here.
        time: microseconds since 1970-01-01 UTC.
        author: who set them.
    """

    number: int
    rules: tuple[Rule, ...]
    time: int
    author: str

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return seal(_MAGIC, [self.number, [rule.value for rule in self.rules], self.time, self.author])

    @classmethod
    def decode(cls, data: bytes) -> "RuleRecord":
        """Read the bytes of a record.

        Raises:
            CorruptionError: they are damaged.
            UnsupportedFormatError: another version wrote them.
        """
        what = "a record of rules"
        number, rules, time, author = as_list(unseal(_MAGIC, data, what, MAX_RECORD), what, 4)
        return cls(
            as_integer(number, "a record's number", 0, MAX_NUMBER + 1),
            tuple(map(Rule.from_value, as_list(rules, "rules"))),
            as_integer(time, "a record's time", -_TIME_LIMIT, _TIME_LIMIT),
            as_text(author, "a record's author"),
        )

    def of(self, layer: Layer) -> tuple[Rule, ...]:
        """Return the rules of one layer."""
        return tuple(rule for rule in self.rules if rule.layer == layer)


def rules_row(backend: Backend) -> RecordRow[RuleRecord]:
    """Return the records of rules of a store."""
    return RecordRow(backend, FOLDER, "a record of rules", RuleRecord.decode, MAX_RECORD)


def set_rules(backend: Backend, layer: Layer, rules: Sequence[Rule], time: int, author: str) -> RuleRecord:
    """Put other rules of one layer in force; those of the other layer stay."""

    def make(newest: RuleRecord | None, number: int) -> RuleRecord:
        others = [rule for rule in (newest.rules if newest else ()) if rule.layer != layer]
        found = sorted((*others, *rules), key=lambda rule: rule.layer)
        return RuleRecord(number, tuple(found), time, author)

    return rules_row(backend).append(make)


def time_text(microseconds: int) -> str:
    """Return a time of a record for people."""
    try:
        told = _EPOCH + dt.timedelta(microseconds=microseconds)
    except OverflowError:
        return "an impossible date"
    return f"{told:%Y-%m-%d %H:%M} UTC"


def age_text(microseconds: int) -> str:
    """Return a length of time as `--newer` takes it, in the largest unit that fits."""
    seconds = microseconds / MICROSECONDS
    for unit, size in UNITS.items():
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:g}s"


class RuleWords(TypedDict, total=False):
    """The rules of one layer, as people give them.

    Attributes:
        last: the last so many of each branch.
        every: the first commit at or past each multiple of so many steps, or of each of these.
        best: the best by a metric: `K:METRIC`, `K:min:METRIC` or `K:max:METRIC`.
        newer: an age, such as `14d`.
        tagged: whether what a tag names is kept.
    """

    last: int | Sequence[int]
    every: int | Sequence[int]
    best: str | Sequence[str]
    newer: str | dt.timedelta | Sequence[str]
    tagged: bool


def rules_from(layer: Layer, words: RuleWords, goals: Mapping[str, str]) -> tuple[Rule, ...]:
    """Return the rules of one layer.

    Args:
        layer: which one.
        words: as people give them.
        goals: which way metrics are better, `min` or `max`, where a rule does not say so. It is recorded,
            since a store is applied to by clones that know other goals, or none.

    Raises:
        UsageError: a number, an age or a metric is none, or two contradict each other.
    """
    for name in words.keys() - RuleWords.__annotations__.keys():
        raise no_option(name, tuple(RuleWords.__annotations__))
    last, every, newer = (_several(words.get(name, ())) for name in ("last", "every", "newer"))
    found = [Rule(layer, Keeps.LAST, (_count("last", it),)) for it in _once("last", last)]
    found += [Rule(layer, Keeps.EVERY, (_count("every", it),)) for it in dict.fromkeys(every)]
    found += _best(layer, _several(words.get("best", ())), goals)
    found += [Rule(layer, Keeps.NEWER, (parse_age(it),)) for it in _once("newer", newer)]
    found += [Rule(layer, Keeps.TAGGED)] if words.get("tagged", False) else []
    return tuple(found)


def _several(value: Any) -> Sequence[Any]:  # noqa: ANN401 - one, or several
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _once(name: str, values: Sequence[Any]) -> Sequence[Any]:
    distinct = list(dict.fromkeys(values))
    if len(distinct) > 1:
        raise UsageError(
            f"'{name}' is given twice, as {' and '.join(map(str, distinct))}",
            hint="rules add up: the larger one alone says the same as both",
        )
    return distinct


def _count(name: str, value: Any) -> int:  # noqa: ANN401 - checked here
    found = whole(name, value, f"'{name}' needs a whole number from 1")
    if found >= _LIMIT:
        raise UsageError(
            f"'{name}' cannot be {value!r}", hint="such a large number is never reached: leave it out"
        )
    return found


def _best(layer: Layer, words: Iterable[Any], goals: Mapping[str, str]) -> list[Rule]:
    found: dict[str, Rule] = {}
    for word in words:
        match = _BEST.fullmatch(str(word))
        if match is None:
            raise UsageError(f"'{word}' is not of the form K:METRIC", hint="such as 3:val_loss")
        count, goal, name = match.groups()
        rule = Rule(layer, Keeps.BEST, (_count("best", int(count)), name, goal or goals.get(name)))
        if found.setdefault(name, rule) != rule:
            raise UsageError(
                f"two rules contradict each other: {found[name].text}, and {rule.text}",
                hint="give one rule for each metric",
            )
    return list(found.values())


def parse_age(value: str | dt.timedelta) -> int:
    """Return an age in microseconds, given as `14d`, `36h`, `2w`, `90m` or `30s`, or as a length of time.

    Raises:
        UsageError: it is none.
    """
    if isinstance(value, dt.timedelta):
        microseconds = round(value.total_seconds() * MICROSECONDS)
    else:
        match = _AGE.fullmatch(str(value).strip())
        microseconds = round(float(match[1]) * UNITS[match[2]] * MICROSECONDS) if match else 0
    if not 0 < microseconds < _LIMIT:
        raise UsageError(f"'{value}' is not an age", hint=_meant(str(value)) or "such as 14d, 36h or 2w")
    return microseconds


def _meant(word: str) -> str:
    """Ask whether days are meant by a number without a unit."""
    return f"did you mean '{word.strip()}d'?" if _AGE.fullmatch(f"{word.strip()}d") else ""
