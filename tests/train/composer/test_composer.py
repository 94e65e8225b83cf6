"""Runs of MosaicML Composer under version control: killed anywhere, they go on bit for bit."""

import logging
import os
import signal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mvcs.errors import UsageError
from mvcs.repository import Repository
from mvcs.train import Checkpointer

composer = pytest.importorskip("composer", reason="Composer has a lane of its own: make test-composer")

pytestmark = [pytest.mark.composer, pytest.mark.filterwarnings("ignore")]

BATCHES, EPOCHS, SEED = 6, 3, 7


class KilledError(Exception):
    """Ends a run in the middle."""


class Net(composer.ComposerModel):
    """A small net with dropout and normalization."""

    def __init__(self, die_after: int | None = None, *, terminate: bool = False) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.die_after, self.terminate = die_after, terminate
        self.calls = 0

    def forward(self, batch: list[torch.Tensor]) -> torch.Tensor:
        if self.training:
            if self.calls == self.die_after:
                if not self.terminate:
                    raise KilledError
                os.kill(os.getpid(), signal.SIGTERM)
            self.calls += 1
        return self.layers(batch[0])

    def loss(self, outputs: torch.Tensor, batch: list[torch.Tensor]) -> torch.Tensor:
        return (outputs - batch[1]).square().mean()

    def get_metrics(self, is_train: bool = False) -> dict[str, Any]:  # noqa: ARG002 - Composer's
        from torchmetrics import MeanSquaredError

        return {"MeanSquaredError": MeanSquaredError()}

    def update_metric(self, batch: list[torch.Tensor], outputs: torch.Tensor, metric: Any) -> None:
        metric.update(outputs, batch[1])

    def weights(self) -> list[bytes]:
        return [value.detach().numpy().tobytes() for value in self.layers.state_dict().values()]


def points() -> TensorDataset:
    x = torch.randn(4 * BATCHES, 3, generator=torch.Generator().manual_seed(1))
    return TensorDataset(x, x.sum(1, keepdim=True))


def loader(kind: str) -> DataLoader:
    if kind == "by epoch":
        from composer.utils import dist

        return DataLoader(points(), batch_size=4, sampler=dist.get_sampler(points(), shuffle=True))
    own = torch.Generator().manual_seed(3) if kind == "own" else None
    return DataLoader(points(), batch_size=4, shuffle=True, generator=own)


def trainer(
    net: Net,
    *callbacks: Any,
    kind: str = "by epoch",
    epochs: int = EPOCHS,
    order: int = 1,
    decay: float = 0.01,
    **options: Any,
) -> Any:
    return composer.Trainer(
        model=net,
        train_dataloader=loader(kind),
        eval_dataloader=DataLoader(points(), batch_size=8),
        optimizers=torch.optim.AdamW([*net.parameters()][::order], lr=1e-2, weight_decay=decay),
        schedulers=composer.optim.CosineAnnealingScheduler(t_max="5ep"),
        device="cpu",
        seed=SEED,
        callbacks=list(callbacks),
        progress_bar=False,
        **{"eval_interval": "2ba", "max_duration": f"{epochs}ep", **options},
    )


def train(net: Net, *callbacks: Any, **options: Any) -> Net:
    made = trainer(net, *callbacks, **options)
    try:
        made.fit()
    finally:
        made.close()
    return net


def seeded(die_after: int | None = None, **options: Any) -> Net:
    torch.manual_seed(SEED)
    return Net(die_after, **options)


@cache
def whole(**options: Any) -> list[bytes]:
    return train(seeded(), **options).weights()


@pytest.mark.parametrize(
    ("died", "kind"),
    [
        *((died, "by epoch") for died in (1, 5, 6, 12, 15)),
        (8, "global"),
        (12, "global"),
        (6, "own"),
        (15, "own"),
    ],
)
def test_a_killed_run_goes_on_exactly(tmp_path: Path, died: int, kind: str) -> None:
    from mvcs.train.composer import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(KilledError):
            train(seeded(died), MvcsCallback(repo, every=1, step_size=0.5), kind=kind)
        assert repo.head().step == died - 1
        callback = MvcsCallback(repo, every=1, step_size=0.5)
        resumed = train(seeded(), callback, kind=kind)
        assert callback.restored.commit.step == died - 1
        assert not callback.restored.lossy
        assert resumed.calls == BATCHES * EPOCHS - died
        assert resumed.weights() == whole(kind=kind)
        assert repo.head().step == BATCHES * EPOCHS - 1
        names = {"loss/train/total", "metrics/train/MeanSquaredError", "metrics/eval/MeanSquaredError"}
        assert set(repo.head().metrics) == names
        assert not callback.checkpointer.failures


def test_pieces_of_a_batch_are_one_step(tmp_path: Path) -> None:
    from mvcs.train.composer import MvcsCallback

    options = {"device_train_microbatch_size": 2}
    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(KilledError):
            train(seeded(17), MvcsCallback(repo, every=1), **options)
        assert [commit.step for commit in repo.log()] == [7, 6, 5, 4, 3, 2, 1, 0]
        resumed = train(seeded(), MvcsCallback(repo, every=1), **options)
        assert resumed.weights() == whole(**options)


@pytest.mark.parametrize("step", [8, 11])
def test_sigterm_commits_and_ends_the_run(tmp_path: Path, step: int) -> None:
    from mvcs.train.composer import MvcsCallback

    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with Repository.init(tmp_path / "run") as repo:
            with pytest.raises(SystemExit) as ended:
                train(seeded(step, terminate=True), MvcsCallback(repo, every=100))
            assert ended.value.code == 143
            assert [commit.step for commit in repo.log()] == [step]
            assert train(seeded(), MvcsCallback(repo, every=100)).weights() == whole()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_finished_run_may_go_on_for_longer(tmp_path: Path) -> None:
    from mvcs.train.composer import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        train(seeded(), MvcsCallback(repo, every=6), epochs=2)
        again = train(seeded(), MvcsCallback(repo, every=6))
        assert again.calls == BATCHES
        assert again.weights() == whole()


def test_a_second_fit_goes_on_in_the_same_line(tmp_path: Path) -> None:
    from mvcs.train.composer import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        made = trainer(seeded(), MvcsCallback(repo, every=2), epochs=1)
        made.fit()
        made.fit(duration="1ep")
        made.close()
        assert [commit.step for commit in repo.log()] == [11, 9, 7, 5, 3, 1]


def test_an_end_within_an_epoch(tmp_path: Path) -> None:
    from mvcs.train.composer import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        train(seeded(), MvcsCallback(repo, every=1), max_duration="9ba")
        assert repo.head().step == 8
        assert train(seeded(), MvcsCallback(repo, every=1)).weights() == whole()


@pytest.mark.parametrize("options", [{"epochs": 2}, {"max_duration": "9ba"}])
def test_the_end_of_a_run_is_committed_and_goes_on(tmp_path: Path, options: dict[str, Any]) -> None:
    from mvcs.train.composer import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        train(seeded(), MvcsCallback(repo, every=7), **options)
        last = 8 if "max_duration" in options else 11
        assert [commit.step for commit in repo.log()] == [last, 6]
        assert train(seeded(), MvcsCallback(repo, every=7)).weights() == whole()
        assert repo.head().step == 17


def test_a_killed_run_has_no_end(tmp_path: Path) -> None:
    from mvcs.train.composer import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(KilledError):
            train(seeded(10), MvcsCallback(repo, every=4))
        assert [commit.step for commit in repo.log()] == [7, 3]


def test_weights_of_their_own_cadence(tmp_path: Path) -> None:
    from mvcs.train.composer import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        train(seeded(), MvcsCallback(repo, every=6, weights_every=2, step_size=0.5))
        kinds = [(commit.step, commit.weights_only) for commit in repo.log()][:4]
        assert kinds == [(17, False), (15, True), (13, True), (11, False)]


def test_a_run_may_begin_anew(tmp_path: Path) -> None:
    from mvcs.train.composer import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        train(seeded(), MvcsCallback(repo, every=6))
        callback = MvcsCallback(repo, every=6, resume=False, branch="again")
        assert train(seeded(), callback).calls == BATCHES * EPOCHS
        assert callback.restored is None


def test_a_failed_commit_costs_no_run(tmp_path: Path) -> None:
    from mvcs.train.composer import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        callback = MvcsCallback(repo, every=6, extra={"hook": print}, final=False)
        assert train(seeded(), callback).weights() == whole()
        assert [failure.step for failure in callback.checkpointer.failures] == [5, 11, 17]
        assert repo.head() is None


def test_options_reach_the_hook(tmp_path: Path) -> None:
    from mvcs.train.composer import MvcsCallback

    told = []
    with Repository.init(tmp_path / "run") as repo:
        callback = MvcsCallback(
            repo,
            every=6,
            branch="other",
            extra={"note": 3},
            message=lambda step, _metrics: f"step {step}",
            on_commit=told.append,
            rng=False,
            bins=16,
        )
        train(seeded(), callback, epochs=1)
        state = repo.checkout("other", exact=True)
        assert state["extra"]["note"] == 3
        assert state["rng"] is None
        assert [(commit.message, commit.step) for commit in told] == [("step 5", 5)]
        assert told[0].errors


def test_a_commit_of_another_kind_of_run_is_refused(tmp_path: Path) -> None:
    from mvcs.train.composer import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        net = seeded()
        with Checkpointer(repo, net, torch.optim.SGD(net.parameters(), lr=0.1)) as plain:
            plain.save(0)
        with pytest.raises(UsageError, match="not of a run of Composer"):
            trainer(seeded(), MvcsCallback(repo))


def test_moments_go_to_the_parameters_of_their_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from mvcs.train.composer import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        train(seeded(), MvcsCallback(repo, every=6), epochs=2)
        assert train(seeded(), MvcsCallback(repo, every=6), order=-1).weights() == whole()
    assert "they are matched by name" in caplog.text


def test_the_settings_that_a_commit_replaces_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from mvcs.train.composer import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        train(seeded(), MvcsCallback(repo, every=6), epochs=2)
        assert train(seeded(), MvcsCallback(repo, every=6), decay=0.5).weights() == whole()
    assert "the commit's settings replace the script's: weight_decay 0.5 -> 0.01" in caplog.text


def test_the_published_method_averages_the_gradients_of_a_run(tmp_path: Path) -> None:
    from mvcs.train.composer import MvcsCallback

    def evaluate(model: nn.Module) -> float:
        model.eval()
        return float(model.layers(points().tensors[0]).square().mean()) + 1

    with Repository.init(tmp_path / "run") as repo:
        options = {"method": "inshrinkerator", "max_degradation": 0.5}
        callback, net = MvcsCallback(repo, every=3, evaluate=evaluate, **options), seeded()
        made = trainer(net, callback)
        made.fit()
        made.close()
        assert net.weights() == whole()
        assert not callback.checkpointer.failures
        newest = repo.show(next(iter(repo.log())).id)
        assert newest.quantizer["protect_metric"] == "sensitivity"


def test_what_evaluate_changes_is_named_and_undone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from mvcs.train.composer import MvcsCallback

    made: Any = None

    def evaluate(model: nn.Module) -> float:
        for state in made.state.optimizers[0].state.values():
            state["exp_avg"].mul_(0.5)
        made.state.schedulers[0].step()
        model.eval()
        return float(model.layers(points().tensors[0]).square().mean()) + 1

    with Repository.init(tmp_path / "run") as repo, caplog.at_level(logging.WARNING, "mvcs.train"):
        callback, net = MvcsCallback(repo, every=3, evaluate=evaluate, max_degradation=0.5), seeded()
        made = trainer(net, callback)
        made.fit()
        made.close()
        assert net.weights() == whole()
        assert not callback.checkpointer.failures
    named = {"optimizer.AdamW", "scheduler.LambdaLR"}
    assert all(f"evaluate changed {name}, and so training" in caplog.text for name in named)
