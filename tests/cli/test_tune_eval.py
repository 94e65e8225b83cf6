"""`mvcs tune FILE --eval`: a user's own function chooses how files are committed."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mvcs.search import SEARCH_DEFAULTS
from tests.cli.conftest import Console

JUDGES = """
import hashlib, json, os, pathlib, random, sys
import numpy as np
import torch

def net():
    torch.manual_seed(0)
    first, second, last = (torch.nn.Linear(*sides) for sides in ((12, 64), (64, 48), (48, 1)))
    return torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.ReLU(), last)

def data(seed):
    x = torch.randn(32, 12, generator=torch.Generator().manual_seed(seed))
    return x, x.sin().sum(1, keepdim=True)

def weights(state):
    state = state.get("model", state)
    return {name: torch.as_tensor(value) for name, value in state.items()}

def digest(state):
    found = hashlib.sha256()
    for name, value in sorted(weights(state).items()):
        found.update(name.encode() + value.numpy().tobytes())
    return found.hexdigest()

def loss(state):
    with open("seen", "a") as seen:
        seen.write(digest(state) + "\\n")
    model = net()
    model.load_state_dict(weights(state))
    print("evaluating")
    for seed in range(1000, 1020):
        x, y = data(seed)
        yield float((model(x) - y).square().sum()), len(x)

def number(state):
    batches = list(loss(state))
    return sum(total for total, _ in batches) / sum(count for _, count in batches)

def right(state):
    model = net()
    model.load_state_dict(weights(state))
    for seed in range(1000, 1020):
        x, y = data(seed)
        yield int(((model(x) - y).abs() < 2).sum()), len(x)

def skill(state):
    return 10 - number(state)

def draws(state):
    return number(state) + random.random() + np.random.rand() + float(torch.rand(()))

def spoils(state):
    found = list(loss(state))
    for value in weights(state).values():
        value.zero_()
    state.clear()
    yield from found

def several(state):
    assert sorted(state) == ["a.pt", "sub/b.pt"], sorted(state)
    yield from loss(state["a.pt"])

def folder(state):
    assert state["run/notes.txt"] == b"by hand"
    yield from loss(state["run/m.pt"])

def raises(state):
    raise KeyError("encoder")

def raises_later(state):
    yield from list(loss(state))[:3]
    raise OSError("the data is gone")

calls = []
def fails_then(state):
    calls.append(1)
    if len(calls) > 2:
        raise ValueError("too coarse")
    return number(state)

def never_moves(state):
    return 0.5

def never_moves_in_batches(state):
    yield from [(0.5, 1)] * 4

def is_nan(state):
    return float("nan")

def is_random(state):
    return float.fromhex("0x1p0") + int.from_bytes(os.urandom(4)) / 1e9

def gives_nothing(state):
    return None

def writes(state):
    path = pathlib.Path("m.pt")
    path.write_bytes(path.read_bytes())
    return number(state)

def commits(state):
    import subprocess
    code = "from mvcs.cli import main; raise SystemExit(main())"
    if not pathlib.Path("done").exists():
        words = ["commit", "other.pt", "-m", "meanwhile"]
        subprocess.run([sys.executable, "-c", code, *words], check=True, stdout=2)
        pathlib.Path("done").touch()
    return number(state)

several_numbers = 3
"""


class Trained:
    """A net as it is trained, written as the libraries of each format do."""

    def __init__(self, judges, suffix):
        self.judges, self.suffix = judges, suffix
        self.model = judges.net()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        self.done = 0

    def train(self, steps):
        for step in range(self.done, self.done + steps):
            x, y = self.judges.data(step)
            loss = (self.model(x) - y).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.done += steps

    def save(self, path):
        weights = self.model.state_dict()
        if self.suffix == ".safetensors":
            save_file(weights, path)
        elif self.suffix == ".npz":
            np.savez(path, **{name: value.numpy() for name, value in weights.items()})
        else:
            torch.save({"model": weights, "optimizer": self.optimizer.state_dict(), "step": self.done}, path)

    def load(self, path):
        if self.suffix == ".safetensors":
            return load_file(path)
        if self.suffix == ".npz":
            with np.load(path) as found:
                return dict(found)
        return torch.load(path)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def tuned(tmp_path, monkeypatch):
    """A repository with a module of functions, and what makes files of a format."""
    console = Console(tmp_path)
    console("init")
    (tmp_path / "judging_functions.py").write_text(JUDGES)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "judging_functions", raising=False)
    import judging_functions

    console.trained = lambda suffix=".pt": Trained(judging_functions, suffix)
    console.judges = judging_functions
    return console


def with_model(tuned, steps=200):
    run = tuned.trained()
    run.train(steps)
    run.save(tuned.folder / "m.pt")
    return run


def tune(console, *words, function="loss", code=0):
    return console("tune", *words, "--eval", f"judging_functions:{function}", code=code)


def packs(console):
    return sorted(path.name for path in (console.folder / ".mvcs").rglob("*.pack"))


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ".npz"])
def test_what_is_committed_is_what_was_evaluated(tuned, suffix):
    """Alone, then near the commit before: the value layer is a candidate's state to the last bit."""
    run, name = tuned.trained(suffix), f"m{suffix}"
    run.train(200)
    for message in ("first", "second"):
        run.save(tuned.folder / name)
        before = (tuned.folder / name).read_bytes()
        tuned.folder.joinpath("seen").write_text("")
        words = ("--commit", "-m", message, "--step", run.done, "--metric", "lr=0.003")
        report = tune(tuned, name, *words, "--max-degradation", 0.03, "--json").json
        assert (tuned.folder / name).read_bytes() == before
        commit = report["commit"]
        assert commit["exactness"] == "bounded"
        assert (commit["message"], commit["step"]) == (message, run.done)
        assert commit["metrics"] == {"lr": 0.003, "evaluation": report["baseline"]}
        chosen = [number for number, found in enumerate(report["candidates"]) if found["accepted"]][-1]
        told, best = commit["errors"]["evaluation"], report["candidates"][chosen]
        assert commit["degradation"] == report["degradation"] == best["degradation"]
        assert best["degradation"] + 2 * told["standard_error"] <= told["bound"] == 0.03
        assert told["candidates"] == len(report["candidates"])
        assert 1 < told["evaluations"] == report["evaluations"] < 10  # the original, and 8 candidates
        # The files as they are twice, bad weights, the files again, then the candidates.
        seen = (tuned.folder / "seen").read_text().split()
        assert seen[0] == seen[1] == tuned.judges.digest(run.load(tuned.folder / name))
        tuned("checkout", "HEAD", "-o", f"restored{suffix}", "--force")
        assert (
            tuned.judges.digest(run.load(tuned.folder / f"restored{suffix}")) == seen[4 + chosen] != seen[0]
        )
        run.train(20)
    steps = json.loads(tuned.json("show")["quantizer"]["steps"])
    assert len(steps) == len(report["chosen"]) >= 1
    assert all(kind["parent"] for kind in report["chosen"])
    assert report["commit"]["stored_bytes"] < report["raw_bytes"] / 3


TABLES = ("--method", "inshrinkerator", "--max-degradation", 0.03)


def state_of(tuned, run, name):
    return tuned.judges.digest(run.load(tuned.folder / name))


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ".npz"])
def test_code_tables_are_committed_as_they_were_evaluated(tuned, suffix):
    """Alone, then near the commit before; where the file holds first moments they are tried as scores."""
    run, name = tuned.trained(suffix), f"m{suffix}"
    run.train(200)
    found = []
    for message in ("first", "second"):
        run.save(tuned.folder / name)
        tuned.folder.joinpath("seen").write_text("")
        report = tune(tuned, name, *TABLES, "--commit", "-m", message, "--json").json
        settings = [one["setting"] for one in report["candidates"]]
        chosen = settings.index(report["setting"])
        best, committed = report["candidates"][chosen], tuned.json("show")["quantizer"]
        assert best["accepted"]
        sizes = [one["stored_bytes"] for one in report["candidates"] if one["accepted"]]
        assert best["stored_bytes"] == min(sizes)
        assert {field: committed[field] for field in report["setting"]} == report["setting"]
        assert committed["protect_metric"] == ("momentum" if suffix == ".pt" else "magnitude")
        assert report["commit"]["degradation"] == report["degradation"] == best["degradation"]
        seen = (tuned.folder / "seen").read_text().split()
        tuned("checkout", "HEAD", "-o", f"restored{suffix}", "--force")
        assert state_of(tuned, run, f"restored{suffix}") == seen[4 + chosen] != seen[0]
        assert seen[0] == state_of(tuned, run, name)
        found.append(report)
        run.train(20)
    tried = {one["setting"]["metric"] for one in found[0]["candidates"]}
    assert tried == {"magnitude", committed["protect_metric"]}
    assert report["method"] == "inshrinkerator"
    assert report["chosen"] == []
    assert report["candidates"][0]["setting"] == found[0]["setting"]  # the parent's


def test_code_tables_after_a_lossy_restore_are_evaluated_as_they_are_kept(tuned):
    tuned("config", "retention.exact_layers", "0")
    run = with_model(tuned)
    tune(tuned, "m.pt", *TABLES, "--evaluations", 4, "--commit", "-m", "first")
    tuned("checkout", "HEAD", "--force")
    run.model.load_state_dict(run.load(tuned.folder / "m.pt")["model"])
    run.train(2)
    run.save(tuned.folder / "m.pt")
    (tuned.folder / "seen").write_text("")
    report = tune(tuned, "m.pt", *TABLES, "--evaluations", 4, "--commit", "-m", "second", "--json").json
    assert report["commit"]["restored_from"]
    chosen = [found["setting"] for found in report["candidates"]].index(report["setting"])
    tuned("checkout", "HEAD", "-o", "restored.pt")
    seen = (tuned.folder / "seen").read_text().split()
    assert state_of(tuned, run, "restored.pt") == seen[4 + chosen]


def test_what_code_tables_would_take_is_told_and_not_stored(tuned):
    with_model(tuned)
    found = tune(tuned, "m.pt", *TABLES, "--evaluations", 4)
    assert "bins  prune  protect     metric" in found.out
    assert ": bins " in found.out
    assert "--commit -m MESSAGE makes it" in found.out
    assert packs(tuned) == []
    said = tune(tuned, "m.pt", *TABLES, "--evaluations", 4, "--json").json
    made = tune(tuned, "m.pt", *TABLES, "--evaluations", 4, "--commit", "-m", "first", "--json").json
    assert made["setting"] == said["setting"]
    assert made["stored_bytes"] == pytest.approx(said["stored_bytes"], rel=0.05)


def test_what_is_refused_for_its_noise_is_not_said_to_be_above_the_bound(tuned):
    with_model(tuned)
    words = ("m.pt", "--method", "inshrinkerator", "--max-degradation", 0.05, "--evaluations", 4)
    reasons = [found["reason"] for found in tune(tuned, *words, "--json").json["candidates"]]
    rows = [row for row in tune(tuned, *words).out.splitlines() if "%  " in row]
    noisy = [row for row, why in zip(rows, reasons, strict=True) if why.startswith("is too noisy")]
    assert len(noisy) > 0
    assert all(row.endswith("% is too noisy to tell of 5.000%") for row in noisy)


def test_no_code_table_is_good_enough(tuned):
    with_model(tuned)
    words = ("m.pt", "--method", "inshrinkerator", "--max-degradation", 1e-7, "--evaluations", 2)
    assert "keep the bound" in tune(tuned, *words, code=1).err
    commit = tune(tuned, *words, "--commit", "-m", "first", "--json").json["commit"]
    assert commit["exactness"] == "exact"
    assert commit["errors"]["evaluation"]["candidates"] == 2
    report = tune(tuned, "m.pt", *TABLES, "--seconds", 1e-6, "--json", code=1).json
    assert (report["candidates"], report["setting"]) == ([], {})


def test_moments_beside_code_tables_are_kept_as_asked(tuned):
    with_model(tuned)
    tune(tuned, "m.pt", *TABLES, "--evaluations", 4, "--moments", "exact", "--commit", "-m", "first")
    assert tuned.json("show")["quantizer"]["first"] == "exact"


def test_progress_since_a_lossy_restore_is_evaluated_as_it_is_kept(tuned):
    tuned("config", "retention.exact_layers", "0")
    run = with_model(tuned)
    tune(tuned, "m.pt", "--max-degradation", 0.05, "--commit", "-m", "first")
    tuned("checkout", "HEAD", "--force")
    run.model.load_state_dict(run.load(tuned.folder / "m.pt")["model"])
    run.train(2)
    run.save(tuned.folder / "m.pt")
    (tuned.folder / "seen").write_text("")
    words = ("m.pt", "--max-degradation", 0.05, "--evaluations", 4, "--commit", "-m", "second")
    report = tune(tuned, *words, "--json").json
    assert report["commit"]["restored_from"]
    assert report["commit"]["errors"]["snap-back"]["refined"] > 0
    tuned("checkout", "HEAD", "-o", "restored.pt")
    restored = tuned.judges.digest(run.load(tuned.folder / "restored.pt"))
    assert restored == (tuned.folder / "seen").read_text().split()[-1]


def test_without_commit_nothing_is_stored_and_the_size_is_known(tuned):
    run = with_model(tuned)
    tune(tuned, "m.pt", "--commit", "-m", "first")
    assert "\nEvaluated: bound=0.01  baseline=" in tuned("show").out
    run.train(20)
    run.save(tuned.folder / "m.pt")
    before = packs(tuned)
    found = tune(tuned, "m.pt", "--max-degradation", 0.05)
    assert "evaluating" in found.err
    assert found.out.startswith("m.pt: 0.")
    assert "--commit -m MESSAGE makes it" in found.out
    assert "model.#.weight" in found.out
    report = tune(tuned, "--max-degradation", 0.05, "--json").json
    assert packs(tuned) == before
    assert len(list(tuned.json("log"))) == 1
    made = tune(tuned, "m.pt", "--max-degradation", 0.05, "--commit", "-m", "second", "--json").json
    assert made["chosen"] == report["chosen"]
    assert made["stored_bytes"] == pytest.approx(report["stored_bytes"], rel=0.05)
    assert made["stored_bytes"] == made["commit"]["stored_bytes"]


def test_no_candidate_is_good_enough(tuned):
    with_model(tuned)
    words = ("m.pt", "--max-degradation", 1e-7, "--evaluations", 1)
    found = tune(tuned, *words, code=1)
    assert "keep the bound" in found.err
    assert packs(tuned) == []
    made = tune(tuned, *words, "--commit", "-m", "first", "--json")
    commit = made.json["commit"]
    assert commit["exactness"] == "exact"
    assert commit["errors"]["evaluation"]["bound"] == 1e-7
    assert "committed exactly" in made.err


def test_as_many_candidates_as_the_help_says(tuned):
    words = " ".join(tuned("tune", "--help").out.split())
    assert f"at most (default {SEARCH_DEFAULTS.evaluations};" in words


@pytest.mark.parametrize("function", ["never_moves", "never_moves_in_batches"])
def test_an_evaluation_that_ignores_its_input_bounds_nothing(tuned, function):
    with_model(tuned)
    doubt = "does it use the model that it is given?"
    made = tune(tuned, "m.pt", "--commit", "-m", "as it is", "--json", function=function)
    said = "the evaluation gave for quite other weights exactly what it gives for those of the model: "
    said += doubt
    assert made.err.count(doubt) == 1
    assert (made.json["candidates"], made.json["doubt"]) == ([], said)
    assert made.json["commit"]["exactness"] == "exact"
    assert made.json["commit"]["not_evaluated"] == said
    found = tune(tuned, "m.pt", "--json", "--max-degradation", 0.03)
    assert (found.json["doubt"], doubt in found.err) == (None, False)


def test_an_accuracy_whose_goal_was_forgotten_is_asked_about(tuned):
    with_model(tuned)
    asked = "give --goal max if higher is better, --goal min to say that it is a loss"
    loose = ("m.pt", "--max-degradation", 0.5, "--json")
    found = tune(tuned, *loose, function="right", code=1)
    assert found.err.count(asked) == 1
    assert "accept more" not in found.err
    assert asked in found.json["doubt"]
    assert asked not in tune(tuned, *loose, "--goal", "max", function="right").err


def test_a_budget_in_seconds(tuned):
    with_model(tuned)
    report = tune(tuned, "m.pt", "--seconds", 1e-6, "--json", code=1).json
    assert report["candidates"] == report["chosen"] == []
    report = tune(tuned, "m.pt", "--evaluations", 1, "--max-degradation", 0.1, "--json").json
    assert len(report["candidates"]) == 1


def test_a_metric_that_is_a_number_and_higher_is_better(tuned):
    with_model(tuned)
    report = tune(tuned, "m.pt", "--goal", "max", "--max-degradation", 0.01, "--json", function="skill").json
    assert report["goal"] == "max"
    assert report["standard_error"] is None
    assert report["degradation"] <= 0.01


def test_the_best_is_found_by_what_was_measured_and_other_files_do_not_inherit_it(tuned):
    run = with_model(tuned)
    made = []
    for _ in range(2):
        words = ("m.pt", "--goal", "max", "--commit", "-m", "one", "--metric", "lr=0.003", "--json")
        made.append(tune(tuned, *words, function="skill").json)
        run.train(30)
        run.save(tuned.folder / "m.pt")
    best = max(made, key=lambda report: report["baseline"])["commit"]["id"]
    assert tuned.json("show", "best:evaluation")["commit"]["id"] == best
    known = {"lr": 0.003, "evaluation": made[-1]["baseline"]}
    assert tuned("commit", "--amend", "-m", "said again", "--json").json["metrics"] == known
    goal = tuned.json("show")["provenance"]["metric.evaluation.goal"]
    assert goal == "max"
    assert tuned("commit", "m.pt", "--amend", "--json").json["metrics"] == {"lr": 0.003}


@pytest.mark.parametrize("function", ["draws", "spoils"])
def test_what_a_function_may_do(tuned, function):
    with_model(tuned)
    before = (tuned.folder / "m.pt").read_bytes()
    report = tune(tuned, "m.pt", "--max-degradation", 0.05, "--json", function=function).json
    assert report["chosen"]
    assert (tuned.folder / "m.pt").read_bytes() == before


def test_several_files_are_a_dict_by_name(tuned):
    run = with_model(tuned)
    (tuned.folder / "sub").mkdir()
    run.save(tuned.folder / "a.pt")
    run.save(tuned.folder / "sub" / "b.pt")
    report = tune(tuned, "sub/b.pt", "a.pt", "--json", function="several").json
    assert report["files"] == ["a.pt", "sub/b.pt"]


def test_a_folder_with_other_files(tuned):
    run = with_model(tuned)
    (tuned.folder / "run").mkdir()
    (tuned.folder / "run" / "notes.txt").write_text("by hand")
    run.save(tuned.folder / "run" / "m.pt")
    assert tune(tuned, "run", "--json", function="folder").json["chosen"]


def test_moments_are_kept_as_asked(tuned):
    with_model(tuned)
    tune(tuned, "m.pt", "--moments", "exact", "--commit", "-m", "first")
    assert tuned.json("show")["quantizer"]["first"] == "exact"


def test_an_optimizer_that_is_not_known_is_described(tuned):
    def written(run):
        optimizer = run.optimizer.state_dict()
        names = {"exp_avg": "velocity", "exp_avg_sq": "cache", "step": "step"}
        optimizer["state"] = {
            number: {names[name]: value for name, value in kept.items()}
            for number, kept in optimizer["state"].items()
        }
        torch.save({"model": run.model.state_dict(), "optimizer": optimizer}, tuned.folder / "m.pt")

    def rounded():
        tensors = tuned.json("show")["tensors"]
        return {
            one["path"].rpartition(".")[2] for one in tensors if one["exact_id"] and ".state." in one["path"]
        }

    run = tuned.trained()
    run.train(20)
    written(run)
    told = tune(tuned, "m.pt", "--commit", "-m", "first", "--max-degradation", 0.05)
    assert "is not known: its moments are kept exactly" in told.err
    assert rounded() == set()
    run.train(5)
    written(run)
    words = ("--moment", "velocity=momentum", "--moment", "cache=exact", "--commit", "-m", "second")
    assert "is not known" not in tune(tuned, "m.pt", *words, "--max-degradation", 0.05).err
    assert rounded() == {"velocity"}


def test_a_file_that_changes_meanwhile_is_not_committed(tuned):
    with_model(tuned)
    found = tune(tuned, "m.pt", "--commit", "-m", "first", function="writes", code=4)
    assert "changed" in found.err
    assert packs(tuned) == []


@pytest.mark.slow
def test_a_commit_of_another_meanwhile_is_a_lost_race(tuned):
    """What was measured is near the old commit; so is what is committed, beside the new one."""
    run = with_model(tuned)
    tune(tuned, "m.pt", "--commit", "-m", "first")
    run.train(20)
    run.save(tuned.folder / "m.pt")
    run.save(tuned.folder / "other.pt")
    found = tune(
        tuned, "m.pt", "--commit", "-m", "second", "--max-degradation", 0.05, function="commits", code=4
    )
    assert "kept as branch 'main.conflict-" in found.err
    assert tuned.json("log")[0]["message"] == "meanwhile"


EVAL = ("--eval", "judging_functions:loss")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("m.pt",), 2, "--eval MODULE:FUNCTION, or --resume"),
        (("m.pt", *EVAL, "--resume"), 2, "use one of them"),
        (("m.pt", *EVAL, "--steps", 5), 2, "--steps goes with --resume only"),
        (("m.pt", *EVAL, "--note"), 2, "--note goes with --resume only"),
        (("HEAD", "--resume", "--train", "a:b", "--max-degradation", 0.1), 2, "goes with --eval only"),
        (("HEAD", "m.pt", "--resume", "--train", "a:b"), 2, "takes one commit"),
        (("m.pt", *EVAL, "-m", "first"), 2, "--message goes with --commit only"),
        (("m.pt", *EVAL, "--step", 0), 2, "--step goes with --commit only"),
        (("m.pt", *EVAL, "--commit"), 2, "--commit needs --message"),
        (("m.pt", *EVAL, "--moments", "light", "--moments", "exact"), 2, "--moments is given once"),
        (("m.pt", *EVAL, "--moment", "a=momentum", "--moments", "light"), 2, "goes with --moments auto"),
        (("m.pt", *EVAL, "--moment", "a=speed"), 2, "the moment 'a' cannot be 'speed'"),
        (("HEAD", "--resume", "--train", "a:b", "--moment", "a=first"), 2, "--moment goes with --eval only"),
        (("m.pt", *EVAL, "--max-degradation", 0), 2, "max-degradation"),
        (("m.pt", *EVAL, "--max-degradation", "nan"), 2, "max-degradation"),
        (("m.pt", *EVAL, "--evaluations", 0), 2, "evaluations"),
        (("m.pt", *EVAL, "--seconds", 0), 2, "seconds"),
        (("m.pt", "--eval", "judging_functions"), 2, "module:function"),
        (("m.pt", "--eval", "nowhere_at_all:loss"), 2, "cannot be imported"),
        (("m.pt", "--eval", "judging_functions:absent"), 2, "has no function 'absent'"),
        (("m.pt", "--eval", "judging_functions:several_numbers"), 2, "has no function"),
        (("m.pt", "--eval", "judging_functions:raises"), 1, "of the files as they are failed: KeyError"),
        (("m.pt", "--eval", "judging_functions:raises_later"), 1, "failed: OSError: the data is gone"),
        (("m.pt", "--eval", "judging_functions:fails_then"), 1, "of candidate 1 failed: ValueError"),
        (("m.pt", "--eval", "judging_functions:is_nan"), 2, "nan"),
        (("m.pt", "--eval", "judging_functions:is_random"), 2, "random"),
        (("m.pt", "--eval", "judging_functions:gives_nothing"), 2, "evaluate returned a 'NoneType'"),
        (("absent.pt", *EVAL), 3, "no such file"),
        (("m.pt", *EVAL, "--method", "kmeans"), 2, "'kmeans' is not one of"),
        (("HEAD", "--resume", "--train", "a:b", "--method", "lattice"), 2, "--method goes with --eval only"),
        (("bias.npz", *EVAL, *TABLES), 2, "no weights to choose tables for in 'bias.npz'"),
        (("same.npz", *EVAL, *TABLES), 2, "no weights to choose tables for in 'same.npz'"),
        (("notes", *EVAL, *TABLES), 2, "no weights to choose tables for in 'notes/plan.txt'"),
        (("judging_functions.py", *EVAL), 2, "no weights to choose steps for in 'judging_functions.py'"),
        (("broken.pt", *EVAL), 1, "is not"),
        (("bias.npz", *EVAL), 2, "no weights to choose steps for in 'bias.npz'"),
        (("notes", *EVAL), 2, "no weights to choose steps for in 'notes/plan.txt'"),
        (EVAL, 2, "HEAD holds none"),
    ],
)
def test_what_cannot_be_tuned(tuned, words, code, said):
    with_model(tuned, steps=5)
    (tuned.folder / "broken.pt").write_bytes(b"no archive")
    np.savez(tuned.folder / "bias.npz", bias=np.ones(4, np.float32))
    np.savez(tuned.folder / "same.npz", same=np.ones((4, 4), np.float32))
    (tuned.folder / "notes").mkdir()
    (tuned.folder / "notes" / "plan.txt").write_text("more data")
    assert said in tuned("tune", *words, code=code).err
    assert packs(tuned) == []
