"""What is said of the largest error of a weight holds, whatever settings, optimizer and history."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mvcs import Repository
from mvcs.reports.commits import CommitInfo
from tests.commits.bounded.test_bounded import check_bounds
from tests.repository.models import bits, tensors

OPTIMIZERS = {
    "AdamW": lambda of: torch.optim.AdamW(of, 3e-3, betas=(0.9, 0.95)),
    "SGD": lambda of: torch.optim.SGD(of, 0.05, momentum=0.9, nesterov=True),
}


class Words:
    """A model with matrices that momentum is carried into, and norms between them, in training."""

    def __init__(self, optimizer: str, kind: torch.dtype) -> None:
        torch.manual_seed(0)
        layers = torch.nn.Embedding(80, 40), torch.nn.LayerNorm(40), torch.nn.Linear(40, 64), torch.nn.Tanh()
        self.model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 80)).to(kind)
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.random = torch.Generator().manual_seed(1)

    def train(self, steps: int) -> "Words":
        for _ in range(steps):
            words = torch.randint(80, (32,), generator=self.random)
            self.optimizer.zero_grad()
            torch.nn.functional.cross_entropy(self.model(words).float(), (words * 7 + 3) % 80).backward()
            self.optimizer.step()
        return self

    def load(self, state: dict[str, Any]) -> "Words":
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return self

    @property
    def state(self) -> dict[str, Any]:
        found = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        return torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, found)


@cache
def trained(optimizer: str, kind: torch.dtype, number: int) -> dict[str, Any]:
    """The state after so many commits' worth of a run."""
    training = Words(optimizer, kind)
    if number:
        training.load(trained(optimizer, kind, number - 1))
    return training.train(12).state


def check_worst(repo: Repository, made: CommitInfo, state: dict[str, Any]) -> None:
    """No tensor is farther off than any may be, but what is left out; the worst is named."""
    back, found = tensors(repo.checkout()), {}
    for path, value in tensors(state).items():
        off = float((back[path].double() - value.double()).norm())
        found[path] = off / float(value.double().norm()) if off else 0.0
    model = {path: error for path, error in found.items() if path.startswith("model")}
    assert max(model.values()) <= 0.7
    assert made.worst.relative == pytest.approx(max(model.values()), rel=1e-3)
    kept = {path: error for path, error in found.items() if path not in model}
    if made.left_out:
        kept = {path: error for path, error in kept.items() if not path.endswith(("exp_avg", "buffer"))}
    assert max(kept.values(), default=0.0) <= 0.95
    assert (made.worst_moment.relative if made.worst_moment else 0.0) == pytest.approx(
        max(kept.values(), default=0.0), rel=1e-3
    )


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path / "run") as repository:
        yield repository


@given(
    optimizer=st.sampled_from(sorted(OPTIMIZERS)),
    kind=st.sampled_from([torch.float32, torch.bfloat16]),
    step_size=st.sampled_from([0.5, 0.1, 0.02, 1.5]),
    hysteresis=st.sampled_from([0.5, 0.25, 0.0]),
    moments=st.sampled_from(["light", "resume", "exact"]),
    share=st.sampled_from(["type", "tensor"]),
    restored=st.booleans(),
    reopened=st.booleans(),
)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_weight_is_off_by_more_than_is_said(
    optimizer: str,
    kind: torch.dtype,
    step_size: float,
    hysteresis: float,
    moments: str,
    share: str,
    restored: bool,
    reopened: bool,
) -> None:
    asked: dict[str, Any] = {
        "step_size": step_size,
        "hysteresis": hysteresis,
        "moments": moments,
        "share": share,
    }
    with TemporaryDirectory() as folder:
        Repository.init(Path(folder) / "run").close()
        repo = Repository.open(Path(folder) / "run")
        for number in range(3):
            state = trained(optimizer, kind, number)
            made = repo.commit(state, **asked)
            check_bounds(repo, made.id, state, hysteresis)
            check_worst(repo, made, state)
            if reopened:
                repo.close()
                repo = Repository.open(Path(folder) / "run")
        if restored:
            state = Words(optimizer, kind).load(repo.checkout(made.id)).train(3).state
            made = repo.commit(state, restored_from=made.id, **asked)
            check_bounds(repo, made.id, state, hysteresis)
            check_worst(repo, made, state)
        repo.close()


def test_numbers_too_small_for_a_code_stay_exact_where_momentum_is_carried(repo: Repository) -> None:
    state = trained("AdamW", torch.float32, 1)
    weight = state["model"]["2.weight"].clone()
    weight[3, 4:9] = torch.tensor([1e-42, -1e-40, float("inf"), float("nan"), 0.0])
    changed = {**state, "model": {**state["model"], "2.weight": weight}}
    repo.commit(changed, step_size=0.5, moments="light")
    back = tensors(repo.checkout())["model.2.weight"]
    assert bits({"row": back[3, 4:8].clone()}) == bits({"row": weight[3, 4:8].clone()})
