"""What is said to somebody who is new: each hint fits what was typed, and what it names works."""

import shlex

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from mvcs import Repository
from tests.cli.conftest import Console


def error(console, *words, code):
    return console(words[0], "--json", *words[1:], code=code).error


def test_two_dashes_are_advised_where_there_are_none(mvcs):
    mvcs.commit("one")
    found = error(mvcs, "diff", "HEAD~1", "--", "model.safetensors", code=3)
    assert found["hint"] == "'mvcs log' shows how far it goes"
    assert "two dashes" not in error(mvcs, "diff", "HEAD~1", code=3)["hint"]
    assert "two dashes" not in error(mvcs, "log", "main@{7}", code=3)["hint"]
    assert "stands behind two dashes: -- gone.pt" in error(mvcs, "log", "gone.pt", code=3)["hint"]


def test_a_revision_that_is_nearly_a_branch(mvcs):
    mvcs.commit("one")
    mvcs("branch", "low")
    for words in (("checkout", "lwo"), ("log", "lwo"), ("show", "lwo"), ("diff", "lwo", "HEAD")):
        assert error(mvcs, *words, code=3)["hint"].startswith("did you mean 'low'? ")
    mvcs("branch", "-d", "low")
    assert "did you mean" not in error(mvcs, "show", "low", code=3)["hint"]
    assert "did you mean" not in error(mvcs, "show", "elsewhere", code=3)["hint"]


def test_a_file_that_is_not_there(mvcs):
    mvcs.commit("one")
    found = error(mvcs, "commit", "nosuchfile", "-m", "x", code=3)
    assert found["hint"] == "name a file or a folder that is there"
    near = error(mvcs, "commit", "modle.safetensors", "-m", "x", code=3)["hint"]
    assert near.startswith("did you mean '")
    assert near.endswith("model.safetensors'?")
    (mvcs.folder / "model.safetensors").unlink()
    for words in (("model.safetensors",), (), (".", "model.safetensors")):
        hint = error(mvcs, "commit", *words, "-m", "x", code=3)["hint"]
        assert hint == "'mvcs rm' leaves out a file of HEAD, and 'mvcs restore' brings it back"
    mvcs("restore", "model.safetensors")


def test_exact_values_of_a_state_are_not_called_quantized(mvcs):
    with Repository.open(mvcs.folder) as repo:
        given = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
        repo.commit({"model": {"w": given}}, bins=16)
    for words in (("checkout", "HEAD", "--exact"), ("checkout", "main", "--exact"), ("reset", "--hard")):
        (*_, line, values) = mvcs(*words).out.splitlines()
        assert values.strip() == (
            "with its exact values"
            if "--exact" in words
            else "as quantized values; --exact writes exact ones"
        )
        _, *typed = shlex.split(line.split("'")[1])
        mvcs(*typed)
        written = load_file(mvcs.folder / "model.safetensors")["w"]
        assert np.array_equal(written, given) == ("--exact" in words)


@pytest.fixture
def two(mvcs):
    """A commit of two files with tensors of one name, and a branch."""
    for name in ("a.safetensors", "b.safetensors"):
        save_file({"layers.0.bias": np.full(3, ord(name[0]), np.float32)}, mvcs.folder / name)
    mvcs("commit", ".", "-m", "two")
    mvcs("branch", "four")
    return mvcs


def test_a_tensor_that_two_files_have(two):
    for words in ((), ("--tensor", "layers.0.bias")):
        found = error(two, "checkout", "HEAD", *words, "-o", "one.npz", code=2)
        assert found["hint"].startswith("name one file of the commit, such as REV:a.safetensors")
    two("checkout", "HEAD:a.safetensors", "--tensor", "layers.0.bias", "-o", "one.npz")
    assert np.load(two.folder / "one.npz")["layers.0.bias"][0] == ord("a")


def test_two_paths_of_a_state_that_are_spelled_alike(mvcs):
    with Repository.open(mvcs.folder) as repo:
        repo.commit({"a": {"b": torch.ones(2)}, "a.b": torch.zeros(2)})
    assert "a .pt file" in error(mvcs, "checkout", "HEAD", "-o", "one.npz", code=2)["hint"]
    mvcs("checkout", "HEAD", "-o", "one.pt")
    assert set(torch.load(mvcs.folder / "one.pt")) == {"a", "a.b"}


def test_a_file_behind_each_commit(two):
    for words in (
        ("diff", "four:a.safetensors", "main:a.safetensors"),
        ("log", "four:a.safetensors"),
        ("diff", "four", "main:a.safetensors"),
    ):
        found = error(two, *words, code=2)
        assert "names a file, and a commit is wanted here" in found["message"]
        command = found["hint"].removeprefix("files stand behind the commits: mvcs ")
        two(*shlex.split(command))
    assert command == "diff four main -- a.safetensors"
    found = error(two, "diff", "four:a.safetensors", "main:b.safetensors", code=2)
    assert found["hint"] == "leave out ':a.safetensors'"


def test_an_address_above_that_of_the_store(two, tmp_path):
    two("remote", "add", "lab", str(tmp_path / "bucket" / "gpt"))
    two("push", "lab")
    where = Console(tmp_path)
    found = error(where, "clone", f"file://{tmp_path}/bucket", "copy", code=3)
    assert (
        found["hint"]
        == f"an address names the folder of the store itself, such as file://{tmp_path}/bucket/gpt"
    )
    where("clone", f"file://{tmp_path}/bucket/gpt", "copy")


def test_a_folder_of_links_as_a_hub_caches_it(mvcs):
    mvcs.model("hub/blobs/0123")
    mvcs.model("elsewhere/model.safetensors")
    for name, target in (
        ("hub/snapshots/main", "../../blobs/0123"),
        ("links", "../elsewhere/model.safetensors"),
    ):
        folder = mvcs.folder / name
        folder.mkdir(parents=True)
        (folder / "model.safetensors").symlink_to(target)
    hint = error(mvcs, "commit", "hub/snapshots/main", "-m", "x", code=2)["hint"]
    assert "save_pretrained writes, or a download with local_dir=" in hint
    hint = error(mvcs, "commit", "links", "-m", "x", code=2)["hint"]
    assert hint == "commit what it points to with --as NAME, or leave it out by a line in '.mvcsignore'"
    mvcs("commit", "elsewhere/model.safetensors", "--as", "links/model.safetensors", "-m", "x")


def test_what_lists_all_tensors_is_named_where_none_matches(two):
    for words in (("--tensor", "x"), ("--strip-prefix", "x.")):
        found = error(two, "checkout", "HEAD", *words, "-o", "one.npz", code=3)
        assert found["hint"] == "'mvcs show REV --all' lists the tensors"
    two("show", "HEAD", "--all")


def test_an_address_where_a_name_is_wanted(two, tmp_path):
    for words in (("push", f"file://{tmp_path}/lab"), ("fetch", f"file://{tmp_path}/lab")):
        hint = error(two, *words, code=3)["hint"]
        assert hint == f"add it with 'mvcs remote add NAME {words[1]}'"
    assert "mvcs remote add lab URL" in error(two, "push", "lab", code=3)["hint"]
    two(*shlex.split(hint.split("'")[1].replace("NAME", "lab"))[1:])
    two("push", "lab")


@pytest.mark.parametrize(
    "url",
    ["git@github.com:a/b", "https://github.com/a/b", "ada@lab:runs.git", "https://lab/a.git", "git://a/b"],
)
def test_an_address_of_git(two, url):
    for words in (("clone", url, "copy"), ("remote", "add", "far", url)):
        found = error(two, *words, code=2)
        assert "is an address of git" in found["message"]
        assert "s3://BUCKET/FOLDER" in found["hint"]
    assert "would be a folder here" in error(two, "clone", "ada@lab:runs", "copy", code=2)["message"]


def test_a_file_where_a_commit_or_an_object_is_shown(two):
    for words in (("show", "a.safetensors"), ("cat-file", "a.safetensors")):
        hint = error(two, *words, code=3)["hint"]
        assert hint.startswith("'mvcs show HEAD:FILE' shows a file of HEAD; 'mvcs log -- a.safetensors'")
    two("show", "HEAD:a.safetensors")
    assert "two" in two("log", "--", "a.safetensors").out
    assert "HEAD:FILE" not in error(two, "show", "c.safetensors", code=3)["hint"]
    hint = error(two, "cat-file", "HEAD:a.safetensors", code=2)["hint"]
    assert hint == "'mvcs show HEAD:a.safetensors' shows the file, 'mvcs cat-file HEAD' the commit"
    two("cat-file", "HEAD")


def test_a_file_that_is_no_checkpoint(mvcs):
    (mvcs.folder / "tokenizer.npz").write_text("{}")
    found = error(mvcs, "commit", "tokenizer.npz", "-m", "x", code=1)
    assert found["hint"].endswith("; with --plain what cannot be read is kept as it is, byte for byte")
    said = mvcs("commit", "tokenizer.npz", "--plain", "-m", "x").out
    assert " 1 new file: tokenizer.npz\n" in said
    assert "new file" not in mvcs("commit", "-m", "again", "--allow-empty").out


def test_a_commit_that_nothing_leads_to_is_called_by_what_it_says(mvcs):
    mvcs.commit("one")
    mvcs.model(seed=1)
    mvcs("commit", "-m", "", "--allow-empty-message")
    mvcs("reset", "HEAD~1")
    (note,) = mvcs.json("fsck")["notes"]
    assert "''" not in note
    assert "belongs to no commit of a branch or tag, but to " in note
    mvcs(*shlex.split(note.split("'")[-2].replace("NAME", "seen"))[1:])
    assert mvcs.json("fsck")["notes"] == []


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("restore modle.safetensors", "model.safetensors"),
        ("checkout HEAD -- modle.safetensors", "model.safetensors"),
        ("push orgin", "origin"),
        ("fetch orgin", "origin"),
        ("branch -u orgin/main", "origin"),
        ("branch -u origin/mian", "origin/main"),
        ("push origin mian", "main"),
        ("pull origin mian", "main"),
        ("reflog mian", "main"),
        ("branch -m mian other", "main"),
        ("tag -d frist", "first"),
        ("clone there again -b mian", "main"),
    ],
)
def test_a_name_that_is_nearly_one_that_is_there(mvcs, words, meant):
    mvcs.commit("one")
    mvcs("tag", "first")
    mvcs("remote", "add", "origin", "there")
    mvcs("push", "origin", "main")
    found = error(mvcs, *words.split(), code=3)
    assert found["hint"].startswith(f"did you mean '{meant}'? "), found


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("compact --share 2", "--share takes a number (above 0, at most 1), not '2'", "such as 0.01"),
        (
            "compact --max-depth 2000",
            "--max-depth takes a whole number (at least 0, at most 1000), not '2000'",
            "Deltas",
        ),
        ("compact --max-cost few", "--max-cost takes a number (at least 1), not 'few'", "snapshot"),
        ("compact --max-cost nan", "--max-cost takes a number (at least 1), not 'nan'", "snapshot"),
        ("log -n x", "--number takes a whole number (at least 0), not 'x'", "this many commits"),
        ("commit --prune 1", "--prune takes a number (at least 0, below 1), not '1'", "--bins"),
        ("commit --step-size inf", "--step-size takes a number (at least 1.5", "such as 0.5"),
        ("commit --step many", "--step takes a whole number, not 'many'", "optimizer step"),
        ("stats --price few", "--price takes a number, not 'few'", "a month"),
    ],
)
def test_numbers_that_will_not_do(mvcs, words, message, hint):
    found = error(mvcs, *words.split(), code=2)
    assert found["message"].startswith(message), found
    assert hint in found["hint"]
