"""A second demo removes what the first one made, and never what somebody made of it."""

import importlib
import io
from pathlib import Path
from types import ModuleType

import pytest

DEMO = Path(__file__).parents[2] / "docs" / "demo"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def place(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(DEMO)
    return importlib.import_module("place")


@pytest.fixture
def top(place, tmp_path) -> Path:
    made = tmp_path / "demo"
    place.make_room(made)
    (made / "run/.mvcs/refs/heads/main").mkdir(parents=True)
    (made / "run/.mvcs/refs/heads/main/99999999").write_text("a tip")
    (made / "run/.mvcs/lineage.sqlite").write_text("a cache")
    (made / "run/early.safetensors").write_text("weights")
    place.remember(made)
    return made


def test_what_nobody_touched_goes_without_a_question_looking_at_it_included(place, top):
    (top / "run/.mvcs/lineage.sqlite").write_text("another cache")
    place.make_room(top)
    assert [path.name for path in top.iterdir()] == [place.MARK]


@pytest.mark.parametrize(
    "changed", ["run/.mvcs/refs/heads/main/99999998", "run/new.pt", "clone/early.safetensors"]
)
def test_what_somebody_went_on_with_stays_where_nobody_can_answer(place, top, changed, capsys, monkeypatch):
    (top / changed).parent.mkdir(exist_ok=True)
    (top / changed).write_text("work")
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    with pytest.raises(place.DemoError, match="DEMO_DIR=PATH"):
        place.make_room(top)
    assert changed in capsys.readouterr().out
    assert (top / changed).read_text() == "work"


@pytest.mark.parametrize(
    ("answer", "stays"), [("", True), ("n", True), ("no", True), ("y", False), ("YES", False)]
)
def test_at_a_terminal_it_asks_and_only_yes_means_yes(place, top, answer, stays, monkeypatch):
    (top / "run/early.safetensors").write_text("work")
    monkeypatch.setattr("sys.stdin", Terminal(answer + "\n"))
    if stays:
        with pytest.raises(place.DemoError, match="stays as it is"):
            place.make_room(top)
    else:
        place.make_room(top)
    assert (top / "run").exists() is stays


def test_a_demo_that_was_killed_counts_as_work(place, tmp_path, monkeypatch):
    place.make_room(tmp_path / "demo")
    (tmp_path / "demo/run").mkdir()
    (tmp_path / "demo/run/file").write_text("half")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(place.DemoError, match="stays as it is"):
        place.make_room(tmp_path / "demo")


def test_a_folder_that_no_demo_made_is_never_removed(place, tmp_path, monkeypatch):
    (tmp_path / "thesis.tex").write_text("years")
    monkeypatch.setattr("sys.stdin", Terminal("yes\n"))
    with pytest.raises(place.DemoError, match="did not make"):
        place.make_room(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years"
