"""What it takes to adopt the hook: few lines in a plain loop; through an adapter, with every option."""

import difflib
import inspect
import re
from pathlib import Path
from time import perf_counter

from mvcs.train import Checkpointer
from mvcs.train.choice.search import BoundingOptions
from mvcs.train.options import Cadences, CheckpointerOptions, Delivery, Process
from mvcs.train.saving.cadence import DEFAULT_EVERY

DEMO = Path(__file__).parents[2] / "docs" / "demo"
PARTS = {"scheduler", "scaler", "loader"}  # the framework's own


def test_a_plain_loop_changes_in_fewer_than_ten_lines() -> None:
    before, after = ((DEMO / name).read_text().splitlines() for name in ("train_plain.py", "train.py"))
    lines = difflib.unified_diff(before, after, n=0)
    changed = [line[1:] for line in lines if line.startswith("+") and not line.startswith("+++")]
    assert 0 < len([line for line in changed if line.strip()]) < 10


def test_every_option_is_listed_with_its_default_and_documented() -> None:
    listed = inspect.signature(Checkpointer).parameters
    assert inspect.signature(Checkpointer.__init__).parameters.keys() - listed.keys() == {"self"}
    named = {name: each.default for name, each in listed.items() if each.kind is each.KEYWORD_ONLY}
    bounding = set(BoundingOptions.__annotations__)
    assert named.keys() - PARTS == CheckpointerOptions.__annotations__.keys() - bounding
    assert [each.name for each in listed.values() if each.kind is each.VAR_KEYWORD] == ["bounding"]
    usual = {
        "queue": 1,
        "on_full": "wait",
        "on_commit": (),
        "rng": True,
        "final": True,
        "clock": perf_counter,
    }
    assert {name: default for name, default in named.items() if default is not None} == usual | {
        "clock": perf_counter
    }
    assert [listed[name].annotation for name in ("queue", "rng")] == [int, bool]
    text = (inspect.getdoc(Checkpointer) or "").partition("Args:")[2].partition("Attributes:")[0]
    documented = re.findall(r"^    (\w+): ", text, re.MULTILINE)
    assert sorted(documented) == sorted(listed)


def test_what_is_listed_is_what_an_option_is_by_default() -> None:
    listed = inspect.signature(Checkpointer).parameters
    process, delivery = Process.of({}), Delivery.of({})
    assert process == Process(*(listed[name].default for name in ("rng", "final", "clock")))
    assert (delivery.places, delivery.waits) == (listed["queue"].default, listed["on_full"].default == "wait")
    assert (delivery.branch, delivery.on_commit) == (None, listed["on_commit"].default)
    assert Cadences.of({}, process.clock).interval == DEFAULT_EVERY
