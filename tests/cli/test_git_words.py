"""What somebody types who knows git: it works, or the answer says what to type instead."""

import contextlib
import importlib.metadata
import re
import shlex
from pathlib import Path

import click

from mvcs.cli.foreign_words import COMMANDS, OPTIONS
from mvcs.cli.group import NAMES, root
from tests.cli.conftest import Console
from tests.cli.page import commands, help_text
from tests.cli.test_files import digest

PAGE = Path(__file__).parent.parent.parent / "docs" / "from-git.md"


def said(result):
    """The one line of an error that needs no hint."""
    (line,) = result.err.splitlines()
    assert result.raw == b""
    return line.removeprefix("mvcs: error: ")


def test_a_command_of_git_that_is_not_there_says_in_one_line_what_to_type_instead(console):
    for words, answer in COMMANDS.items():
        assert said(console(*words.split(), "x", code=2)) == answer
        assert said(console("help", *words.split(), code=2)) == answer
        assert "did you mean" not in answer
    assert not set(COMMANDS) & set(NAMES)
    assert not re.search(r"^  (stash|rebase|add)\b", root.get_help(click.Context(root)), re.MULTILINE)


def test_an_option_of_git_that_is_not_there_says_in_one_line_what_to_type_instead(console):
    known = {context.command_path.partition(" ")[2]: command for context, command in commands()}
    for (command, option), answer in OPTIONS.items():
        if command in known:
            assert said(console(*command.split(), option, "x", code=2)) == answer
            assert option not in [name for param in known[command].params for name in param.opts]
    assert said(console("commit", "-pm", "message", code=2)) == OPTIONS["commit", "-p"]
    assert "staged" not in help_text()


def test_answers_and_the_page_for_those_who_know_git_name_what_is_there():
    """A word that was renamed since would be the worst answer."""
    for answer in (*COMMANDS.values(), *OPTIONS.values()):
        for word, option in re.findall(r"mvcs ([a-z][a-z-]+)(?: (--?[a-z-]+))?", answer):
            if word not in ("deletes", "does", "is"):
                found = root.get_command(click.Context(root), word)
                assert found, answer
                assert not option or option in [name for param in found.params for name in param.opts], answer
    for line in re.findall(r"`mvcs ([a-z][^`]*)`", PAGE.read_text()):
        command, *words = shlex.split(line.partition(" >")[0])
        found, parent = root.get_command(click.Context(root), command), click.Context(root)
        if isinstance(found, click.Group) and not words[0].startswith("-"):
            found = found.get_command(parent, words.pop(0))
        assert found, line
        with contextlib.suppress(click.MissingParameter):
            found.make_context(command, words, parent=parent)


def test_only_what_is_near_is_suggested(console):
    assert "did you mean 'status'?" in console("satus", code=2).err
    assert "did you mean 'log'?" in console("lgo", code=2).err
    assert "did you mean 'gc'?" in console("cg", code=2).err
    assert "did you mean '--step'?" in console("commit", "--stpe", "5", code=2).err
    assert "did you mean '--oneline'?" in console("log", "--onelin", code=2).err
    for words in (
        ("restoration",),
        ("remote", "reordered"),
        ("log", "--amend"),
        ("commit", "--amount"),
        ("-z",),
    ):
        assert "did you mean" not in console(*words, code=2).err.lower()


def test_help_and_version_are_commands_as_well(console):
    assert console("help").out == console("--help").out
    assert console("help", "remote", "add").out == console("remote", "add", "--help").out
    assert console.json("help", "log")["command"] == "mvcs log"
    assert "has no commands" in console("help", "log", "x", code=2).err
    assert console("version").out == console("--version").out
    assert console.json("version") == {"version": importlib.metadata.version("mvcs")}


def test_files_are_restored_as_git_does(mvcs):
    mvcs.commit("one")
    model = mvcs.folder / "model.safetensors"
    first = digest(model)
    mvcs.commit("two", shift=1.0)
    second = digest(model)
    for words in (
        ("restore", "model.safetensors"),
        ("restore", "."),
        ("checkout", "model.safetensors"),
        ("checkout", "--", "model.safetensors"),
        ("checkout", "HEAD", "--", "model.safetensors"),
        ("checkout", "HEAD:model.safetensors"),
    ):
        model.unlink()
        assert "wrote    model.safetensors" in mvcs(*words).out
        assert digest(model) == second
    for words in (
        ("restore", "-s", "main~1", "model.safetensors"),
        ("checkout", "main~1", "model.safetensors"),
    ):
        assert mvcs.json(*words)["written"] == ["model.safetensors"]
        assert (digest(model), mvcs.json("status")["branch"]) == (first, "main")
        mvcs("restore", "model.safetensors")
    mvcs("checkout", "main~1:model.safetensors", "-o", "old.safetensors")
    assert digest(mvcs.folder / "old.safetensors") == first
    changed = digest(mvcs.model(seed=9))
    assert "--force" in mvcs("restore", "model.safetensors", code=4).err
    assert "--force" in mvcs("checkout", "--", "model.safetensors", code=4).err
    assert digest(model) == changed
    mvcs("checkout", "-f", "--", "model.safetensors")
    assert digest(model) == second


def test_checkout_makes_a_branch_as_git_does(mvcs):
    mvcs.commit("one")
    mvcs.commit("two", shift=1.0)
    assert mvcs.json("checkout", "-b", "aside")["branch"] == "aside"
    assert mvcs.json("checkout", "-b", "older", "main~1")["commit"]["message"] == "one"
    for words in (("-b", "x", "a", "b"), ("-b", "x", "-o", "y"), (), ("main", "x", "-o", "y")):
        mvcs("checkout", *words, code=2)
    mvcs("checkout", "nope:model.safetensors", code=3)
    mvcs("checkout", "main:nope", code=3)


def test_reset_as_git_does(mvcs):
    first = mvcs.commit("one")["id"]
    second = mvcs.commit("two", shift=1.0)["id"]
    model = mvcs.folder / "model.safetensors"
    there = digest(model)
    out = mvcs("reset", "--soft", "HEAD~1").out
    assert out.startswith("Branch main is now at ")
    assert f"mvcs reset {second[:12]}" in out
    assert (digest(model), mvcs.json("status")["head"]["id"]) == (there, first)
    assert mvcs.json("reset", "main@{1}")["left"] == first
    assert mvcs.json("reset", "--hard", "HEAD~1")["files"]["written"] == ["model.safetensors"]
    mvcs.model(seed=9)
    assert "--force" in mvcs("reset", "--hard", code=4).err
    mvcs("reset", "--hard", "-f")
    assert f"mvcs reset --hard {first[:12]}" in mvcs("reset", "--hard", second).out
    for words in (("model.safetensors",), ("HEAD", "model.safetensors"), ("--", "model.safetensors")):
        assert "mvcs restore model.safetensors" in mvcs("reset", *words, code=2).err
    mvcs("reset", "nonesuch", code=3)
    for words in (("--hard", "--soft"), ("--force",)):
        mvcs("reset", *words, code=2)


def test_commit_amend_as_git_does(mvcs):
    mvcs.commit("one")
    old = mvcs.commit("tow", "--step", 3, shift=1.0)["id"]
    assert "two" in mvcs("commit", "--amend", "-m", "two").out
    assert [item["message"] for item in mvcs.json("log")] == ["two", "one"]
    assert (mvcs.json("log")[0]["step"], mvcs.json("reflog")[1]["commit"]) == (3, old)
    mvcs.model(shift=2.0)
    kept = mvcs.json("commit", "--amend", "--no-edit", "model.safetensors")
    assert (kept["message"], len(mvcs.json("log"))) == ("two", 2)
    assert "missing option" in mvcs("commit", "model.safetensors", code=2).err


def test_files_are_moved_as_git_does(mvcs):
    mvcs.commit("one")
    out = mvcs("mv", "model.safetensors", "base.safetensors", "-m", "renamed").out
    assert "moved model.safetensors -> base.safetensors" in out
    assert [item["path"] for item in mvcs.json("ls-files")] == ["base.safetensors"]
    assert "--force" in mvcs("mv", "base.safetensors", mvcs.model("x.safetensors"), "-m", "no", code=4).err
    assert mvcs.json("mv", "-f", "base.safetensors", "x.safetensors", "-m", "over")["left"] == []
    mvcs("mv", "base.safetensors", code=2)


def test_files_are_listed_as_git_does(mvcs):
    mvcs.model("run/b.safetensors", seed=1)
    mvcs.model()
    mvcs("commit", ".", "-m", "one")
    assert mvcs("ls-files").out == "model.safetensors\nrun/b.safetensors\n"
    inside = Console(mvcs.folder / "run")
    assert inside("ls-files").out == "b.safetensors\n"
    assert inside("ls-files", "..").out == "../model.safetensors\nb.safetensors\n"
    assert mvcs.json("ls-files", "run")[0]["format"] == "safetensors"
    mvcs.model(seed=5)
    mvcs.model("new.safetensors")
    (mvcs.folder / "run/b.safetensors").unlink()
    assert mvcs("ls-files", "-m").out == "model.safetensors\n"
    assert mvcs("ls-files", "-d", "-o").out == "run/b.safetensors\nnew.safetensors\n"


def test_revisions_are_parsed_as_git_does(mvcs):
    first = mvcs.commit("one", "--step", 1)["id"]
    second = mvcs.commit("two", "--step", 2, shift=1.0)["id"]
    assert mvcs("rev-parse", "HEAD", "step:1").out == f"{second}\n{first}\n"
    assert mvcs("rev-parse", "--short", "HEAD~1").out == f"{first[:12]}\n"
    assert mvcs("rev-parse", "--abbrev-ref", "HEAD").out == "main\n"
    assert mvcs.json("rev-parse", "HEAD") == [{"rev": "HEAD", "id": second}]
    assert mvcs("rev-parse", "--show-toplevel").out == f"{mvcs.folder.resolve()}\n"
    mvcs("checkout", "HEAD~1")
    assert mvcs("rev-parse", "--abbrev-ref", "HEAD").out == "HEAD\n"
    mvcs("rev-parse", code=2)
    mvcs("rev-parse", "nope", code=3)
    assert "leave out" in mvcs("rev-parse", "main:model.safetensors", code=2).err


def test_names_of_git_for_commits_say_what_to_type_instead(mvcs):
    mvcs.commit("one", "--step", 1)
    assert "'origin/main'" in mvcs("log", "FETCH_HEAD", code=3).err
    assert "'HEAD@{1}'" in mvcs("reset", "ORIG_HEAD", code=3).err
    assert mvcs("cat-file", "-p", "HEAD").out == mvcs("cat-file", "HEAD").out


def test_a_dash_goes_back_where_one_was(mvcs):
    assert "nowhere else" in mvcs("switch", "-", code=3).err
    mvcs.commit("one")
    second = mvcs.commit("two", shift=1.0)["id"]
    mvcs("switch", "-c", "side", "main~1")
    assert [mvcs.json(word, "-")["branch"] for word in ("switch", "checkout", "switch")] == [
        "main",
        "side",
        "main",
    ]
    mvcs("checkout", "HEAD~1")
    mvcs("switch", "side")
    report = mvcs.json("checkout", "-")
    assert (report["branch"], report["commit"]["message"]) == (None, "one")
    mvcs("switch", "main")
    assert mvcs.json("rev-parse", "HEAD")[0]["id"] == second
