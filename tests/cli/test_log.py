"""`mvcs log`: which commits it lists, and what it says of each."""

import pytest

from tests.cli.conftest import Console


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A repository that is only looked at: two files and a folder that change in turn, by two authors."""
    console = Console(tmp_path_factory.mktemp("log"))
    console("init")
    console.model("model.safetensors")
    console.model("ckpt/a.safetensors")
    (console.folder / "notes.txt").write_text("first")
    console("commit", ".", "-m", "all", "--author", "Ada")
    console.model("model.safetensors", shift=0.5)
    console("commit", "model.safetensors", "-m", "model\n\nlr 0.1", "--author", "Grace <g@x>")
    (console.folder / "notes.txt").write_text("second")
    console("commit", "notes.txt", "-m", "notes", "--author", "Ada")
    console("tag", "v1")
    console.model("ckpt/b.safetensors", shift=1)
    console("commit", "ckpt", "-m", "folder (b)", "--author", "Grace <g@x>", "--bins", 8)
    console("rm", "notes.txt", "-m", "gone", "--author", "Ada")
    return console


def messages(console, *words):
    return [commit["message"].splitlines()[0] for commit in console("log", "--json", *words).json]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("-2",), ["gone", "folder (b)"]),
        (("-n", "2"), ["gone", "folder (b)"]),
        (("model.safetensors",), ["model", "all"]),
        (("--", "model.safetensors"), ["model", "all"]),
        (("HEAD", "--", "./notes.txt"), ["gone", "notes", "all"]),
        (("v1", "ckpt"), ["all"]),
        (("-1", "ckpt"), ["folder (b)"]),
        (("ckpt/b.safetensors", "model.safetensors"), ["folder (b)", "model", "all"]),
        (("--", "never.txt"), []),
        (("v1", "HEAD~3"), ["notes", "model", "all"]),
        (("--author", "Grace"), ["folder (b)", "model"]),
        (("--grep", "^lr [0-9.]+$"), ["model"]),
        (("--grep", "MODEL|Gone", "-i", "--author", "ada"), ["gone"]),
        (("--since", "1 hour ago", "--until", "now", "-1"), ["gone"]),
        (("--since", "1 week", "--before", "2.hours.ago"), []),
        (("--after=2100-01-01",), []),
        (("--all", "--until", "today", "-1", "--", "notes.txt"), ["gone"]),
    ],
)
def test_which_commits_are_listed(runs, words, found):
    assert messages(runs, *words) == found


def test_a_file_is_named_from_where_one_stands(runs):
    assert messages(Console(runs.folder / "ckpt"), "b.safetensors") == ["folder (b)"]
    assert messages(Console(runs.folder / "ckpt"), "../model.safetensors") == ["model", "all"]


def test_a_word_that_is_nothing_is_answered(runs):
    error = runs("log", "notes.txt", "--json", code=3).error
    assert "-- notes.txt" in error["hint"]
    assert runs("log", "main", "notes.txt", "--", "model.safetensors", code=3)
    for words in (("--since", "soon"), ("--grep", "("), ("--", "../elsewhere")):
        runs("log", *words, code=2)
