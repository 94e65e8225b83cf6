"""Lightning runs under version control: killed within an epoch and between two, they go on bit for bit."""

import logging
import os
import signal
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mvcs.errors import UsageError
from mvcs.repository import Repository
from mvcs.train import Checkpointer

lightning = pytest.importorskip("lightning.pytorch")
stateful_dataloader = pytest.importorskip("torchdata.stateful_dataloader")

pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore")]

BATCHES, EPOCHS = 6, 3


class KilledError(Exception):
    """Ends a run in the middle."""


class Net(lightning.LightningModule):
    """A small net with dropout, AdamW and a schedule."""

    def __init__(self, die_after: int | None = None, *, terminate: bool = False) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.die_after, self.terminate = die_after, terminate
        self.steps = 0

    def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
        if self.die_after is not None and self.steps == self.die_after:
            if not self.terminate:
                raise KilledError
            os.kill(os.getpid(), signal.SIGTERM)
        self.steps += 1
        (x,) = batch
        loss = (self.layers(x) - x.sum(1, keepdim=True)).square().mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], _index: int) -> None:
        self.log("val", self.layers(batch[0]).mean())

    def configure_optimizers(self) -> Any:
        trained = (one for one in self.parameters() if one.requires_grad)
        optimizer = torch.optim.AdamW(trained, lr=1e-2)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.7)
        return [optimizer], [{"scheduler": schedule, "interval": "epoch"}]

    def weights(self) -> list[bytes]:
        return [value.detach().numpy().tobytes() for value in self.state_dict().values()]


class TwoOptimizers(Net):
    """The same, stepped by hand."""

    def __init__(self, die_after: int | None = None) -> None:
        super().__init__(die_after)
        self.automatic_optimization = False

    def configure_optimizers(self) -> Any:
        first = torch.optim.AdamW(self.layers[0].parameters(), lr=1e-2)
        return first, torch.optim.SGD(self.layers[3].parameters(), lr=1e-2, momentum=0.9)

    def training_step(self, batch: list[torch.Tensor], index: int) -> None:
        loss = super().training_step(batch, index)
        for optimizer in self.optimizers():
            optimizer.zero_grad()
        self.manual_backward(loss)
        for optimizer in self.optimizers():
            optimizer.step()


def data() -> TensorDataset:
    return TensorDataset(torch.randn(4 * BATCHES, 3, generator=torch.Generator().manual_seed(1)))


def trainer(folder: Path, *callbacks: Any, epochs: int = EPOCHS, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lightning.Trainer(
            default_root_dir=folder,
            max_epochs=epochs,
            callbacks=list(callbacks),
            logger=False,
            accelerator="cpu",
            devices=1,
            enable_progress_bar=False,
            enable_model_summary=False,
            **options,
        )


def fit(folder: Path, net: Net, *callbacks: Any, plain: bool = False, **options: Any) -> Net:
    torch.set_num_threads(1)
    lightning.seed_everything(7, verbose=False)
    kind = DataLoader if plain else stateful_dataloader.StatefulDataLoader
    loader = kind(data(), batch_size=4, shuffle=True)
    trainer(folder, *callbacks, **options).fit(net, loader, DataLoader(data(), batch_size=8))
    return net


def whole(folder: Path, **options: Any) -> list[bytes]:
    options.setdefault("enable_checkpointing", False)
    lightning.seed_everything(7, verbose=False)
    return fit(folder, Net(), **options).weights()


def seeded(die_after: int | None = None, **options: Any) -> Net:
    lightning.seed_everything(7, verbose=False)
    return Net(die_after, **options)


@pytest.mark.parametrize("died", [5, 6, 8, 11, 12, 15])
def test_a_killed_run_goes_on_exactly(tmp_path: Path, died: int) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(KilledError):
            fit(tmp_path, seeded(died), MvcsCallback(repo, every=1, step_size=0.5))
        assert repo.head().step == died - 1
        callback = MvcsCallback(repo, every=1, step_size=0.5)
        again = fit(tmp_path, seeded(), callback)
        assert callback.restored.commit.step == died - 1
        assert not callback.restored.lossy
        assert again.steps == BATCHES * EPOCHS - died
        assert again.weights() == whole(tmp_path)
        assert repo.head().step == BATCHES * EPOCHS - 1
        assert set(repo.head().metrics) == {"loss", "val"}
    assert not list(tmp_path.rglob("*.ckpt"))


@pytest.mark.parametrize("died", [8, 12])
def test_a_trainer_without_checkpoints_goes_on_exactly(tmp_path: Path, died: int) -> None:
    from mvcs.train.lightning import MvcsCallback

    options = {"enable_checkpointing": False}
    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(KilledError):
            fit(tmp_path, seeded(died), MvcsCallback(repo, every=1), **options)
        assert fit(tmp_path, seeded(), MvcsCallback(repo, every=1), **options).weights() == whole(tmp_path)


def test_checkpoint_files_that_were_asked_for_are_written(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    class Other(lightning.Callback):
        """Is given behind ours, and runs before."""

    with Repository.init(tmp_path / "run") as repo:
        files = lightning.callbacks.ModelCheckpoint(dirpath=tmp_path / "files")
        callback, other = MvcsCallback(repo, every=6), Other()
        made = trainer(tmp_path, callback, files, other, epochs=1)
        loader = stateful_dataloader.StatefulDataLoader(data(), batch_size=4)
        made.fit(seeded(), loader, DataLoader(data(), batch_size=8))
        assert made.callbacks[-3:] == [other, callback, files]
        assert list((tmp_path / "files").glob("*.ckpt"))
        assert repo.head().step == 5


@pytest.mark.parametrize("options", [{}, {"limit_val_batches": 0}])
@pytest.mark.parametrize("died", [6, 12])
def test_between_epochs_a_plain_loader_is_enough(tmp_path: Path, died: int, options: dict[str, Any]) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(KilledError):
            fit(tmp_path, seeded(died), MvcsCallback(repo, every=6, step_size=0.5), plain=True, **options)
        again = fit(tmp_path, seeded(), MvcsCallback(repo, every=6, step_size=0.5), plain=True, **options)
        assert again.weights() == whole(tmp_path, plain=True, **options)


def test_a_finished_run_may_go_on_for_longer(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        fit(tmp_path, seeded(), MvcsCallback(repo, every=6), epochs=2)
        again = fit(tmp_path, seeded(), MvcsCallback(repo, every=6))
        assert again.steps == BATCHES
        assert again.weights() == whole(tmp_path)


def test_accumulated_batches_are_one_step(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    options = {"accumulate_grad_batches": 3}
    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(KilledError):
            fit(tmp_path, seeded(10), MvcsCallback(repo, every=1), **options)
        assert [commit.step for commit in repo.log()] == [2, 1, 0]
        again = fit(tmp_path, seeded(), MvcsCallback(repo, every=1), **options)
        assert again.weights() == whole(tmp_path, **options)


@pytest.mark.parametrize("step", [8, 11])
def test_sigterm_commits_and_ends_the_run(tmp_path: Path, step: int) -> None:
    from mvcs.train.lightning import MvcsCallback

    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with Repository.init(tmp_path / "run") as repo:
            with pytest.raises(SystemExit):
                fit(tmp_path, seeded(step, terminate=True), MvcsCallback(repo, every=100))
            assert [commit.step for commit in repo.log()] == [step]
            again = fit(tmp_path, seeded(), MvcsCallback(repo, every=100))
            assert again.weights() == whole(tmp_path)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_weights_of_their_own_cadence(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        fit(tmp_path, seeded(), MvcsCallback(repo, every=6, weights_every=2, step_size=0.5))
        kinds = [(commit.step, commit.weights_only) for commit in repo.log()][:4]
        assert kinds == [(17, False), (15, True), (13, True), (11, False)]
        stored = repo.checkout("HEAD~1")
        assert set(stored["model"]) == set(Net().state_dict())


def test_a_run_may_begin_anew(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        fit(tmp_path, seeded(), MvcsCallback(repo, every=6))
        callback = MvcsCallback(repo, every=6, resume=False, branch="again")
        again = fit(tmp_path, seeded(), callback)
        assert callback.restored is None
        assert again.steps == BATCHES * EPOCHS


@pytest.mark.parametrize("died", [3, 4, 8])
def test_validation_within_an_epoch(tmp_path: Path, died: int) -> None:
    from mvcs.train.lightning import MvcsCallback

    options = {"val_check_interval": 2}
    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(KilledError):
            fit(tmp_path, seeded(died), MvcsCallback(repo, every=1), **options)
        again = fit(tmp_path, seeded(), MvcsCallback(repo, every=1), **options)
        assert again.weights() == whole(tmp_path, **options)


@pytest.mark.parametrize("died", [3, 6])
def test_steps_of_several_optimizers_all_count(tmp_path: Path, died: int) -> None:
    from mvcs.train.lightning import MvcsCallback

    def made(die_after: int | None = None) -> Net:
        lightning.seed_everything(7, verbose=False)
        return TwoOptimizers(die_after)

    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(KilledError):
            fit(tmp_path, made(died), MvcsCallback(repo, every=1))
        assert repo.head().step == 2 * died - 1
        again = fit(tmp_path, made(), MvcsCallback(repo, every=1))
        assert again.steps == BATCHES * EPOCHS - died
        assert again.weights() == fit(tmp_path, made(), enable_checkpointing=False).weights()


def test_the_same_trainer_goes_on_after_an_exception(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        net = seeded(8)
        lightning.seed_everything(7, verbose=False)
        made = trainer(tmp_path, MvcsCallback(repo, every=1))
        loaders = (
            stateful_dataloader.StatefulDataLoader(data(), batch_size=4, shuffle=True),
            DataLoader(data(), batch_size=8),
        )
        with pytest.raises(KilledError):
            made.fit(net, *loaders)
        net.die_after = None
        made.fit(net, *loaders)
        assert [commit.step for commit in repo.log()] == list(reversed(range(BATCHES * EPOCHS)))
        assert net.weights() == whole(tmp_path)


def test_options_reach_the_hook(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

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
        fit(tmp_path, seeded(), callback, epochs=1)
        state = repo.checkout("other", exact=True)
        assert state["extra"]["note"] == 3
        assert state["rng"] is None
        assert [(commit.message, commit.step) for commit in told] == [("step 5", 5)]
        assert told[0].errors


def test_a_commit_of_another_kind_of_run_is_refused(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        net = seeded()
        with Checkpointer(repo, net, torch.optim.SGD(net.parameters(), lr=0.1)) as plain:
            plain.save(0)
        with pytest.raises(UsageError, match="not of a run of Lightning"):
            fit(tmp_path, seeded(), MvcsCallback(repo))


def test_a_run_that_ended_within_an_epoch_goes_on(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        fit(tmp_path, seeded(), MvcsCallback(repo, every=1), max_steps=9)
        assert repo.head().step == 8
        assert fit(tmp_path, seeded(), MvcsCallback(repo, every=1)).weights() == whole(tmp_path)


def test_a_callback_begins_anew_with_another_trainer(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        callback = MvcsCallback(repo, every=3, resume=False)
        fit(tmp_path, seeded(), callback, epochs=1)
        fit(tmp_path, seeded(), callback, epochs=1)
        assert [commit.step for commit in repo.log()] == [5, 2, 5, 2]


def test_commits_are_checked_by_evaluation(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    def evaluate(model: nn.Module) -> float:
        model.eval()
        return float(model.layers(data().tensors[0]).square().mean()) + 1

    with Repository.init(tmp_path / "run") as repo:
        callback = MvcsCallback(repo, every=3, evaluate=evaluate, max_degradation=0.5)
        net = fit(tmp_path, seeded(), callback)
        assert net.weights() == whole(tmp_path)
        commits = list(repo.log())
        assert {commit.exactness for commit in commits} == {"bounded"}
        assert all(commit.degradation <= 0.5 for commit in commits)
        assert not callback.checkpointer.failures


def test_the_published_method_averages_the_gradients_of_a_run(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    def evaluate(model: nn.Module) -> float:
        model.eval()
        return float(model.layers(data().tensors[0]).square().mean()) + 1

    with Repository.init(tmp_path / "run") as repo:
        options = {"method": "inshrinkerator", "max_degradation": 0.5}
        callback = MvcsCallback(repo, every=3, evaluate=evaluate, **options)
        net = fit(tmp_path, seeded(), callback)
        assert net.weights() == whole(tmp_path)
        assert not callback.checkpointer.failures
        newest = repo.show(next(iter(repo.log())).id)
        assert newest.quantizer["protect_metric"] == "sensitivity"


@pytest.mark.parametrize("options", [{"epochs": 2}, {"max_steps": 9}, {"max_steps": 4}])
def test_the_end_of_a_run_is_committed_and_goes_on(tmp_path: Path, options: dict[str, Any]) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        fit(tmp_path, seeded(), MvcsCallback(repo, every=7), **options)
        last = options.get("max_steps", 12) - 1
        assert [commit.step for commit in repo.log()] == [last, 6][: 1 + (last > 6)]
        callback = MvcsCallback(repo, every=7)
        assert fit(tmp_path, seeded(), callback).weights() == whole(tmp_path)
        assert callback.restored.commit.step == last
        assert repo.head().step == 17


class StopAt(lightning.Callback):
    """Ends the run after a validation within an epoch."""

    def on_validation_end(self, made: Any, _module: Any) -> None:
        made.should_stop = made.global_step == 8


def test_a_run_that_is_stopped_by_its_validation_is_committed(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    options = {"val_check_interval": 2}
    with Repository.init(tmp_path / "run") as repo:
        fit(tmp_path, seeded(), MvcsCallback(repo, every=100), StopAt(), **options)
        assert [commit.step for commit in repo.log()] == [7]
        again = fit(tmp_path, seeded(), MvcsCallback(repo, every=100), **options)
        assert repo.head().step == again.steps + 7


def test_a_killed_run_has_no_end(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(KilledError):
            fit(tmp_path, seeded(9), MvcsCallback(repo, every=4))
        assert [commit.step for commit in repo.log()] == [7, 3]
        fit(tmp_path, seeded(), MvcsCallback(repo, every=100, final=False))
        assert repo.head().step == 7


class Halves(Net):
    """The same in 16 bits, with an optimizer that keeps some of its state in 32."""

    def __init__(self, die_after: int | None = None, **options: Any) -> None:
        super().__init__(die_after, **options)
        self.bfloat16()

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        return super().training_step([one.bfloat16() for one in batch], index)

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        return super().validation_step([one.bfloat16() for one in batch], index)

    def configure_optimizers(self) -> Any:
        trained = (one for one in self.parameters() if one.requires_grad)
        return torch.optim.NAdam(trained, lr=1e-2)

    def weights(self) -> list[bytes]:
        return [value.detach().float().numpy().tobytes() for value in self.state_dict().values()]


class Unfreeze(lightning.callbacks.BaseFinetuning):
    """Trains the first layers from the second epoch on."""

    def freeze_before_training(self, net: Net) -> None:
        self.freeze(net.layers[:2], train_bn=False)

    def finetune_function(self, net: Net, epoch: int, optimizer: Any) -> None:
        if epoch == 1:
            self.unfreeze_and_add_param_group(net.layers[:2], optimizer, lr=1e-3)


@pytest.mark.parametrize("kind", [Net, Halves])
@pytest.mark.parametrize("died", [4, 6, 8, 12, 14])
def test_a_layer_that_was_unfrozen_is_trained_again(tmp_path: Path, kind: Any, died: int) -> None:
    from mvcs.train.lightning import MvcsCallback

    def made(die_after: int | None = None) -> Any:
        lightning.seed_everything(7, verbose=False)
        return kind(die_after)

    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(KilledError):
            fit(tmp_path, made(died), MvcsCallback(repo, every=1), Unfreeze())
        callback = MvcsCallback(repo, every=1)
        again = fit(tmp_path, made(), callback, Unfreeze())
        assert callback.restored.commit.step == died - 1
        assert again.weights() == fit(tmp_path, made(), Unfreeze(), enable_checkpointing=False).weights()


class Grouped(Net):
    """The same with a group of parameters and a schedule for each layer, in any order."""

    def __init__(
        self, die_after: int | None = None, *, layers: tuple[int, ...] = (3, 1, 0), **adam: Any
    ) -> None:
        super().__init__(die_after)
        self.order, self.adam = layers, adam

    def configure_optimizers(self) -> Any:
        turned = 1 if self.order[0] == 3 else -1
        optimizer = torch.optim.AdamW(
            [
                {"params": [*self.layers[one].parameters()][::turned], "lr": 1e-2 * (one + 1)}
                for one in self.order
            ],
            **self.adam,
        )
        factors = [lambda epoch, one=one: (1 - one / 10) ** epoch for one in self.order]
        return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, factors)]


def grouped(die_after: int | None = None, **options: Any) -> Net:
    lightning.seed_everything(7, verbose=False)
    return Grouped(die_after, **options)


@pytest.mark.parametrize("died", [5, 6, 8])
def test_moments_go_to_the_parameters_of_their_names(
    tmp_path: Path, died: int, caplog: pytest.LogCaptureFixture
) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(KilledError):
            fit(tmp_path, grouped(died), MvcsCallback(repo, every=1))
        again = fit(tmp_path, grouped(layers=(0, 3, 1)), MvcsCallback(repo, every=1))
        assert again.weights() == fit(tmp_path, grouped(), enable_checkpointing=False).weights()
    assert "they are matched by name" in caplog.text


def test_an_optimizer_of_other_parameters_is_refused(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        fit(tmp_path, grouped(), MvcsCallback(repo, every=6), epochs=1)
        with pytest.raises(UsageError, match="does not fit the optimizer"):
            fit(tmp_path, seeded(), MvcsCallback(repo, every=6))


def test_the_settings_that_a_commit_replaces_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        fit(tmp_path, grouped(), MvcsCallback(repo, every=6), epochs=1)
        fit(tmp_path, grouped(weight_decay=0.5), MvcsCallback(repo, every=6))
    assert "the commit's settings replace the script's: weight_decay 0.5 -> 0.01" in caplog.text


class Scheduled(lightning.Callback):
    """Notes rates as training starts."""

    def on_train_start(self, made: Any, _module: Any) -> None:
        self.rates = [group["lr"] for group in made.optimizers[0].param_groups]


class Constant(Net):
    """The same without a schedule."""

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=3e-2)


def test_a_new_schedule_begins_with_its_own_rates(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    seen = Scheduled()
    with Repository.init(tmp_path / "run") as repo:
        fit(tmp_path, Constant(), MvcsCallback(repo, every=6), epochs=1)
        fit(tmp_path, seeded(), MvcsCallback(repo, every=6), seen)
    assert seen.rates == [1e-2]


def test_other_callbacks_find_optimizers_restored_as_training_starts(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    seen = Scheduled()
    with Repository.init(tmp_path / "run") as repo:
        fit(tmp_path, seeded(), MvcsCallback(repo, every=6), epochs=2)
        fit(tmp_path, seeded(), seen, MvcsCallback(repo, every=6))
    assert seen.rates == [pytest.approx(1e-2 * 0.7**2)]


def test_what_evaluate_changes_is_named_and_undone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from mvcs.train.lightning import MvcsCallback

    net = seeded()

    def evaluate(model: nn.Module) -> float:
        for state in net.trainer.optimizers[0].state.values():
            state["exp_avg"].mul_(0.5)
        net.trainer.lr_scheduler_configs[0].scheduler.step()
        model.eval()
        return float(model.layers(data().tensors[0]).square().mean()) + 1

    with Repository.init(tmp_path / "run") as repo, caplog.at_level(logging.WARNING, "mvcs.train"):
        callback = MvcsCallback(repo, every=3, evaluate=evaluate, max_degradation=0.5)
        assert fit(tmp_path, net, callback).weights() == whole(tmp_path)
        assert not callback.checkpointer.failures
    named = {"optimizer.optimizer_states.0", "scheduler.lr_schedulers.0"}
    assert all(f"evaluate changed {name}, and so training" in caplog.text for name in named)
