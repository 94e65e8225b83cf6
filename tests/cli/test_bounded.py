"""Bounded commits on the command line, from a torch file with an optimizer to a clone and back."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from mvcs import Repository
from mvcs.ui.details import gloss
from tests.cli.conftest import Console
from tests.repository.models import Run, bits
from tests.repository.states import own_packs


@pytest.fixture
def run():
    return Run(torch.optim.AdamW)


def save(console, run):
    """Write the next state of a run as a trainer does, and return it."""
    state = run.step().state()
    torch.save(state, console.folder / "run.pt")
    return state


@pytest.fixture
def trained(mvcs, run):
    """Three bounded commits; every moments tier and both quantizers."""
    for number, words in enumerate(
        (
            ("--step-size", 0.5),
            ("--bins", 16, "--moments", "exact"),
            ("--step-size", 0.5, "--moments", "light"),
        )
    ):
        save(mvcs, run)
        mvcs("commit", "run.pt", "-m", f"state {number}", "--step", number, *words)
    return mvcs


@pytest.mark.parametrize(
    "words",
    [
        ("--step-size", "0"),
        ("--step-size", "-1"),
        ("--step-size", "17"),
        ("--step-size", "nan"),
        ("--step-size", "inf"),
        ("--step-size", "half"),
        ("--step-size", "1e-9"),
        ("--step-size", "0.5", "--bins", "16"),
        ("--step-size", "0.5", "--hysteresis", "0.6"),
        ("--step-size", "0.5", "--hysteresis", "nan"),
        ("--step-size", "0.5", "--prune", "0.1"),
        ("--step-size", "0.5", "--sigma", "0.5"),
        ("--step-size", "0.5", "--moments", "most"),
        ("--bins", "16", "--hysteresis", "0.1"),
        ("--bins", "254"),
        ("--bins", "256"),
        ("--bins", "16", "--protect", "0.5"),
        ("--hysteresis", "0.1"),
        ("--moments", "light"),
        ("--moment", "exp_avg=first"),
        ("--step-size", "0.5", "--moment", "exp_avg"),
        ("--step-size", "0.5", "--moment", "exp_avg=frist"),
        ("--step-size", "0.5", "--moment", "a=first", "--moment", "a=second"),
        ("--step-size", "0.5", "--moment", "a=first", "--moments", "light"),
    ],
    ids=" ".join,
)
def test_settings_that_mean_nothing_are_usage_errors(mvcs, words):
    mvcs.model()
    error = mvcs("commit", "model.safetensors", "-m", "x", *words, "--json", code=2).error
    assert error["message"]
    assert "No commit yet" in mvcs("status").out


def test_every_command_knows_quantized_tensors(trained):
    shown = trained.json("show")
    assert shown["quantizer"]["method"] == "lattice"
    assert (shown["quantizer"]["first"], shown["quantizer"]["second"]) == ("carried", "rank-1")
    classes = {"weight", "small", "first moment", "second moment"}
    assert classes == set(shown["commit"]["errors"])
    assert "Quantizer: " in trained("show").out
    assert [commit["exactness"] for commit in trained.json("log")] == ["bounded"] * 3
    assert trained.json("fsck")["ok"] is True
    assert trained.json("status")["entries"] == [{"path": "run.pt", "state": "unmodified"}]
    assert trained("diff", "main~2", "main").out
    found = trained.json("lineage", "query", "SELECT count(*) AS n FROM quantizers")
    tree = dict(trained.json("cat-file", "HEAD")["value"])["tree"]
    assert len(trained.json("cat-file", tree)["value"][2]) == len(shown["tensors"])
    (trained.folder / ".mvcs" / "lineage.sqlite").unlink()
    assert "Rebuilt: 3 commits" in trained("lineage", "rebuild").out
    assert trained.json("lineage", "query", "SELECT count(*) AS n FROM quantizers") == found


def test_commit_show_and_log_name_the_tensor_that_is_off_most(trained):
    shown = trained.json("show")["commit"]
    assert shown["worst"]["tensor"].startswith("run.pt.model.")
    assert 0 < shown["worst"]["relative"] < 0.5
    assert shown["worst_moment"]["tensor"].endswith("exp_avg_sq")
    assert shown["left_out"] == ["first moment"]
    assert trained.json("log")[0]["worst"] == shown["worst"]
    again = ("commit", "-m", "again", "--step-size", 0.5, "--moments", "light", "--allow-empty")
    for words in (("show",), ("log",), again):
        told = trained(*words).out
        assert f"{shown['worst']['tensor']} " in told
        assert "first moments left out" in told
    (line,) = [line for line in trained("show").out.splitlines() if " weight: " in line]
    assert "relative" not in line


def test_an_optimizer_that_is_not_known_is_described_once(mvcs):
    for step in range(3):
        kept = {"cache": torch.randn(32, 64) + step, "velocity": torch.randn(32, 64) + step}
        groups = [{"lr": 0.1, "params": [0]}]
        state = {
            "model": {"w": torch.randn(32, 64)},
            "optimizer": {"state": {0: kept}, "param_groups": groups},
        }
        torch.save(state, mvcs.folder / "run.pt")
        words = (
            ("--moment", "velocity=momentum", "--moment", "cache=exact")
            if step == 1
            else ("--moments", "auto")
        )
        told = mvcs("commit", "run.pt", "-m", f"state {step}", "--step-size", 0.1, *words)
        assert ("is not known: its moments are kept exactly" in told.out + told.err) == (step == 0)
        rounded = {one["path"] for one in mvcs.json("show")["tensors"] if one["exact_id"]}
        assert ("run.pt.optimizer.state.0.velocity" in rounded) is bool(step)
        assert "run.pt.optimizer.state.0.cache" not in rounded
    told = mvcs.json("show")["provenance"]["moment kinds"]
    assert told == '{"cache":"exact","velocity":"momentum"}'


def test_show_says_what_a_short_name_stands_for(trained):
    shown = trained("show").out
    (line,) = [line for line in shown.splitlines() if " small: " in line]
    assert line.endswith("  (biases, norms and other small tensors)")
    assert gloss("pace", {"drift": 0.3}) == [
        "(how much of the weights' earlier movement continues: 1 all, below 0 reversed)"
    ]
    assert gloss("weight", {"rms": 1.0}) == []


def test_show_says_what_alarming_figures_mean_and_nothing_of_an_exact_commit(trained):
    told = [
        line.removeprefix("Meaning:").strip()
        for line in trained("show").out.splitlines()
        if "Meaning:" in line
    ]
    assert "Worst is one tensor's rounding over its own root mean square; what all errors do" in told[0]
    assert (
        told[-1] == "what is left out is restored as zeros, and refilled by the optimizer within a few steps"
    )
    trained("commit", "-m", "exactly", "--allow-empty")
    assert "Meaning:" not in trained("show").out


def test_no_layer_is_rounded_away_beside_an_embedding_of_a_like_name(mvcs, tmp_path):
    torch.manual_seed(0)
    parts = torch.nn.Embedding(1000, 256), torch.nn.Linear(256, 1024), torch.nn.ReLU()
    model = torch.nn.Sequential(*parts, torch.nn.Linear(1024, 10)).state_dict()
    save_file(model, mvcs.folder / "model.safetensors")
    for words in (("--step-size", 0.5), ("--step-size", 4), ("--bins", 2), ("--bins", 16, "--prune", 0.4)):
        mvcs("commit", "model.safetensors", "-m", "as it was initialized", *words)
        mvcs("checkout", "HEAD", "-o", tmp_path / "value.safetensors", "--force")
        back = load_file(tmp_path / "value.safetensors")
        assert all((back[name] - value).norm() < 0.75 * value.norm() for name, value in model.items())
        assert mvcs.json("show")["commit"]["worst"]["tensor"].startswith("model.safetensors.")


def test_what_would_be_off_too_far_is_refined_and_said(mvcs):
    torch.save({"model": {"w": torch.randn(40, 50)}}, mvcs.folder / "w.pt")
    told = mvcs("commit", "w.pt", "-m", "x", "--step-size", 8)
    assert "tensor 'w.pt.model.w' got a finer coding than asked for: no tensor may be off by" in told.err
    (line,) = [line for line in mvcs("show").out.splitlines() if " tensor limit: " in line]
    assert line.endswith(
        "limit: most=0.7  refined=1  exact=0  (no weight is off by more than 0.7 of its root mean square)"
    )
    assert mvcs.json("show")["commit"]["errors"]["tensor limit"] == {"most": 0.7, "refined": 1, "exact": 0}
    mvcs("config", "commit.max_tensor_error", 10)
    assert "finer" not in mvcs("commit", "w.pt", "-m", "x", "--step-size", 8).err
    assert mvcs.json("show")["commit"]["worst"]["relative"] > 0.9


def test_classes_add_up_to_what_was_stored(trained):
    for rev in ("main", "main~1", "main~2"):
        shown = trained.json("show", rev)
        assert sum(row["stored_bytes"] for row in shown["classes"]) == shown["commit"]["stored_bytes"]


def test_equal_tensors_are_stored_and_counted_once(mvcs):
    torch.manual_seed(0)
    weight, other = torch.randn(300, 200), torch.randn(300, 200)
    sizes = []
    for copies in (1, 3):
        torch.save(
            {f"w{number}": weight.clone() for number in range(copies)} | {"v": other}, mvcs.folder / "w.pt"
        )
        mvcs("commit", "w.pt", "-m", "x", "--bins", 16 - copies)
        shown = mvcs.json("show")
        sizes.append(shown["commit"]["stored_bytes"])
        assert sum(row["stored_bytes"] for row in shown["classes"]) == sizes[-1]
    assert sizes[1] < 1.1 * sizes[0]


def test_both_layers_come_back(mvcs, run, tmp_path):
    state = save(mvcs, run)
    mvcs("commit", "run.pt", "-m", "x", "--step-size", 0.5, "--hysteresis", 0.1, "--moments", "resume")
    mvcs("checkout", "HEAD", "--exact", "-o", tmp_path / "exact.pt")
    assert bits(torch.load(tmp_path / "exact.pt")) == bits(state)
    mvcs("checkout", "HEAD", "-o", tmp_path / "value.pt")
    value = torch.load(tmp_path / "value.pt")
    assert bits(value) != bits(state)
    Run(torch.optim.AdamW).load(value).step()
    paths = [tensor["path"] for tensor in mvcs.json("show", "--all")["tensors"]]
    (path,) = [path for path in paths if path.endswith("state.0.exp_avg")]
    mvcs("checkout", "HEAD", "--tensor", path, "-o", tmp_path / "one.npz")
    assert (tmp_path / "one.npz").exists()


def test_a_clone_restores_the_values_without_exact_layers(trained, tmp_path):
    trained("remote", "add", "origin", tmp_path / "shared")
    trained("push", "--all")
    Console(tmp_path)("clone", tmp_path / "shared", "clone")
    clone = Console(tmp_path / "clone")
    for number, rev in enumerate(("main", "main~1", "main~2")):
        trained("checkout", rev, "-o", tmp_path / f"here{number}.pt")
        clone("checkout", rev, "-o", tmp_path / f"there{number}.pt")
        here, there = (torch.load(tmp_path / f"{place}{number}.pt") for place in ("here", "there"))
        assert bits(here) == bits(there)
        clone("checkout", rev, "--exact", "-o", tmp_path / "none.pt", code=3)
    assert clone.json("fsck")["ok"] is True


def test_damaged_codes_are_corruption_and_so_is_a_missing_pack(trained, tmp_path):
    with Repository.open(trained.folder) as repo:
        name = own_packs(repo, "main~2")[-1]
    [pack] = [path for path in trained.packs() if path.stem == name]
    content = bytearray(pack.read_bytes())
    content[len(content) // 3] ^= 1
    pack.chmod(0o644)
    pack.write_bytes(content)
    assert trained("fsck", code=5).out
    assert trained("checkout", "main~2", "-o", tmp_path / "one.pt", "--json", code=5).error["hint"]
    pack.unlink()
    assert trained("fsck", code=5).out
    assert trained("checkout", "main~2", "-o", tmp_path / "one.pt", "--json", code=5).error["hint"]
