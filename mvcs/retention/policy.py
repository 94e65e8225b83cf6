"""The policy of retention: facts of commits in, keep or drop with the reasons out. It reads nothing."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mvcs.errors import NotFoundError, UnsupportedFormatError, UsageError, some_of
from mvcs.history import goal_of
from mvcs.objects import ObjectId
from mvcs.retention.rules import Keeps, Rule

_NAMED = 10
_BRANCHES = 3


@dataclass(frozen=True)
class Facts:
    """What rules go by, of one commit.

    Attributes:
        id: the commit.
        step: its step; None without one.
        metrics: by name, those of notes included.
        goals: whether a metric is better high or low, as far as the commit tells.
        before: the step of its nearest first parent that has one; None without, or where no rule asks.
        age: microseconds since the file that ends it was written, by the store's clock; None where it is not
            known, or no rule asks.
    """

    id: ObjectId
    step: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    goals: Mapping[str, str] = field(default_factory=dict)
    age: int | None = None
    before: int | None = None

    def is_first_past(self, every: int) -> bool:
        """Tell whether it is the first commit of its line at or past a multiple of so many steps."""
        if self.step is None:
            return False
        if self.before is None:
            return self.step == 0 or self.step >= every
        return self.step // every != self.before // every


@dataclass(frozen=True)
class History:
    """What rules go by, of a store.

    Attributes:
        commits: every commit that is judged, the newest first.
        lines: by branch, its commits along first parents from its tip.
        tags: by commit, a tag that names it.
        pins: by commit, why it is pinned.
        heads: commits that a HEAD stands on.
    """

    commits: Sequence[Facts]
    lines: Mapping[str, Sequence[ObjectId]] = field(default_factory=dict)
    tags: Mapping[ObjectId, str] = field(default_factory=dict)
    pins: Mapping[ObjectId, str] = field(default_factory=dict)
    heads: frozenset[ObjectId] = frozenset()


@dataclass(frozen=True)
class Verdict:
    """What becomes of a layer of one commit.

    Attributes:
        always: why it is kept whatever the rules say.
        rules: which rules keep it.
        for_layer: whether it is data that an exact layer needs which stays.
    """

    always: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    for_layer: bool = False

    @property
    def keeps(self) -> bool:
        """Whether the layer stays."""
        return bool(self.always or self.rules or self.for_layer)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it stays, or why not."""
        needed = ("its exact layer is kept",) if self.for_layer else ()
        return (*self.always, *self.rules, *needed) or ("no rule keeps it",)


def judge(rules: Sequence[Rule], history: History) -> dict[ObjectId, Verdict]:
    """Return what becomes of every commit by the rules of one layer; without rules everything stays.

    Raises:
        UnsupportedFormatError: a rule is a later version's.
        NotFoundError: nobody recorded the metric of a rule.
        UsageError: whether a metric is better high or low, nothing tells.
    """
    always = _always(history)
    if not rules:
        return {found.id: Verdict(tuple(always[found.id]), ("no rule is set",)) for found in history.commits}
    kept: dict[ObjectId, list[str]] = {found.id: [] for found in history.commits}
    for rule in rules:
        for identifier, why in _reasons(rule, history).items():
            if identifier in kept:
                kept[identifier].append(why)
    return {key: Verdict(tuple(always[key]), tuple(dict.fromkeys(texts))) for key, texts in kept.items()}


def kept_anywhere(rules: Sequence[Rule], history: History) -> set[ObjectId]:
    """Return what branches, tags, pins and HEADs name and keep, though it be none of the commits judged."""
    found = {line[0] for line in history.lines.values() if line} | history.pins.keys() | history.heads
    for rule in rules:
        if rule.kind in {Keeps.LAST, Keeps.TAGGED}:
            found.update(_kept_by(rule, history))
    return found


def unmatched(rules: Sequence[Rule], history: History) -> list[Rule]:
    """Return the rules that keep no commit yet: whoever set one may have meant something else."""
    if not history.commits:
        return []
    names = {found.id for found in history.commits}
    return [rule for rule in rules if names.isdisjoint(_kept_by(rule, history))]


def keeps_nothing(verdicts: Iterable[Verdict]) -> bool:
    """Tell whether rules keep nothing beyond what always stays, and something goes."""
    found = list(verdicts)
    return any(not each.keeps for each in found) and all(each.always or not each.keeps for each in found)


def _always(history: History) -> dict[ObjectId, list[str]]:
    found: dict[ObjectId, list[str]] = {facts.id: [] for facts in history.commits}
    for branch, line in history.lines.items():
        if line and line[0] in found:
            found[line[0]].append(f"the tip of {branch}")
    for identifier, reason in history.pins.items():
        if identifier in found:
            found[identifier].append(f"pinned: {reason}" if reason else "pinned")
    for identifier in history.heads:
        if identifier in found:
            found[identifier].append("HEAD stands on it")
    return found


def _reasons(rule: Rule, history: History) -> dict[ObjectId, str]:
    """Return why a rule keeps each commit that it does: of which branches it is one of the last."""
    if rule.kind != Keeps.LAST:
        return dict.fromkeys(_kept_by(rule, history), rule.text)
    branches: dict[ObjectId, list[str]] = {}
    for branch, line in history.lines.items():
        for identifier in line[: rule.count]:
            branches.setdefault(identifier, []).append(branch)
    last = f"the last {rule.count} of "
    return {key: last + some_of(names, _BRANCHES, " and of ") for key, names in branches.items()}


def _kept_by(rule: Rule, history: History) -> Iterator[ObjectId]:
    if rule.kind == Keeps.LAST:
        for line in history.lines.values():
            yield from line[: rule.count]
    elif rule.kind == Keeps.EVERY:
        yield from (it.id for it in history.commits if it.is_first_past(rule.count))
    elif rule.kind == Keeps.BEST:
        yield from best(rule, history.commits)
    elif rule.kind == Keeps.NEWER:
        yield from (it.id for it in history.commits if it.age is None or it.age < rule.count)
    elif rule.kind == Keeps.TAGGED:
        yield from history.tags
    else:
        raise UnsupportedFormatError(
            f"{rule.text} decides what is kept, so nothing is dropped", hint="upgrade mvcs"
        )


def best(rule: Rule, commits: Sequence[Facts]) -> list[ObjectId]:
    """Return the best by a metric, the best first; of equal ones the later commits come first.

    Raises:
        NotFoundError: nobody recorded it.
        UsageError: whether it is better high or low, nothing tells.
    """
    name = rule.metric
    measured = [it for it in commits if not math.isnan(it.metrics.get(name, math.nan))]
    if not measured:
        raise _nobody_recorded(name, commits)
    sign = -1 if (rule.goal or _goal(name, measured)) == "max" else 1
    ranked = sorted(measured, key=lambda it: sign * it.metrics[name])  # stable: later commits first
    return [it.id for it in ranked[: rule.count]]


def _goal(name: str, measured: Sequence[Facts]) -> str:
    recorded = {it.goals[name] for it in measured if name in it.goals}
    if len(recorded) > 1:
        raise UsageError(
            f"a low '{name}' is better at some commits, and a high one at others, so nothing is dropped",
            hint=f"--best K:min:{name} or --best K:max:{name} tells which is meant",
        )
    goal = next(iter(recorded), None) or goal_of(name)
    if goal is None:
        raise UsageError(
            f"whether a high or a low '{name}' is better, its name does not tell",
            hint=f"--best K:min:{name} or --best K:max:{name} tells",
        )
    return goal


def _nobody_recorded(name: str, commits: Sequence[Facts]) -> NotFoundError:
    names = sorted({metric for it in commits for metric in it.metrics})
    there = f"there are {some_of(names, _NAMED)}" if names else "no commit has a metric"
    if ":" in name:
        there += "; which way is better stands before the name, as min or max: 3:max:val_acc"
    return NotFoundError(f"no commit has the metric '{name}', so nothing is dropped", hint=there)
