"""The policy of retention: held against a slow model, and against what must always be true."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mvcs.errors import NotFoundError, UnsupportedFormatError, UsageError
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.retention.policy import Facts, History, judge, keeps_nothing, unmatched
from mvcs.retention.rules import Keeps, Layer, Rule

NAMES = [object_id(Kind.COMMIT, b"%d" % number) for number in range(12)]


def rule(kind: Keeps, *arguments: object) -> Rule:
    return Rule(Layer.DATA, kind, arguments)  # type: ignore[arg-type]


COUNTS = st.integers(1, 6)
RULES = st.one_of(
    COUNTS.map(lambda n: rule(Keeps.LAST, n)),
    COUNTS.map(lambda n: rule(Keeps.EVERY, n)),
    st.tuples(COUNTS, st.sampled_from(["min", "max"])).map(lambda it: rule(Keeps.BEST, it[0], "loss", it[1])),
    st.integers(1, 50).map(lambda n: rule(Keeps.NEWER, n)),
    st.just(rule(Keeps.TAGGED)),
)
METRICS = st.dictionaries(st.just("loss"), st.sampled_from([0.0, 1.0, 2.5, math.inf, math.nan]))


@st.composite
def histories(draw: st.DrawFn) -> History:
    count = draw(st.integers(1, len(NAMES)))
    names = NAMES[:count]
    commits = [
        Facts(
            name,
            draw(st.none() | st.integers(0, 9)),
            draw(METRICS),
            {},
            draw(st.none() | st.integers(0, 60)),
            draw(st.none() | st.integers(0, 9)),
        )
        for name in names
    ]
    some = st.lists(st.sampled_from(names), unique=True)
    line = st.lists(st.sampled_from(names), min_size=1, unique=True)
    lines = {f"b{number}": draw(line) for number in range(draw(st.integers(1, 3)))}
    tags, pins = draw(some), draw(some)
    return History(
        commits,
        lines,
        dict.fromkeys(tags, "tag"),
        dict.fromkeys(pins, "why"),
        frozenset(draw(some)),
    )


def is_first_past(count: int, facts: Facts) -> bool:
    """Say slowly whether a commit is the first at or past a multiple."""

    def passed(step: int) -> int:
        return sum(multiple <= step for multiple in range(0, 100, count))

    if facts.step is None or facts.before is None:
        return facts.step is not None and (facts.step == 0 or passed(facts.step) > 1)
    return passed(facts.step) != passed(facts.before)


def is_wanted(found: Rule, history: History, facts: Facts) -> bool:
    """Say slowly whether a rule keeps a commit."""
    count = found.arguments[0] if found.arguments else None
    if found.kind == Keeps.LAST:
        return any(facts.id in line[:count] for line in history.lines.values())
    if found.kind == Keeps.EVERY:
        return is_first_past(count, facts)
    if found.kind == Keeps.NEWER:
        return facts.age is None or facts.age < count
    if found.kind == Keeps.TAGGED:
        return facts.id in history.tags
    order = [it.id for it in history.commits]

    def is_before(other: Facts) -> bool:
        theirs, ours = other.metrics.get("loss", math.nan), facts.metrics["loss"]
        better = theirs < ours if found.arguments[2] == "min" else theirs > ours
        return better or (theirs == ours and order.index(other.id) < order.index(facts.id))

    if math.isnan(facts.metrics.get("loss", math.nan)):
        return False
    return sum(map(is_before, history.commits)) < count


def judged(rules: list[Rule], history: History) -> dict[ObjectId, bool]:
    measured = any(not math.isnan(it.metrics.get("loss", math.nan)) for it in history.commits)
    assume(measured or all(it.kind != Keeps.BEST for it in rules))
    return {name: verdict.keeps for name, verdict in judge(rules, history).items()}


@given(st.lists(RULES, min_size=1, max_size=4), histories())
def test_what_is_kept_is_what_a_slow_reading_of_the_rules_keeps(rules: list[Rule], history: History) -> None:
    always = {line[0] for line in history.lines.values()} | set(history.pins) | history.heads
    for facts in history.commits:
        wanted = facts.id in always or any(is_wanted(it, history, facts) for it in rules)
        assert judged(rules, history)[facts.id] == wanted


@given(st.lists(RULES, min_size=1, max_size=4), histories())
def test_every_verdict_has_a_reason_and_order_says_nothing(rules: list[Rule], history: History) -> None:
    forth, back = judged(rules, history), judged(rules[::-1], history)
    assert forth == back
    for verdict in judge(rules, history).values():
        assert verdict.reasons
        assert verdict.keeps == (verdict.reasons != ("no rule keeps it",))


@given(st.lists(RULES, min_size=1, max_size=3), RULES, histories())
def test_one_rule_more_never_drops_more(rules: list[Rule], more: Rule, history: History) -> None:
    few, many = judged(rules, history), judged([*rules, more], history)
    assert all(many[name] for name, keeps in few.items() if keeps)


@given(histories())
def test_without_rules_nothing_goes(history: History) -> None:
    assert all(verdict.keeps for verdict in judge([], history).values())


def line(*facts: Facts, tip: str = "main") -> History:
    return History(facts, {tip: [it.id for it in facts]})


def test_reasons_name_what_keeps() -> None:
    history = History(
        [Facts(NAMES[0], 7, before=6), Facts(NAMES[1], 6, before=5), Facts(NAMES[2], 5, before=4)],
        {"main": NAMES[:3]},
        {},
        {NAMES[1]: "paper"},
        frozenset([NAMES[0]]),
    )
    found = judge([rule(Keeps.LAST, 1), rule(Keeps.EVERY, 3)], history)
    assert found[NAMES[0]].reasons == ("the tip of main", "HEAD stands on it", "the last 1 of main")
    assert found[NAMES[1]].reasons == ("pinned: paper", "every 3 steps")
    assert found[NAMES[2]].reasons == ("no rule keeps it",)


def test_a_metric_that_nobody_recorded_drops_nothing() -> None:
    history = line(Facts(NAMES[0], metrics={"acc": 1.0}), Facts(NAMES[1], metrics={"loss": math.nan}))
    with pytest.raises(NotFoundError, match="'loss'") as caught:
        judge([rule(Keeps.BEST, 1, "loss", "min"), rule(Keeps.LAST, 1)], history)
    assert "acc" in str(caught.value.hint)


def test_a_goal_comes_from_the_rule_or_the_commits_or_the_name() -> None:
    def kept(goal: str | None, name: str = "odd", goals: tuple[dict[str, str], ...] = ({}, {})) -> ObjectId:
        first, second = (
            Facts(found, metrics={name: value}, goals=told)
            for found, value, told in zip(NAMES[1:3], (1.0, 2.0), goals, strict=True)
        )
        verdicts = judge([rule(Keeps.BEST, 1, name, goal)], line(Facts(NAMES[0]), first, second))
        return next(found for found, verdict in verdicts.items() if verdict.rules)

    assert kept("min") == NAMES[1]
    assert kept("max") == NAMES[2]
    assert kept(None, goals=({"odd": "max"}, {})) == NAMES[2]
    assert kept(None, name="val_loss") == NAMES[1]
    with pytest.raises(UsageError, match="does not tell"):
        kept(None)
    with pytest.raises(UsageError, match="at others"):
        kept(None, goals=({"odd": "max"}, {"odd": "min"}))


def test_a_rule_of_a_later_version_drops_nothing() -> None:
    with pytest.raises(UnsupportedFormatError, match="later version"):
        judge([Rule(Layer.DATA, 9, ())], line(Facts(NAMES[0])))


def test_rules_that_keep_only_what_always_stays_keep_nothing() -> None:
    history = line(Facts(NAMES[0], 3), Facts(NAMES[1], 2))
    assert keeps_nothing(judge([rule(Keeps.LAST, 1)], history).values())
    assert keeps_nothing(judge([rule(Keeps.EVERY, 100)], history).values())
    assert not keeps_nothing(judge([rule(Keeps.EVERY, 2)], history).values())
    assert not keeps_nothing(judge([], history).values())


def test_a_run_that_never_commits_at_a_multiple_keeps_the_first_past_each() -> None:
    steps = list(range(19, 640, 20))
    facts = [Facts(object_id(Kind.COMMIT, b"%d" % step), step, before=step - 20) for step in steps]
    facts[0] = replace(facts[0], before=None)
    found = judge([rule(Keeps.EVERY, 200)], History(facts))
    assert [it.step for it in facts if found[it.id].keeps] == [219, 419, 619]


def test_rules_that_match_nothing_yet_are_told() -> None:
    history = line(Facts(NAMES[0], 7, before=6), Facts(NAMES[1], 6))
    rules = [rule(Keeps.LAST, 1), rule(Keeps.EVERY, 100), rule(Keeps.TAGGED), rule(Keeps.EVERY, 7)]
    assert unmatched(rules, history) == rules[1:3]
    assert unmatched(rules, History([])) == []
