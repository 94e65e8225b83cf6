"""Rules as people give them: words and numbers in, rules out; what contradicts itself is refused."""

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from mvcs.errors import UsageError, no_option, whole
from mvcs.retention.rules import MICROSECONDS, UNITS, Keeps, Layer, Rule

_AGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhdw])")
_BEST = re.compile(r"([0-9]+):(?:(min|max):)?(.+)", re.DOTALL)
_LIMIT = 1 << 62  # what is no less would never be reached


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
