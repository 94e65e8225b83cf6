"""Runs of the Hugging Face trainer under version control: killed anywhere, they go on bit for bit."""

import logging
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from mvcs.errors import UsageError
from mvcs.local_files import SCRATCH
from mvcs.repository import Repository
from mvcs.train import Checkpointer

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore")]

STEPS_A_EPOCH, EPOCHS = 6, 3


class KilledError(Exception):
    """Ends a run in the middle."""


class Points(Dataset):
    """A few points."""

    def __init__(self, batch: int) -> None:
        self.x = torch.randn(STEPS_A_EPOCH * batch, 3, generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": self.x[index], "labels": self.x[index].sum()}


class Net(nn.Module):
    """A small net with dropout and tied weights."""

    def __init__(self, die_after: int | None = None, *, terminate: bool = False, tied: bool = True) -> None:
        super().__init__()
        middle = nn.Linear(8, 8)
        again = middle if tied else nn.Linear(8, 8)
        self.layers = nn.Sequential(nn.Linear(3, 8), middle, nn.Dropout(0.3), again, nn.Linear(8, 1))
        self.die_after, self.terminate = die_after, terminate
        self.calls = 0

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.training:
            if self.calls == self.die_after:
                if not self.terminate:
                    raise KilledError
                os.kill(os.getpid(), signal.SIGTERM)
            self.calls += 1
        y = self.layers(x)[:, 0]
        return {"loss": (y - labels).square().mean(), "y": y}

    def weights(self) -> list[bytes]:
        return [value.detach().numpy().tobytes() for value in self.state_dict().values()]


def trainer(
    folder: Path,
    net: Net,
    *callbacks: Any,
    accumulated: int = 1,
    points: int = 0,
    optimizer: Any = None,
    **options: Any,
) -> Any:
    torch.set_num_threads(1)
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "out"),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=accumulated,
        learning_rate=1e-2,
        use_cpu=True,
        report_to=[],
        eval_steps=2,
        save_steps=2,
        logging_steps=1,
        disable_tqdm=True,
        seed=7,
        **{"num_train_epochs": EPOCHS, "eval_strategy": "steps", "save_strategy": "no", **options},
    )
    return transformers.Trainer(
        model=net,
        args=arguments,
        train_dataset=Points(points or 4 * accumulated),
        eval_dataset=Points(2),
        callbacks=list(callbacks),
        optimizers=(optimizer and optimizer(net), None),
    )


def train(folder: Path, net: Net, callback: Any = None, **options: Any) -> Net:
    made = trainer(folder, net, *([] if callback is None else [callback]), **options)
    made.train(resume_from_checkpoint=None if callback is None else callback.resume())
    return net


def seeded(die_after: int | None = None, **options: Any) -> Net:
    torch.manual_seed(7)
    return Net(die_after, **options)


@pytest.mark.parametrize("died", [1, 5, 6, 7, 12, 15])
def test_a_killed_run_goes_on_exactly(tmp_path: Path, died: int) -> None:
    from mvcs.train.huggingface import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        callback = MvcsCallback(repo, every=1, step_size=0.5)
        with pytest.raises(KilledError):
            train(tmp_path, seeded(died), callback)
        callback.checkpointer.flush()
        assert repo.head().step == died - 1
        again = MvcsCallback(repo, every=1, step_size=0.5)
        resumed = train(tmp_path, seeded(), again)
        assert again.restored.commit.step == died - 1
        assert not again.restored.lossy
        assert resumed.calls == STEPS_A_EPOCH * EPOCHS - died
        assert resumed.weights() == train(tmp_path, seeded()).weights()
        assert repo.head().step == STEPS_A_EPOCH * EPOCHS - 1
        assert {"loss", "eval_loss", "epoch"} <= set(repo.head().metrics)
    assert not list(tmp_path.rglob("checkpoint-*"))
    assert not list((tmp_path / "run/.mvcs").glob(f"{SCRATCH}*"))


def test_accumulated_batches_are_one_step(tmp_path: Path) -> None:
    from mvcs.train.huggingface import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        callback = MvcsCallback(repo, every=1, step_size=0.5)
        with pytest.raises(KilledError):
            train(tmp_path, seeded(20), callback, accumulated=3)
        callback.checkpointer.flush()
        assert [commit.step for commit in repo.log()] == [5, 4, 3, 2, 1, 0]
        resumed = train(tmp_path, seeded(), MvcsCallback(repo, every=1), accumulated=3)
        assert resumed.weights() == train(tmp_path, seeded(), accumulated=3).weights()


@pytest.mark.parametrize("step", [8, 11])
def test_sigterm_commits_and_ends_the_run(tmp_path: Path, step: int) -> None:
    from mvcs.train.huggingface import MvcsCallback

    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with Repository.init(tmp_path / "run") as repo:
            with pytest.raises(SystemExit) as ended:
                train(tmp_path, seeded(step, terminate=True), MvcsCallback(repo, every=100))
            assert ended.value.code == 143
            assert [commit.step for commit in repo.log()] == [step]
            resumed = train(tmp_path, seeded(), MvcsCallback(repo, every=100))
            assert resumed.weights() == train(tmp_path, seeded()).weights()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_weights_of_their_own_cadence(tmp_path: Path) -> None:
    from mvcs.train.huggingface import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        train(tmp_path, seeded(), MvcsCallback(repo, every=6, weights_every=2, step_size=0.5))
        kinds = [(commit.step, commit.weights_only) for commit in repo.log()][:4]
        assert kinds == [(17, False), (15, True), (13, True), (11, False)]


@pytest.mark.parametrize("died", [5, 6, 9])
def test_batches_left_over_at_the_end_of_an_epoch_are_a_step(tmp_path: Path, died: int) -> None:
    from mvcs.train.huggingface import MvcsCallback

    options = {"accumulated": 4, "points": 4, "eval_strategy": "epoch"}
    with Repository.init(tmp_path / "run") as repo:
        callback = MvcsCallback(repo, every=1)
        with pytest.raises(KilledError):
            train(tmp_path, seeded(died), callback, **options)
        callback.checkpointer.flush()
        resumed = train(tmp_path, seeded(), MvcsCallback(repo, every=1), **options)
        assert resumed.weights() == train(tmp_path, seeded(), **options).weights()


def test_the_same_trainer_goes_on_after_an_exception(tmp_path: Path) -> None:
    from mvcs.train.huggingface import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        net, callback = seeded(8), MvcsCallback(repo, every=1)
        made = trainer(tmp_path, net, callback)
        with pytest.raises(KilledError):
            made.train(resume_from_checkpoint=callback.resume())
        net.die_after = None
        made.train(resume_from_checkpoint=callback.resume())
        assert [commit.step for commit in repo.log()] == list(reversed(range(STEPS_A_EPOCH * EPOCHS)))
        assert net.weights() == train(tmp_path, seeded()).weights()


def test_a_second_training_goes_on_in_the_same_line(tmp_path: Path) -> None:
    from mvcs.train.huggingface import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        callback = MvcsCallback(repo, every=3)
        made = trainer(tmp_path, seeded(), callback, num_train_epochs=1)
        made.train()
        made.train()
        assert [commit.step for commit in repo.log()] == [5, 2, 5, 2]
        assert not callback.checkpointer.failures


def test_options_reach_the_hook(tmp_path: Path) -> None:
    from mvcs.train.huggingface import MvcsCallback

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
        train(tmp_path, seeded(), callback, num_train_epochs=1)
        state = repo.checkout("other", exact=True)
        assert state["extra"]["note"] == 3
        assert state["rng"] is None
        assert [(commit.message, commit.step) for commit in told] == [("step 5", 5)]
        assert told[0].errors


def test_a_commit_of_another_kind_of_run_is_refused(tmp_path: Path) -> None:
    from mvcs.train.huggingface import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        net = seeded()
        with Checkpointer(repo, net, torch.optim.SGD(net.parameters(), lr=0.1)) as plain:
            plain.save(0)
        with pytest.raises(UsageError, match="not of a run of the Hugging Face trainer"):
            MvcsCallback(repo).resume()


def test_a_run_that_ended_within_an_epoch_goes_on(tmp_path: Path) -> None:
    from mvcs.train.huggingface import MvcsCallback

    options = {"lr_scheduler_type": "constant", "eval_strategy": "no"}
    with Repository.init(tmp_path / "run") as repo:
        train(tmp_path, seeded(), MvcsCallback(repo, every=1), max_steps=9, **options)
        assert repo.head().step == 8
        resumed = train(tmp_path, seeded(), MvcsCallback(repo, every=1), **options)
        assert resumed.weights() == train(tmp_path, seeded(), **options).weights()


@pytest.mark.parametrize("every", [1, 100])
@pytest.mark.parametrize("when", ["steps", "epoch"])
def test_the_last_step_is_committed_and_not_the_best(tmp_path: Path, when: str, every: int) -> None:
    from mvcs.train.huggingface import MvcsCallback

    options = {"save_strategy": when, "eval_strategy": when, "num_train_epochs": 2}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "loss", "greater_is_better": True}
    with Repository.init(tmp_path / "run") as repo:
        net = train(tmp_path, seeded(tied=False), MvcsCallback(repo, every=every), **options, **best)
        stored = [value.numpy().tobytes() for value in repo.checkout()["model"].values()]
        assert stored == train(tmp_path, seeded(tied=False), **options).weights()
        assert net.weights() != stored  # the worst counts as the best here
        assert repo.head().step == 2 * STEPS_A_EPOCH - 1
        assert "eval_loss" in repo.head().metrics


def test_commits_are_checked_by_evaluation(tmp_path: Path) -> None:
    from mvcs.train.huggingface import MvcsCallback

    def evaluate(model: nn.Module) -> float:
        model.eval()
        return float(model(torch.ones(4, 3), torch.ones(4, 1))["loss"]) + 1

    with Repository.init(tmp_path / "run") as repo:
        callback = MvcsCallback(repo, every=3, evaluate=evaluate, max_degradation=0.5)
        net = train(tmp_path, seeded(), callback)
        assert net.weights() == train(tmp_path, seeded()).weights()
        commits = list(repo.log())
        assert {commit.exactness for commit in commits} == {"bounded"}
        assert all(commit.degradation <= 0.5 for commit in commits)
        assert not callback.checkpointer.failures


def test_the_published_method_averages_the_gradients_of_a_run(tmp_path: Path) -> None:
    from mvcs.train.huggingface import MvcsCallback

    def evaluate(model: nn.Module) -> float:
        model.eval()
        return float(model(torch.ones(4, 3), torch.ones(4, 1))["loss"]) + 1

    with Repository.init(tmp_path / "run") as repo:
        options = {"method": "inshrinkerator", "max_degradation": 0.5}
        callback = MvcsCallback(repo, every=3, evaluate=evaluate, **options)
        net = train(tmp_path, seeded(), callback)
        assert net.weights() == train(tmp_path, seeded()).weights()
        assert not callback.checkpointer.failures
        newest = repo.show(next(iter(repo.log())).id)
        assert newest.quantizer["protect_metric"] == "sensitivity"


@pytest.mark.parametrize("options", [{"num_train_epochs": 2}, {"max_steps": 9}])
def test_the_end_of_a_run_is_committed_and_goes_on(tmp_path: Path, options: dict[str, Any]) -> None:
    from mvcs.train.huggingface import MvcsCallback

    constant = {"lr_scheduler_type": "constant", "eval_strategy": "no"}
    with Repository.init(tmp_path / "run") as repo:
        train(tmp_path, seeded(), MvcsCallback(repo, every=7), **options, **constant)
        last = options.get("max_steps", 12) - 1
        assert [commit.step for commit in repo.log()] == [last, 6]
        resumed = train(tmp_path, seeded(), MvcsCallback(repo, every=7), **constant)
        assert resumed.weights() == train(tmp_path, seeded(), **constant).weights()
        assert repo.head().step == 17


def test_a_killed_run_has_no_end(tmp_path: Path) -> None:
    from mvcs.train.huggingface import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        callback = MvcsCallback(repo, every=4)
        with pytest.raises(KilledError):
            train(tmp_path, seeded(10), callback)
        callback._close()
        assert [commit.step for commit in repo.log()] == [7, 3]


class Halves(Net):
    """The same in 16 bits."""

    def __init__(self, die_after: int | None = None) -> None:
        super().__init__(die_after)
        self.bfloat16()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return super().forward(x.bfloat16(), labels.bfloat16())

    def weights(self) -> list[bytes]:
        return [value.detach().float().numpy().tobytes() for value in self.state_dict().values()]


def test_states_of_32_bits_beside_weights_of_16_stay_so(tmp_path: Path) -> None:
    from mvcs.train.huggingface import MvcsCallback

    def made(die_after: int | None = None) -> Halves:
        torch.manual_seed(7)
        return Halves(die_after)

    options = {"optim": "adafactor", "eval_strategy": "no"}
    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(KilledError):
            train(tmp_path, made(7), MvcsCallback(repo, every=1), **options)
        resumed = train(tmp_path, made(), MvcsCallback(repo, every=1), **options)
        assert resumed.weights() == train(tmp_path, made(), **options).weights()


def grouped(net: Net, order: tuple[int, ...] = (0, 1, 4)) -> torch.optim.Optimizer:
    """Return an optimizer with a group for each layer, in any order."""
    turned = 1 if order[0] == 0 else -1
    return torch.optim.AdamW(
        [{"params": [*net.layers[one].parameters()][::turned], "lr": 1e-2 * (one + 1)} for one in order]
    )


@pytest.mark.parametrize("died", [5, 6])
def test_moments_go_to_the_parameters_of_their_names(
    tmp_path: Path, died: int, caplog: pytest.LogCaptureFixture
) -> None:
    from mvcs.train.huggingface import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(KilledError):
            train(tmp_path, seeded(died), MvcsCallback(repo, every=1), optimizer=grouped)
        moved = partial(grouped, order=(4, 0, 1))
        again = train(tmp_path, seeded(), MvcsCallback(repo, every=1), optimizer=moved)
        assert again.weights() == train(tmp_path, seeded(), optimizer=grouped).weights()
    assert "they are matched by name" in caplog.text


def test_an_optimizer_of_other_parameters_is_refused(tmp_path: Path) -> None:
    from mvcs.train.huggingface import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        train(tmp_path, seeded(), MvcsCallback(repo, every=6), optimizer=grouped, num_train_epochs=1)
        with pytest.raises(UsageError, match="does not fit the optimizer"):
            train(tmp_path, seeded(), MvcsCallback(repo, every=6))


def test_the_settings_that_a_commit_replaces_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from mvcs.train.huggingface import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        train(tmp_path, seeded(), MvcsCallback(repo, every=6), num_train_epochs=1)
        train(tmp_path, seeded(), MvcsCallback(repo, every=6), weight_decay=0.5)
    assert "the commit's settings replace the script's: weight_decay 0.5 -> 0.0" in caplog.text


def test_what_evaluate_changes_is_named_and_undone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from mvcs.train.huggingface import MvcsCallback

    made: Any = None

    def evaluate(model: nn.Module) -> float:
        for state in made.optimizer.state.values():
            state["exp_avg"].mul_(0.5)
        made.lr_scheduler.step()
        model.eval()
        return float(model(torch.ones(4, 3), torch.ones(4, 1))["loss"]) + 1

    with Repository.init(tmp_path / "run") as repo, caplog.at_level(logging.WARNING, "mvcs.train"):
        callback, net = MvcsCallback(repo, every=3, evaluate=evaluate, max_degradation=0.5), seeded()
        made = trainer(tmp_path, net, callback)
        made.train()
        assert net.weights() == train(tmp_path, seeded()).weights()
        assert not callback.checkpointer.failures
    named = {"optimizer", "scheduler"}
    assert all(f"evaluate changed {name}, and so training" in caplog.text for name in named)
