"""What it takes to adopt the hook: few lines in a plain loop; through an adapter, with every option."""

import difflib
import inspect
import typing
from pathlib import Path

from mvcs.train import Checkpointer
from mvcs.train.options import CheckpointerOptions

DEMO = Path(__file__).parents[2] / "docs" / "demo"
PARTS = {"scheduler", "scaler", "loader"}  # the framework's own


def test_a_plain_loop_changes_in_fewer_than_ten_lines() -> None:
    before, after = ((DEMO / name).read_text().splitlines() for name in ("train_plain.py", "train.py"))
    lines = difflib.unified_diff(before, after, n=0)
    changed = [line[1:] for line in lines if line.startswith("+") and not line.startswith("+++")]
    assert 0 < len([line for line in changed if line.strip()]) < 10


def test_adapters_pass_on_every_option() -> None:
    options = inspect.signature(Checkpointer).parameters
    (bounding,) = [name for name, option in options.items() if option.kind is option.VAR_KEYWORD]
    (bounds,) = typing.get_args(typing.get_type_hints(Checkpointer.__init__)[bounding])
    named = {name for name, option in options.items() if option.kind is option.KEYWORD_ONLY}
    assert set(CheckpointerOptions.__annotations__) == (named - PARTS) | set(bounds.__annotations__)
