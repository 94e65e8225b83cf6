"""Remote, push, fetch, pull, clone: between folders, as a user would."""

import shlex

import pytest
from safetensors.numpy import save_file

from tests.cli.conftest import Console, tensors
from tests.cli.test_files import digest


@pytest.fixture
def shared(history, tmp_path):
    """A store that main and side of `history` were pushed to."""
    history("remote", "add", "origin", tmp_path / "shared")
    history("push", "--all", "--tags")
    return tmp_path / "shared"


@pytest.fixture
def clone(shared, tmp_path):
    """A clone of it."""
    Console(tmp_path)("clone", shared, "clone")
    return Console(tmp_path / "clone")


def test_remotes(mvcs):
    mvcs("remote", "add", "lab", "s3://bucket/gpt", "--option", "endpoint_url=http://127.0.0.1:9")
    assert mvcs.json("remote") == mvcs.json("remote", "list") == {"lab": "s3://bucket/gpt"}
    assert mvcs("remote").out == "lab  s3://bucket/gpt\n"
    mvcs("remote", "add", "lab", "elsewhere", code=4)
    mvcs("remote", "remove", "lab")
    assert mvcs.json("remote") == {}
    mvcs("remote", "remove", "lab", code=3)


def test_a_remote_is_another_store(history, tmp_path):
    (tmp_path / "link").symlink_to(history.folder)
    local = history.folder / ".mvcs"
    for url in (".", ".mvcs", history.folder, tmp_path / "link", tmp_path / "link/.mvcs", f"file://{local}"):
        said = history("remote", "add", "mirror", url, code=2).err
        assert "remote 'mirror' would be the store of this repository itself" in said
        assert "hint: a remote is another store" in said
    assert history.json("remote") == {}
    history("remote", "add", "mirror", tmp_path / "there")
    assert "this repository itself" in history("remote", "set-url", "mirror", ".mvcs", code=2).err
    (tmp_path / "there").symlink_to(local)
    assert "this repository itself" in history("push", "mirror", code=2).err
    history("remote", "add", "nowhere", "/proc/nope")
    said = history("push", "nowhere", code=7).err
    assert "no store can be made at '/proc/nope': cannot write" in said
    assert "'mvcs remote set-url nowhere URL' names another place" in said


def test_push_says_what_moved(history, tmp_path):
    history("remote", "add", "origin", tmp_path / "shared")
    first = history.json("push", "origin", "main")
    assert [update["name"] for update in first["updated"]] == ["main"]
    assert first["packs_sent"] > 0
    assert "everything up to date" in history("push", "origin", "main").out
    assert "new" in history("push").out


def test_push_says_what_is_a_tag(history, tmp_path):
    history("remote", "add", "tagged", tmp_path / "tagged")
    history("tag", "v9", "main")
    out = history("push", "tagged", "main", "--tags").out.splitlines()
    assert any(line.endswith(" new             tag v9") for line in out)
    assert any(line.endswith(" new             main") for line in out)
    kinds = {"main": "branch", "v9": "tag"}
    history("remote", "add", "again", tmp_path / "again")
    found = history.json("push", "again", "main", "--tags")["updated"]
    assert kinds.items() <= {update["name"]: update["kind"] for update in found}.items()


def test_clone_has_the_history_and_the_files(history, clone):
    assert clone.json("log", "main") == [
        {**commit, "exact_layer": other["exact_layer"]}
        for commit, other in zip(history.json("log", "main"), clone.json("log", "main"), strict=True)
    ]
    assert clone.json("fsck")["ok"] is True
    assert clone.json("status")["branch"] == "main"
    assert (clone.folder / "model.safetensors").is_file()


def test_clone_says_which_values_it_has_and_where_the_exact_ones_are(history, tmp_path):
    history("switch", "main")
    said = Console(tmp_path)("clone", history.folder, "other").out
    assert "hold the quantized values" in said
    command = shlex.split(said.splitlines()[-1].partition(": ")[2])
    assert command[0] == "mvcs"
    target = tmp_path / "exact.safetensors"
    assert (
        "exact values"
        in Console(tmp_path)(*[str(target) if word == "PATH" else word for word in command[1:]]).out
    )


def test_fetch_then_pull(history, clone):
    history("switch", "main", "--force")
    history.commit("later", "--bins", 16, shift=0.3)
    history("push")
    assert "main" in clone("fetch").out
    assert clone.json("log", "origin/main", "-n", 1)[0]["message"] == "later"
    assert clone.json("log", "-n", 1)[0]["message"] == "step 2"
    said = clone("pull").out
    assert said.startswith("From origin: nothing new since it was fetched\nOn branch main\n")
    assert "up to date" not in said
    assert clone.json("log", "-n", 1)[0]["message"] == "later"
    history.commit("later still", "--bins", 16, shift=0.4)
    history("push")
    assert clone.json("pull")["fast_forward"] is True
    assert "up to date" in clone("pull").out


def test_a_pull_that_is_no_fast_forward_moves_nothing(history, clone):
    history("switch", "main", "--force")
    history.commit("theirs", shift=0.3)
    history("push")
    clone.commit("mine", shift=0.4)
    before = digest(clone.folder / "model.safetensors")
    assert clone("pull", "--json", code=4).error["hint"]
    assert clone.json("log", "-n", 1)[0]["message"] == "mine"
    assert digest(clone.folder / "model.safetensors") == before


def test_a_push_that_would_lose_their_commits_is_refused(history, clone, shared):
    history("switch", "main", "--force")
    history.commit("theirs", shift=0.3)
    history("push")
    clone.commit("mine", shift=0.4)
    assert clone("push", "--json", code=4).error["hint"]
    assert Console(shared).json("log", "main", "-n", 1)[0]["message"] == "theirs"
    assert clone.json("push", "--force")["updated"][0]["forced"] is True
    assert Console(shared).json("log", "main", "-n", 1)[0]["message"] == "mine"


def test_exact_layers_travel_when_asked(history, tmp_path):
    history("remote", "add", "bare", tmp_path / "bare")
    history("push", "bare", "main")
    history("remote", "add", "full", tmp_path / "full")
    history("push", "full", "main", "--exact")
    sizes = [
        sum(path.stat().st_size for path in (tmp_path / name).rglob("*.pack")) for name in ("bare", "full")
    ]
    assert sizes[0] < sizes[1]


def test_a_store_is_read_by_url(shared, tmp_path):
    assert Console(tmp_path).json("-C", f"file://{shared}", "log", "main", "-n", 1)[0]["message"] == "step 2"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("push", "nobody"), 3),
        (("fetch", "nobody"), 3),
        (("pull", "nobody"), 3),
        (("push", "origin", "nobranch"), 3),
        (("clone", "nowhere-at-all"), 3),
        (("push", "origin", "main", "--all"), 2),
        (("remote", "add", "x"), 2),
        (("remote", "add", "x", "url", "--option", "novalue"), 2),
    ],
)
def test_what_is_not_there(history, shared, words, code):
    assert shared.exists()
    assert history(*words, code=code).err.startswith("mvcs: error: ")


def test_clone_does_not_overwrite(shared, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("x")
    Console(tmp_path)("clone", shared, "full", code=4)
    assert (tmp_path / "full" / "precious").read_text() == "x"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://a", "'ftp' is not opened by default"),
        ("simplecache::s3://b", "chains file systems"),
        ("s3://", "names no bucket"),
        ("s3:///folder", "names no bucket"),
        ("gs://bucket", "gcsfs"),
        ("file://", "names no folder"),
        ("file://host/folder", "names no folder"),
        ("ada@lab:runs", "would be a folder here"),
        ("s3:/bucket", "would be a folder here"),
        ("", "names no store"),
    ],
)
def test_an_address_that_nothing_can_be_pushed_to_is_refused_at_once(mvcs, url, said):
    mvcs("remote", "add", "lab", "s3://bucket")
    for words in (
        ("remote", "add", "far", url),
        ("remote", "set-url", "lab", url),
        ("config", "remote.lab.url", url),
        ("init", "other", "--store", url),
    ):
        error = mvcs(*words, "--json", code=2).error
        assert said in error["message"]
        assert error["hint"]
    assert mvcs.json("remote") == {"lab": "s3://bucket"}
    assert not (mvcs.folder / "other").exists()


def test_the_folder_that_the_hint_offers_for_a_name_with_a_colon(history):
    assert "./" in history("remote", "add", "lab", "ada@lab:runs", code=2).err
    history("remote", "add", "lab", "./ada@lab:runs")
    history("push", "lab", "main")
    assert (history.folder / "ada@lab:runs" / "mvcs.json").is_file()


def test_paths_are_printed_without_steps_up(shared, tmp_path):
    (tmp_path / "here").mkdir()
    here = Console(tmp_path / "here")
    assert here.json("clone", shared, "../there")["path"] == str(tmp_path / "there")
    assert here.json("init", "../other")["path"] == str(tmp_path / "other")


def test_a_clone_names_the_way_to_exact_values_where_there_is_one(console, tmp_path):
    console("init")
    save_file(tensors(), console.folder / "model.safetensors")
    console("commit", "model.safetensors", "-m", "one", "--step-size", "0.5")
    console("remote", "add", "far", str(tmp_path / "far"))
    console("push", "far")
    told = console("clone", str(tmp_path / "far"), "plain").out
    assert "'mvcs push --exact' sends them" in told
    assert "-o PATH --exact" not in told
    console("push", "far", "--exact")
    made = console("clone", str(tmp_path / "far"), "whole").out.splitlines()
    command = made[-1].partition(": ")[2].replace("PATH", "exact.safetensors")
    console(*shlex.split(command)[1:])
    restored, given = console.folder / "exact.safetensors", console.folder / "model.safetensors"
    assert restored.read_bytes() == given.read_bytes()
    clone = Console(console.folder / "whole")
    for words in (
        ("HEAD", "-o", "x.safetensors"),
        ("HEAD:model.safetensors", "-o", "x.npz"),
        ("HEAD",),
        ("HEAD", "--", "model.safetensors"),
    ):
        hint = clone("checkout", "--exact", "--json", *words, code=3).error["hint"]
        assert hint.startswith(
            "leave out --exact for quantized values; if a remote kept exact ones: mvcs -C "
        )
        restored.unlink()
        console(*shlex.split(hint.partition(": mvcs ")[2].replace("PATH", "exact.safetensors")))
        assert restored.read_bytes() == given.read_bytes()
    clone("remote", "rm", "origin")
    assert "mvcs -C URL checkout" in clone("checkout", "--exact", "HEAD", code=3).err
