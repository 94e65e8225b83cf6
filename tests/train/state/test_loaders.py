"""The position in the data: loaders with a state, samplers with one, and what is said of all others."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Sampler, TensorDataset

from mvcs.repository import Repository
from mvcs.train import Checkpointer
from mvcs.train.state.parts import Parts

LENGTH = 24


class Shuffled(Sampler[int]):
    """Goes through a new permutation every epoch, and knows how far it is."""

    def __init__(self) -> None:
        self.epoch = self.position = 0

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(LENGTH, generator=torch.Generator().manual_seed(self.epoch)).tolist()
        while self.position < LENGTH:
            self.position += 1
            yield order[self.position - 1]
        self.epoch, self.position = self.epoch + 1, 0

    def __len__(self) -> int:
        return LENGTH

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.position = state["epoch"], state["position"]


class Batches(BatchSampler):
    """The same, batch by batch."""

    def __init__(self, sampler: Shuffled) -> None:
        super().__init__(sampler, 4, drop_last=False)

    def state_dict(self) -> dict[str, Any]:
        return self.sampler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.sampler.load_state_dict(state)


def loader_of(kind: str, *, workers: int = 0, generator: bool = True) -> DataLoader:
    data = TensorDataset(torch.arange(LENGTH))
    own = torch.Generator().manual_seed(1) if generator else None
    if kind == "sampler":
        return DataLoader(data, 4, sampler=Shuffled(), num_workers=workers, generator=own)
    if kind == "batches":
        return DataLoader(data, batch_sampler=Batches(Shuffled()), num_workers=workers, generator=own)
    return DataLoader(data, 4, num_workers=workers, generator=own)


def run(repo: Repository, loader: DataLoader, steps: int, every: int = 100) -> list[list[int]]:
    """Go through the data from where the repository says, and return the batches of each step."""
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    with Checkpointer(repo, model, optimizer, loader=loader, every=every) as checkpointer:
        step = checkpointer.resume()
        while step < steps:
            for (batch,) in loader:
                seen.append(batch.tolist())
                checkpointer.after_step(step)
                step += 1
                if step == steps:
                    break
    return seen


@pytest.mark.parametrize("stop", [3, 6, 8])
@pytest.mark.parametrize("kind", ["sampler", "batches"])
def test_a_sampler_with_a_state_goes_on_where_it_was(repo: Repository, kind: str, stop: int) -> None:
    first = run(repo, loader_of(kind), stop, every=stop)
    second = run(repo, loader_of(kind), 15)
    loader, whole = loader_of(kind), []
    while len(whole) < 15:
        whole += [batch.tolist() for (batch,) in loader]
    assert first + second == whole[:15]


UNSAVED = "the position in the data is not saved, so a resumed run sees other batches: "
STATEFUL = "torchdata's StatefulDataLoader (pip install torchdata), which takes a DataLoader's arguments"


def told(caplog: pytest.LogCaptureFixture) -> str:
    """The one thing that is said when parts are gathered."""
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    return record.getMessage()


def gathered(loader: object, **extra: object) -> Parts:
    return Parts({"loader": loader}, extra, use_rng=False)


@pytest.mark.parametrize("extra", [{}, {"best": 1.0}])
def test_a_plain_loader_cannot_tell_its_position_whatever_else_is_saved(
    caplog: pytest.LogCaptureFixture, extra: dict[str, object]
) -> None:
    gathered(loader_of("plain"), **extra)
    assert told(caplog) == f"{UNSAVED}a plain DataLoader cannot tell where it is; use {STATEFUL}"


def test_a_loader_of_another_kind_is_asked_for_what_it_lacks(caplog: pytest.LogCaptureFixture) -> None:
    gathered([1, 2])
    assert told(caplog) == (
        f"{UNSAVED}the loader is a 'list' without state_dict and load_state_dict; "
        f"give it both, or use {STATEFUL}"
    )


def test_without_a_loader_something_else_may_know_the_position(caplog: pytest.LogCaptureFixture) -> None:
    gathered(None, sampler=Shuffled())
    assert not caplog.records


@pytest.mark.parametrize("extra", [{}, {"best": 1.0}, {"average": nn.Sequential(nn.Linear(1, 1))}])
def test_further_parts_do_not_hide_that_the_position_is_not_saved(
    caplog: pytest.LogCaptureFixture, extra: dict[str, object]
) -> None:
    gathered(None, **extra)
    assert told(caplog) == (
        "the position in the data is not saved, so a resumed run sees the same batches only where they are "
        "drawn from the global random generators: no loader was given; for other batches pass loader=, "
        f"such as {STATEFUL}, or restore the position by what is in extra="
    )


def test_a_sampler_that_runs_ahead_has_no_position(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Checkpointer(repo, model, optimizer, loader=loader_of("sampler", workers=2)) as checkpointer:
        checkpointer.save(0)
    assert repo.checkout()["loader"] is None
    assert told(caplog).startswith(
        f"{UNSAVED}the sampler is ahead of what the loader's 2 workers have delivered"
    )


def test_a_loader_that_draws_from_the_global_generator_is_mentioned(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    run(repo, loader_of("sampler"), 1)
    assert "global generator" not in caplog.text
    run(repo, loader_of("sampler", generator=False), 1)
    assert "global generator" in caplog.text
