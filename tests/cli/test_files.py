"""Checkpoint files of other tools under version control: commit, look, break, find back."""

import hashlib
import json
import shutil
import zlib

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from tests.cli.conftest import tensors

KEYS = [
    "id",
    "parents",
    "step",
    "metrics",
    "exactness",
    "degradation",
    "raw_bytes",
    "stored_bytes",
    "exact_bytes",
]


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_init_makes_the_layout(console):
    assert console.json("init", "new/run")["path"].endswith("new/run")
    assert (console.folder / "new" / "run" / ".mvcs" / "mvcs.json").is_file()
    assert console("-C", "new/run", "status").out.startswith("On branch main\nNo commit yet")


def test_init_twice_is_a_conflict(mvcs):
    refused = mvcs("init", code=4).err
    assert refused.startswith("mvcs: error: ")
    assert "'mvcs status' there shows it" in refused


def test_init_with_a_store_elsewhere(console, tmp_path):
    console("init", "--store", tmp_path / "shared")
    console.commit()
    assert list((tmp_path / "shared" / "packs").rglob("*.pack"))
    assert len(console.json("-C", tmp_path / "shared", "log")) == 1


def test_commit_prints_the_keys_scripts_rely_on_first(mvcs):
    commit = mvcs.commit("first", "--step", 3, "--metric", "loss=2.5", "--metric", "acc=nan")
    assert list(commit)[: len(KEYS)] == KEYS
    assert (commit["step"], commit["metrics"]) == (3, {"loss": 2.5, "acc": "nan"})
    assert (commit["exactness"], commit["degradation"], commit["exact_bytes"]) == ("exact", None, 0)
    assert len(commit["id"]) == 64
    assert commit["parents"] == []


def test_commit_says_what_was_new(mvcs):
    mvcs.model()
    out = mvcs("commit", "model.safetensors", "-m", "first\n\nmore", "--step", 3, "--metric", "loss=2.5").out
    assert out.startswith("[main ")
    assert "first\n" in out
    assert "step 3, loss=2.5" in out
    assert "x), exact\n" in out


def test_a_bounded_commit_says_so(mvcs):
    commit = mvcs.commit("bounded", "--bins", 16, "--prune", 0.2, "--protect", 0.005, "--sigma", 0.5)
    assert (commit["exactness"], commit["degradation"]) == ("bounded", "not measured")
    assert commit["exact_bytes"] > 0
    assert "bounded; exact layer kept" in mvcs("log").out


@pytest.mark.parametrize(
    "words",
    [
        ("--metric", "loss"),
        ("--metric", "=1"),
        ("--metric", "loss=low"),
        ("--metric", "a=1", "--metric", "a=2"),
        ("--bins", "1"),
        ("--bins", "many"),
        ("--prune", "0.2"),
        ("--bins", "16", "--prune", "1"),
        ("--bins", "16", "--protect", "nan"),
        ("--bins", "16", "--sigma", "2"),
        ("--step", "-1"),
        ("--step", "99999999999999999999999"),
    ],
)
def test_bad_options_are_usage_errors_and_commit_nothing(mvcs, words):
    mvcs.model()
    mvcs("commit", "model.safetensors", "-m", "x", *words, code=2)
    assert mvcs("status").out.count("No commit yet") == 1


def test_infinite_metrics_are_numbers(mvcs):
    assert mvcs.commit("x", "--metric", "a=inf", "--metric", "b=-inf")["metrics"] == {"a": "inf", "b": "-inf"}


def test_commit_without_files_takes_those_of_the_last(mvcs):
    mvcs.commit()
    mvcs.model(shift=1.0)
    mvcs("commit", "-m", "again")
    assert [commit["message"] for commit in mvcs.json("log")] == ["again", "a state"]
    assert mvcs.json("show")["files"] == ["model.safetensors"]


def test_safetensors_come_back_byte_for_byte(mvcs):
    mvcs.commit("one", seed=1)
    first = digest(mvcs.folder / "model.safetensors")
    mvcs.commit("two", seed=2)
    report = mvcs.json("checkout", "main~1")
    assert (report["written"], report["branch"]) == (["model.safetensors"], None)
    assert digest(mvcs.folder / "model.safetensors") == first
    assert mvcs("status").out.startswith(
        "HEAD is detached: new commits are on no branch (mvcs switch -c NAME"
    )
    mvcs("checkout", "main")
    assert mvcs.json("status")["branch"] == "main"


def test_a_file_lost_is_found_back(mvcs):
    mvcs.commit()
    before = digest(mvcs.folder / "model.safetensors")
    (mvcs.folder / "model.safetensors").unlink()
    assert "deleted:   model.safetensors" in mvcs("status").out
    mvcs("checkout", "HEAD")
    assert digest(mvcs.folder / "model.safetensors") == before


def test_status_tells_modified_from_untracked(mvcs):
    mvcs.commit()
    assert "1 file as committed" in mvcs("status").out
    mvcs.model(shift=0.5)
    mvcs.model("other.safetensors")
    assert {entry["path"]: entry["state"] for entry in mvcs.json("status")["entries"]} == {
        "model.safetensors": "modified",
        "other.safetensors": "untracked",
    }
    out = mvcs("status").out
    assert "modified:  model.safetensors" in out
    assert "  other.safetensors" in out


def test_checkout_does_not_overwrite_uncommitted_changes(mvcs):
    mvcs.commit("one", seed=1)
    mvcs.commit("two", seed=2)
    precious = digest(mvcs.model(seed=3))
    error = mvcs("checkout", "main~1", "--json", code=4).error
    assert "--force" in error["hint"]
    assert digest(mvcs.folder / "model.safetensors") == precious
    assert mvcs.json("status")["branch"] == "main"
    mvcs("checkout", "main~1", "--force")
    assert digest(mvcs.folder / "model.safetensors") != precious


def test_checkout_elsewhere_in_another_format(mvcs):
    mvcs.commit()
    report = mvcs.json("checkout", "main", "-o", "out/head.npz", "--tensor", "blocks.1.*")
    assert report["tensors"] == 2
    with np.load(mvcs.folder / "out" / "head.npz") as found:
        assert sorted(found) == ["blocks.1.bias", "blocks.1.weight"]
        assert np.array_equal(found["blocks.1.weight"], tensors()["blocks.1.weight"])
    assert mvcs.json("status")["branch"] == "main"


def test_checkout_elsewhere_is_read_by_safetensors_alone(mvcs):
    mvcs.commit()
    assert "4 tensors" in mvcs("checkout", "main", "-o", "copy.safetensors").out
    found = load_file(mvcs.folder / "copy.safetensors")
    assert all(np.array_equal(found[name], value) for name, value in tensors().items())


def test_part_of_a_state_needs_a_place_to_go(mvcs):
    mvcs.commit()
    assert "--tensor needs -o" in mvcs("checkout", "main", "--tensor", "*", code=2).err


def test_a_glob_that_matches_nothing(mvcs):
    mvcs.commit()
    assert mvcs("checkout", "main", "-o", "x.npz", "--tensor", "nope.*", code=3).err.startswith(
        "mvcs: error: "
    )
    assert not (mvcs.folder / "x.npz").exists()


def test_the_exact_layer_on_request(mvcs):
    mvcs.commit("bounded", "--bins", 4)
    mvcs("checkout", "main", "-o", "value.safetensors")
    mvcs("checkout", "main", "-o", "exact.safetensors", "--exact")
    name = "blocks.0.weight"
    value, exact = (load_file(mvcs.folder / f"{layer}.safetensors")[name] for layer in ("value", "exact"))
    assert np.array_equal(exact, tensors()[name])
    assert len(np.unique(value)) <= 4


def test_an_exact_layer_that_was_dropped(mvcs):
    for step in range(4):
        mvcs.commit(f"step {step}", "--bins", 16, seed=step)
    before = digest(mvcs.folder / "model.safetensors")
    assert "--exact" in mvcs("checkout", "main~3", "--exact", code=3).err
    assert digest(mvcs.folder / "model.safetensors") == before
    assert "its exact layer is not stored here" in mvcs("checkout", "main~3").out
    assert "'mvcs checkout HEAD --exact' gives the exact ones" in mvcs("checkout", "main").out


def test_what_continues_from_quantized_values_says_so(mvcs):
    mvcs.commit("bounded", "--bins", 16)
    (mvcs.folder / "model.safetensors").unlink()
    mvcs("checkout", "main")
    commit = mvcs.commit("continued", "--bins", 16, shift=0.1)
    assert commit["lineage_exact"] is False
    assert "which is lossy" in mvcs("log").out


def test_a_new_file_behind_a_bounded_commit_is_said_to_be_of_unknown_origin(mvcs):
    mvcs.commit("bounded", "--bins", 16)
    save_file(tensors(1), mvcs.folder / "new.safetensors")
    told = "unknown, as nothing on record tells whether it or an ancestor continued from rounded values"
    assert f"\n lineage: {told}" in mvcs("commit", "new.safetensors", "-m", "new").out
    assert f"\nLineage: {told}" in mvcs("log", "-1").out


def test_switching_does_not_lose_an_exact_state(mvcs):
    """Coming back to a bounded tip gives its quantized values; the exact ones stay within reach."""
    mvcs.commit("bounded", "--bins", 16)
    exact = digest(mvcs.folder / "model.safetensors")
    mvcs("branch", "other")
    mvcs("switch", "other")
    mvcs("switch", "main")
    mvcs("checkout", "main", "--exact", "--force")
    assert digest(mvcs.folder / "model.safetensors") == exact


def test_switch_gives_the_layer_that_is_asked_for(mvcs):
    mvcs.commit("first", "--bins", 16)
    exact = digest(mvcs.folder / "model.safetensors")
    mvcs.commit("second", "--bins", 16, seed=3)
    assert mvcs.json("switch", "-c", "other", "main~1")["layer"] == "value"
    assert digest(mvcs.folder / "model.safetensors") != exact
    assert "These are the exact values" in mvcs("switch", "other", "--exact").out
    assert digest(mvcs.folder / "model.safetensors") == exact
    assert mvcs.json("status")["branch"] == "other"


def test_a_suffix_that_says_nothing_is_refused(mvcs):
    mvcs.commit("one")
    error = mvcs("checkout", "main", "-o", "model.bin", code=2).err
    assert "'model.bin' ends in '.bin', which is no format that mvcs writes" in error
    assert "'model.bin/'" in error
    assert not (mvcs.folder / "model.bin").exists()
    assert "Wrote" in mvcs("checkout", "main", "-o", "model.bin/").out
    assert (mvcs.folder / "model.bin" / "model.safetensors").is_file()


def test_an_export_says_what_it_wrote(mvcs):
    mvcs.commit("one")
    assert "to plain (safetensors): 4 tensors" in mvcs("checkout", "main", "-o", "plain").out
    assert "to a.npz (npz): 4 tensors" in mvcs("checkout", "main", "-o", "a.npz").out
    np.savez(mvcs.folder / "more.npz", w=np.arange(5))
    mvcs("commit", "more.npz", "-m", "two files")
    mvcs("checkout", "main", "-o", "v1.2")
    assert "to the folder all: 2 files, 5 tensors" in mvcs("checkout", "main", "-o", "all").out
    mvcs("checkout", "main", "-o", "all.gz", code=2)
    assert mvcs.json("checkout", "main", "-o", "more")["format"] == "folder"


def test_plain_torch_files(mvcs):
    state = {
        "model": {"w": torch.arange(6.0).reshape(2, 3)},
        "step": 7,
        "opt": {0: {"exp_avg": torch.ones(3)}},
    }
    torch.save(state, mvcs.folder / "run.pt")
    mvcs("commit", "run.pt", "-m", "torch")
    (mvcs.folder / "run.pt").unlink()
    mvcs("checkout", "HEAD")
    found = torch.load(mvcs.folder / "run.pt", weights_only=True)
    assert found["step"] == 7
    assert torch.equal(found["model"]["w"], state["model"]["w"])
    assert torch.equal(found["opt"][0]["exp_avg"], torch.ones(3))


def test_what_a_format_cannot_hold_is_listed(mvcs):
    torch.save({"w": torch.ones(3), "step": 7}, mvcs.folder / "run.pt")
    mvcs("commit", "run.pt", "-m", "torch")
    result = mvcs("checkout", "HEAD", "-o", "run.safetensors")
    assert "left out" in result.err
    assert "step" in result.err
    assert any("step" in name for name in mvcs.json("checkout", "HEAD", "-o", "b.safetensors")["left_out"])


def test_a_long_run_of_values_that_a_format_cannot_hold_is_one_line(mvcs):
    torch.save({"w": torch.ones(3), "rng": tuple(range(625)), "step": 7}, mvcs.folder / "run.pt")
    mvcs("commit", "run.pt", "-m", "torch")
    (line,) = mvcs("checkout", "HEAD", "-o", "run.safetensors").err.splitlines()
    assert line.rpartition(": ")[2] == "626 values, run.pt.rng.* (625), run.pt.step"
    assert len(mvcs.json("checkout", "HEAD", "-o", "b.safetensors")["left_out"]) == 626


def test_npz(mvcs):
    np.savez(mvcs.folder / "a.npz", w=np.arange(5), b=np.float16(2.5))
    mvcs("commit", "a.npz", "-m", "numpy")
    (mvcs.folder / "a.npz").unlink()
    mvcs("checkout", "HEAD")
    with np.load(mvcs.folder / "a.npz") as found:
        assert np.array_equal(found["w"], np.arange(5))
        assert found["b"].dtype == np.float16


def test_a_folder(mvcs):
    mvcs.model("ckpt/part-1.safetensors", seed=1)
    mvcs.model("ckpt/part-2.safetensors", seed=2)
    (mvcs.folder / "ckpt" / "config.json").write_text('{"layers": 2}')
    before = {path.name: digest(path) for path in (mvcs.folder / "ckpt").iterdir()}
    mvcs("commit", "ckpt", "-m", "sharded")
    shutil.rmtree(mvcs.folder / "ckpt")
    mvcs("checkout", "HEAD")
    assert {path.name: digest(path) for path in (mvcs.folder / "ckpt").iterdir()} == before
    mvcs("checkout", "HEAD", "-o", "copy")
    assert json.loads((mvcs.folder / "copy" / "ckpt" / "config.json").read_text()) == {"layers": 2}


def test_a_file_from_outside_needs_a_name(mvcs, elsewhere):
    outside = elsewhere.model("base.safetensors")
    assert "--as" in mvcs("commit", outside, "-m", "x", code=2).err
    mvcs("commit", outside, "--as", "base.safetensors", "-m", "x")
    assert mvcs.json("show")["files"] == ["base.safetensors"]


def test_one_name_for_one_file(mvcs):
    one, two = mvcs.model("a.safetensors"), mvcs.model("b.safetensors")
    assert "single FILE" in mvcs("commit", one, two, "--as", "c.safetensors", "-m", "x", code=2).err


def test_from_a_folder_below(mvcs):
    mvcs.model("deep/down/model.safetensors")
    mvcs("-C", "deep/down", "commit", "model.safetensors", "-m", "x")
    assert mvcs.json("show")["files"] == ["deep/down/model.safetensors"]


def test_a_commit_says_what_it_keeps_and_what_left(mvcs):
    mvcs.model("a.safetensors", seed=1)
    mvcs.model("run/step_10.safetensors", seed=2)
    mvcs("commit", "a.safetensors", "run/step_10.safetensors", "-m", "both")
    mvcs.model("run/step_20.safetensors", seed=3)
    answer = mvcs.json("commit", "run/step_20.safetensors", "-m", "later")
    assert (answer["kept"], answer["left"]) == (["a.safetensors"], ["run/step_10.safetensors"])
    assert mvcs.json("show")["files"] == ["a.safetensors", "run/step_20.safetensors"]
    mvcs.model("b.safetensors", seed=4)
    result = mvcs("commit", "b.safetensors", "--only", "-m", "alone")
    assert result.out.splitlines()[-2:] == [
        " gone from the commit: a.safetensors",
        " gone from the commit: run/step_20.safetensors",
    ]
    mvcs.model("c.safetensors", seed=5)
    result = mvcs("commit", "c.safetensors", "--replace", "-m", "in its place")
    assert "takes the place of 'b.safetensors'" in result.err
    assert mvcs.json("show")["files"] == ["c.safetensors"]
    assert "--only needs a FILE" in mvcs("commit", "--only", "-m", "x", code=2).err


def test_a_commit_of_a_folder_says_which_files_are_new(mvcs):
    mvcs.commit()
    mvcs.model("other.safetensors", seed=2)
    names = [f"data{number}.py" for number in range(4)]
    for name in [*names, "__pycache__/data.pyc", ".env/lib.py"]:
        (mvcs.folder / name).parent.mkdir(exist_ok=True)
        (mvcs.folder / name).write_text("x")
    assert mvcs.json("status")["others"] == [".env/", "__pycache__/data.pyc", *names]
    others = ".env/, __pycache__/data.pyc, data0.py, data1.py, data2.py and 1 more"
    listed = f"  other.safetensors\n  and 6 others, which 'mvcs commit .' takes too: {others}\n"
    assert listed in mvcs("status").out
    new = [".env/lib.py", "__pycache__/data.pyc", *names, "other.safetensors"]
    said = mvcs("commit", ".", "-m", "all").out.splitlines()
    assert f" 7 new files: {', '.join(new[:5])} and 2 more" in said
    (mvcs.folder / "one.py").write_text("y")
    assert mvcs.json("commit", ".", "-m", "more")["added"] == ["one.py"]
    assert mvcs.json("status")["others"] == []


def test_what_a_commit_of_a_folder_leaves_out_is_not_listed(mvcs):
    mvcs.commit()
    mvcs("remote", "add", "side", "side")
    mvcs("push", "side")
    (mvcs.folder / ".git").mkdir()
    (mvcs.folder / ".git" / "config").write_text("x")
    (mvcs.folder / "gone.py").symlink_to("nowhere")
    (mvcs.folder / ".model.tmp1").write_text("x")
    assert mvcs.json("status")["others"] == []
    mvcs.model("other.safetensors", seed=2)
    assert mvcs.json("commit", ".", "-m", "all")["added"] == ["other.safetensors"]


def test_rm_leaves_a_file_out_and_checkout_brings_it_back(mvcs):
    mvcs.model("a.safetensors", seed=1)
    mvcs.model("b.safetensors", seed=2)
    mvcs("commit", "a.safetensors", "b.safetensors", "-m", "both")
    assert mvcs("rm", "a.safetensors", "-m", "less").out.splitlines()[-2:] == [
        " kept b.safetensors",
        " gone from the commit: a.safetensors",
    ]
    assert not (mvcs.folder / "a.safetensors").exists()
    assert mvcs.json("checkout", "main~1")["written"] == ["a.safetensors"]
    mvcs("checkout", "main")
    mvcs.model("b.safetensors", seed=3)
    assert "--force" in mvcs("rm", "b.safetensors", "-m", "x", "--json", code=4).error["hint"]
    assert mvcs.json("rm", "b.safetensors", "--cached", "-m", "kept here")["left"] == ["b.safetensors"]
    assert (mvcs.folder / "b.safetensors").exists()
    assert mvcs("rm", "b.safetensors", "-m", "x", code=3).err.startswith("mvcs: error: ")


class Odd:
    """An object that no restricted loader takes."""


@pytest.fixture
def unread(mvcs):
    """A folder of four files that hold no state, two of them damaged, beside one that does."""
    folder = mvcs.model("run/model.safetensors").parent
    torch.save({"odd": Odd()}, folder / "odd.pt")
    (folder / "empty.pt").touch()
    (folder / "cut.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-1])
    (folder / "train.py").write_text("print()")
    return mvcs


@pytest.mark.parametrize("name", ["odd.pt", "train.py"])
def test_a_file_that_a_folder_takes_is_taken_by_its_name(unread, name):
    content = digest(unread.folder / "run" / name)
    notes = [unread.json("commit", f"run/{name}", "-m", "x", "--allow-empty")["notes"] for _ in range(2)]
    assert [len(said) for said in notes] == [1, 0]
    (unread.folder / "run" / name).unlink()
    unread("checkout", "HEAD")
    assert digest(unread.folder / "run" / name) == content


@pytest.mark.parametrize("name", ["empty.pt", "cut.safetensors"])
def test_a_file_that_cannot_be_read_is_kept_by_what_the_hint_says(unread, name):
    content = digest(unread.folder / "run" / name)
    error = unread("commit", f"run/{name}", "-m", "x", "--json", code=1).error
    assert f"run/{name}'" in error["message"]
    assert "--plain" in error["hint"]
    unread("commit", f"run/{name}", "-m", "x", "--plain")
    (unread.folder / "run" / name).unlink()
    unread("checkout", "HEAD")
    assert digest(unread.folder / "run" / name) == content


def test_an_array_with_a_wrong_checksum_is_kept_by_what_the_hint_says(mvcs):
    path = mvcs.folder / "x.npz"
    np.savez(path, w=np.ones(3, np.float32))
    path.write_bytes(path.read_bytes().replace(np.float32(1).tobytes() * 3, bytes(12)))
    assert "--plain" in mvcs("commit", "x.npz", "-m", "x", code=1).err
    content = path.read_bytes()
    mvcs("commit", "x.npz", "-m", "x", "--plain")
    path.unlink()
    mvcs("restore", "x.npz")
    assert path.read_bytes() == content


def test_a_bounded_commit_says_which_arrays_come_back_uncompressed(mvcs):
    np.savez_compressed(mvcs.folder / "x.npz", w=np.random.default_rng(0).standard_normal((30, 40), "<f4"))
    assert "come back uncompressed" not in mvcs("commit", "x.npz", "-m", "exact").err
    assert "come back uncompressed; with --exact as they were: 'x.npz'" in (
        mvcs("commit", "x.npz", "-m", "bounded", "--step-size", "0.5").err
    )


def test_arrays_that_zlib_compresses_otherwise_are_told_on_restore(mvcs, monkeypatch):
    path = mvcs.folder / "x.npz"
    np.savez_compressed(path, w=np.arange(3000.0))
    mvcs("commit", "x.npz", "-m", "x")
    path.unlink()
    other = zlib.compressobj
    monkeypatch.setattr(zlib, "compressobj", lambda level, method, bits: other(level, method, bits, 1))
    for words in (("restore", "x.npz"), ("checkout", "HEAD", "-o", "y.npz")):
        assert "'x.npz' has the same arrays and other bytes: the zlib of here" in mvcs(*words).err
    assert (np.load(path)["w"] == np.arange(3000.0)).all()
    assert "modified" not in mvcs("status").out
    (mvcs.folder / "new.txt").write_text("new")
    mvcs("commit", "new.txt", "-m", "next")
    mvcs("checkout", "HEAD~1")


def test_arrays_that_are_no_longer_compressed_are_a_change_where_zlib_gives_the_same_bytes(mvcs):
    path = mvcs.folder / "x.npz"
    np.savez_compressed(path, w=np.arange(3000.0))
    mvcs("commit", "x.npz", "-m", "x")
    np.savez(path, w=np.arange(3000.0))
    assert "modified:  x.npz" in mvcs("status").out


def test_every_file_of_a_folder_that_cannot_be_read_is_named(unread):
    error = unread("commit", "run", "-m", "x", "--json", code=1).error
    assert error["message"].startswith("2 files cannot be read: ")
    assert "cut.safetensors" in error["message"]
    assert "'run/empty.pt' is not a file of torch.save: it is empty" in error["message"]
    assert "--plain" in error["hint"]
    unread("commit", "run", "-m", "x", "--plain")
    assert len(unread.json("show")["files"]) == 5
    assert "Changed" not in unread("status").out
    (unread.folder / "run" / "train.py").write_text("print(1)")
    unread("commit", "-m", "what was kept so is kept so again")
    unread("commit", "--amend", "run", "-m", "amended", "--plain", "--allow-empty")


def test_a_file_kept_plain_is_read_again_once_it_can_be(unread):
    unread("commit", "run/empty.pt", "-m", "x", "--plain")
    torch.save({"w": torch.ones(3)}, unread.folder / "run" / "empty.pt")
    unread("commit", "-m", "whole")
    assert "w" in unread("diff", "HEAD~1", "HEAD").out


def test_a_folder_of_a_commit_is_written_as_it_lies_there(mvcs):
    mvcs.model("hf/sub/model.safetensors")
    (mvcs.folder / "hf" / "config.json").write_text("{}")
    mvcs("commit", "hf", "-m", "a folder")
    mvcs("checkout", "HEAD:hf", "-o", "out")
    assert digest(mvcs.folder / "out/sub/model.safetensors") == digest(
        mvcs.folder / "hf/sub/model.safetensors"
    )
    assert (mvcs.folder / "out/config.json").read_text() == "{}"
    assert mvcs.json("checkout", "HEAD:hf/", "-o", "out")["files"] == 2
    (mvcs.folder / "mine").mkdir()
    (mvcs.folder / "mine/config.json").write_text("mine")
    mvcs("checkout", "HEAD:hf", "-o", "mine", code=4)
    mvcs("checkout", "HEAD:hf", "-o", "hf.bin", code=2)


def test_a_folder_of_a_single_file_is_a_folder_too(mvcs):
    mvcs.model("hf/sub/model.safetensors")
    mvcs("commit", "hf", "-m", "a folder")
    mvcs("checkout", "HEAD:hf", "-o", "out")
    assert (mvcs.folder / "out/sub/model.safetensors").is_file()
    mvcs("checkout", "HEAD:hf/sub", "-o", "one.npz")
    assert set(np.load(mvcs.folder / "one.npz")) == set(tensors())


def test_an_amended_commit_says_what_it_took_beside_the_old_one(mvcs):
    old = mvcs.commit("a state")
    text = mvcs("commit", "--amend", "-m", "other").out
    assert f" in the place of {old['id'][:12]}, " in text
    assert " more; exact" in text
    assert "x)" not in text
    before = mvcs.json("log")[0]["id"]
    assert mvcs.json("commit", "--amend", "-m", "again")["amends"] == before
