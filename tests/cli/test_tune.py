"""`mvcs tune --resume`: a user's own function trains on from a commit, exactly and as restored."""

import pytest
import torch

from tests.cli.conftest import Console

TRAIN = """
import torch

def build(state):
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.95))
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return model, optimizer

def resume(state, steps):
    print("training")
    model, optimizer = build(state["run.pt"])
    for step in range(steps):
        x = torch.randn(32, 16, generator=torch.Generator().manual_seed(step))
        loss = (model(x) - x[:, :4]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()

def broken(state, steps):
    raise KeyError("model")

def short(state, steps):
    return [1.0]

number = 3
"""


def made(folder):
    """Make a repository with an exact commit, then bounded ones, and a module with functions."""
    console = Console(folder)
    console("init")
    (folder / "probing_functions.py").write_text(TRAIN)
    torch.manual_seed(0)
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.95))
    for number, words in enumerate(((), ("--step-size", 0.5), ("--step-size", 0.5, "--moments", "auto"))):
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(8, 16)).square().mean().backward()
            optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, folder / "run.pt")
        console("commit", "run.pt", "-m", f"state {number}", "--step", number, *words)
    return console


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return made(tmp_path_factory.mktemp("tune"))


def tune(console, *words, code=0):
    return console("tune", *words, "--train", "probing_functions:resume", "--steps", 20, code=code)


def test_what_resuming_from_a_bounded_commit_costs(trained):
    found = tune(trained, "HEAD", "--resume", "--note", "--json")
    probe = found.json["probes"]["as stored"]
    assert len(probe["exact"]) == len(probe["restored"]) == 20
    assert probe["exact"] != probe["restored"]
    assert "training" in found.err
    metrics = trained("show", "--json").json["commit"]["metrics"]
    assert metrics["resume_excess"] == probe["excess"]
    assert "steps lost" in tune(trained, "--resume").out


def test_tiers_are_compared_on_one_exact_state(trained):
    words = ("--resume", "--moments", "exact", "--moments", "resume", "--moments", "light")
    bounded = tune(trained, "HEAD", *words, "--json").json["probes"]
    exact = tune(trained, "HEAD~2", *words, "--json").json["probes"]
    assert list(bounded) == list(exact) == ["exact", "resume", "light"]
    assert exact["exact"]["excess"] == 0
    assert abs(exact["light"]["excess"]) > 0
    assert bounded["exact"]["excess"] != 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("HEAD",), 2, "say what to measure"),
        (("HEAD", "--resume"), 2, "needs --train"),
        (("HEAD", "--resume", "--note", "--moments", "light", "--train", "a:b"), 2, "--note is for"),
        (("HEAD", "--resume", "--train", "resume"), 2, "module:function"),
        (("HEAD", "--resume", "--train", "nowhere_at_all:resume"), 2, "cannot be imported"),
        (("HEAD", "--resume", "--train", "probing_functions:absent"), 2, "has no function 'absent'"),
        (("HEAD", "--resume", "--train", "probing_functions:number"), 2, "has no function 'number'"),
        (("HEAD", "--resume", "--train", "probing_functions:broken"), 1, "failed: KeyError"),
        (("HEAD", "--resume", "--train", "probing_functions:short"), 2, "gave 1 losses for 100 steps"),
        (("HEAD~2", "--resume", "--train", "probing_functions:resume"), 2, "nothing of it is lost"),
    ],
)
def test_what_cannot_be_measured(trained, words, code, said):
    assert said in trained("tune", *words, code=code).err


def test_a_commit_without_its_exact_layer(tmp_path):
    trained = made(tmp_path)
    trained("config", "retention.exact_layers", "0")
    trained("commit", "-m", "again", "--step-size", 0.5)
    assert "is not stored" in tune(trained, "HEAD", "--resume", code=3).err
