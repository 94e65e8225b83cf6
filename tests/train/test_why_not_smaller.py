"""What a run, its summary and `mvcs show` say of a history that is not small beside its states."""

import logging
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mvcs import Repository
from mvcs.quantize import LatticeConfig, MomentsConfig
from mvcs.reports import CommitInfo, Shortfall
from mvcs.train import Checkpointer
from mvcs.train.choice import search
from tests.cli.conftest import Console
from tests.train.optimizers.own import Own

Evaluate = Callable[[nn.Module], Any]
BATCHES = 200


def draw(seed: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(rows, 32, generator=torch.Generator().manual_seed(seed))
    return x, x[:, :8].sin().sum(1, keepdim=True)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))


def train(model: nn.Module, optimizer: Any, steps: range) -> None:
    for step in steps:
        x, y = draw(100 + step, 32)
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()


class Many(nn.Module):
    """As many tensors as a large model has, of next to no values."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(8, 1) for _ in range(800))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([layer(x[:, :8]) for layer in self.layers]).sum(0)


def steady(model: nn.Module) -> Iterator[tuple[float, int]]:
    """Tells small degradations: all batches are alike."""
    x, y = draw(1, 512)
    loss = (model(x) - y).square().sum().item()
    for _ in range(BATCHES):
        yield loss, 512


def hardly(model: nn.Module) -> Iterator[tuple[float, int]]:
    """Tells a loss that is hardly the model's, so that weights are as coarse as they ever are."""
    for loss, count in steady(model):
        yield loss + 200 * count, count


def noisy(model: nn.Module) -> Iterator[tuple[float, int]]:
    """A few batches of a few rows, whose losses differ widely."""
    for seed in range(4):
        x, y = draw(seed, 2)
        yield (model(x) - y).square().sum().item(), 2


def odd_bits(model: nn.Module) -> float:
    """Minds any rounding: what lies on a lattice has no last bits."""
    bias: torch.Tensor = model[0].bias  # type: ignore[operator,index,union-attr,assignment]  # a Sequential
    return (bias.view(torch.int32) & 63 != 0).float().mean().item() / (1 + bias.abs().mean().item())


def broken(_model: nn.Module) -> float:
    raise ValueError("no such file")


@dataclass
class Told:
    """What a run left behind, and what it said."""

    console: Console
    commits: list[CommitInfo]
    shortfalls: list[Shortfall | None]
    records: list[logging.LogRecord]
    summary: str

    def said(self, text: str) -> list[int]:
        """Return the level of each line of the log that has a text, but for the summary."""
        found = [one for one in self.records if text in one.getMessage()]
        return [one.levelno for one in found if " committed, " not in one.getMessage()]

    def warned(self, text: str) -> list[int]:
        return [level for level in self.said(text) if level >= logging.WARNING]

    def ratio_line(self, rev: str = "HEAD") -> str:
        """Return what `mvcs show` says of a commit's ratio, on one line."""
        lines = self.console("show", rev).out.splitlines()
        (line,) = [line for line in lines if line.startswith("Ratio:")]
        return line.removeprefix("Ratio:").strip()


Trained = Callable[..., Told]


@pytest.fixture
def trained(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Trained:
    def run(model: nn.Module, optimizer: Any, *, commits: int = 3, **options: Any) -> Told:
        with (
            caplog.at_level(logging.INFO, "mvcs.train"),
            Repository.init(tmp_path / "run") as repo,
            Checkpointer(repo, model, optimizer, every=10, **options) as checkpointer,
        ):
            for step in range(10 * commits):
                train(model, optimizer, range(step, step + 1))
                checkpointer.after_step(step)
            checkpointer.flush()
            assert checkpointer.failures == []
            made = list(repo.log())
            shortfalls = [repo.show(commit.id).shortfall for commit in made]
            summary = checkpointer.summary()
        console = Console(tmp_path / "run")
        return Told(console, made, shortfalls, list(caplog.records), summary)

    return run


def cause(told: Told) -> str | None:
    (found, *_) = told.shortfalls
    return None if found is None else found.cause


def test_momentum_of_sgd(trained: Trained) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    told = trained(model, optimizer, commits=1, evaluate=hardly, max_degradation=0.004)
    assert cause(told) == "moments"
    line = told.ratio_line()
    for text in (
        "moments of SGD momentum=0.9 (momentum_buffer)",
        "a bound of 0.4 %",
        'moments="light"',
        "1.96 %",
    ):
        assert text in line
    assert told.console.json("show")["shortfall"] == {"cause": "moments", "told": line}
    assert len(told.warned("moments of SGD")) == 1
    assert "moments of SGD" in told.summary


def test_what_light_is_said_to_make_of_momentum_is_about_what_it_does(tmp_path: Path) -> None:
    def ratio(folder: str, moments: MomentsConfig) -> tuple[float, str]:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        with Repository.init(tmp_path / folder) as repo:
            for _ in range(2):
                train(model, optimizer, range(20))
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                made = repo.commit(state, quantizer=LatticeConfig(step_size=0.15, moments=moments))
            found = repo.show().shortfall
        return made.raw_bytes / made.stored_bytes, "" if found is None else found.told

    before, told = ratio("finer", MomentsConfig.FINER)
    after, _ = ratio("light", MomentsConfig.LIGHT)
    promised = float(told.partition("for about ")[2].partition("x")[0])
    assert 1.5 * before < after
    assert promised == pytest.approx(after, rel=0.15)


def test_an_optimizer_that_is_not_known(trained: Trained) -> None:
    model = net()
    told = trained(model, Own(model.parameters()), evaluate=steady)
    assert cause(told) == "unknown optimizer"
    line = told.ratio_line()
    assert "an optimizer that mvcs does not know, kept exactly (" in line
    assert {"exp_avg", "buffer", "cache"} & set(line.replace("(", ",").replace(")", ",").split(","))
    assert 'describe them, moments={"' in line
    assert len(told.warned("mvcs does not know")) == 1
    assert "mvcs does not know" in told.summary


def test_one_that_is_described_is_no_cause_any_more(trained: Trained) -> None:
    model = net()
    kinds = {"exp_avg": "first", "my_v": "second", "buffer": "momentum", "cache": "momentum"}
    told = trained(model, Own(model.parameters()), evaluate=steady, moments=kinds)
    assert cause(told) is None


def test_an_evaluation_of_few_noisy_batches(trained: Trained) -> None:
    model = net()
    told = trained(model, torch.optim.AdamW(model.parameters()), evaluate=noisy, commits=4)
    at = next(index for index, found in enumerate(told.shortfalls) if found and found.cause == "noise")
    line = told.ratio_line(told.commits[at].id)
    assert "tells a degradation to about ± " in line
    assert "too much of the bound of 1 %: " in line
    assert "times as many batches make it 30 % of the bound" in line
    assert len(told.warned("times as many batches")) == 1


def test_nothing_kept_the_bound(trained: Trained) -> None:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    told = trained(model, optimizer, evaluate=odd_bits, goal="max", commits=2)
    assert {commit.exactness for commit in told.commits} == {"exact"}
    assert cause(told) == "nothing kept the bound"
    line = told.ratio_line(told.commits[-1].id)
    assert " kept the bound of 1 %, so the commit is exact" in line
    assert "a larger max_degradation" in line
    assert len(told.warned("so the commit is exact")) == 1


def test_a_small_commit_says_it_as_well_in_show(trained: Trained) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 16), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    told = trained(model, optimizer, evaluate=odd_bits, goal="max", commits=1)
    assert told.shortfalls == [None]
    assert "nothing that was evaluated kept the bound, so the commit is exact" in told.console("show").out


def test_an_evaluation_that_fails(trained: Trained) -> None:
    model = net()
    told = trained(model, torch.optim.AdamW(model.parameters()), evaluate=broken, commits=2)
    assert cause(told) == "evaluation failed"
    assert "exact, as it could not be evaluated: " in told.ratio_line()
    assert "no such file" in told.ratio_line()


def test_neither_an_evaluation_nor_a_step(trained: Trained) -> None:
    model = net()
    told = trained(model, torch.optim.AdamW(model.parameters()))
    assert cause(told) == "not bounded"
    assert "no evaluation and no step was given: evaluate= bounds it" in told.ratio_line()
    assert told.said("no evaluation and no step was given") == [logging.INFO]  # exact commits may be wanted
    assert "no evaluation and no step was given" in told.summary


@pytest.mark.slow
def test_many_small_tensors(trained: Trained) -> None:
    model = Many()
    told = trained(model, torch.optim.AdamW(model.parameters()), commits=2, step_size=0.5, moments="light")
    assert cause(told) == "metadata"
    assert "metadata of 6,403 tensors: fewer and larger ones" in told.ratio_line()
    assert len(told.warned("metadata of 6,403 tensors")) == 1


def test_a_good_run_says_nothing(trained: Trained) -> None:
    model = net()
    told = trained(model, torch.optim.AdamW(model.parameters()), evaluate=steady, commits=8)
    assert told.shortfalls[:-1] == [None] * 7
    assert told.warned("x: ") == []
    assert "Ratio:" not in told.console("show").out
    assert told.console.json("show")["shortfall"] is None
    raw, stored = (sum(getattr(one, name) for one in told.commits) for name in ("raw_bytes", "stored_bytes"))
    assert raw >= 30 * stored
    assert f"({raw / stored:.0f}x), beside exact layers of " in told.summary
    assert "near no other" not in told.summary


def test_a_first_commit_is_no_warning(trained: Trained) -> None:
    model = net()
    told = trained(model, torch.optim.AdamW(model.parameters()), evaluate=steady, commits=1)
    assert cause(told) == "first commit"
    assert told.ratio_line().endswith("a first commit, near no other: later commits take less")
    assert told.said("near no other") == [logging.INFO]
    assert "near no other" in told.summary


def test_small_commits_say_nothing(trained: Trained) -> None:
    torch.manual_seed(0)
    model = nn.Linear(32, 1)
    told = trained(model, torch.optim.AdamW(model.parameters()))
    assert told.shortfalls == [None] * 3
    assert told.summary.count("no evaluation") == 0


def test_a_run_that_was_told_to_end_is_not_told_to_evaluate(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LAST_SECONDS", 0.0)  # as where one evaluation takes longer

    def on_commit(commit: CommitInfo) -> None:
        if commit.step == 9:
            signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    model = net()
    try:
        with pytest.raises(SystemExit):
            trained(
                model,
                torch.optim.AdamW(model.parameters()),
                evaluate=steady,
                on_commit=on_commit,
            )
    finally:
        signal.signal(signal.SIGTERM, before)
    last = Console(tmp_path / "run").json("show")
    assert (last["commit"]["exactness"], last["shortfall"]["cause"]) == ("exact", "evaluation failed")
    assert "told to end" in last["shortfall"]["told"]
