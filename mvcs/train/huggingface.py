"""Hugging Face Transformers: a callback that commits a run of the `Trainer` and resumes it."""

import atexit
import contextlib
import dataclasses
import json
import random
from typing import Any, Unpack

import numpy as np
import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from mvcs.errors import UsageError
from mvcs.local_files import scratch_folder
from mvcs.repository import Repository
from mvcs.train.callbacks import Handed, HandedModel, check_kind, numbers, with_part
from mvcs.train.checkpointer import Checkpointer
from mvcs.train.options import CheckpointerOptions, Process, listed
from mvcs.train.saving.report import Resumed

# What the trainer calls them in a folder of its own.
_MODEL, _STATE, _GENERATORS = "pytorch_model.bin", "trainer_state.json", "rng_state.pth"


class MvcsCallback(TrainerCallback):
    """Commits model, optimizer, schedule, scaler, random generators and the trainer's own state.

    Give it to `Trainer(callbacks=[...])` and call `trainer.train(resume_from_checkpoint=callback.resume())`.
    A step is one of the optimizer. Tested with one process; others are refused.

    Attributes:
        checkpointer: what commits, while `train` runs and after.
    """

    @listed
    def __init__(self, repo: Repository, **options: Unpack[CheckpointerOptions]) -> None:
        """Commit to `repo`.

        Args:
            repo: where to commit; used from a second thread until `train` ends.
            options: those of `mvcs.train.Checkpointer`.
        """
        self.checkpointer: Checkpointer | None = None
        self._repo = repo
        self._options = options
        self._live: dict[str, Any] = {}
        self._loaded: dict[str, Any] = {}
        self._folder = contextlib.ExitStack()
        self._running = self._ready = False
        self._seen = 0

    @property
    def restored(self) -> Resumed | None:
        """What `resume` has found."""
        return None if self.checkpointer is None else self.checkpointer.restored

    def resume(self) -> str | None:
        """Return a folder for `resume_from_checkpoint`, or None without a whole state to continue from.

        It has the model and where the trainer was; the rest is loaded as training begins. It lies in `.mvcs`,
        takes as much as the model, and is deleted as the first step begins.

        Raises:
            MvcsError: the state cannot be read, or is none of such a run.
        """
        self._close()
        self.checkpointer, self._ready = self._made(), True
        if not self.checkpointer.resume():
            return None
        check_kind(self._loaded, {"trainer"}, "the Hugging Face trainer")
        top = self._repo.top
        folder = self._folder.enter_context(scratch_folder(None if top is None else top / ".mvcs"))
        torch.save(self._loaded.pop("model"), folder / _MODEL)
        (folder / _STATE).write_text(json.dumps(self._loaded.pop("trainer"), sort_keys=True))
        if Process.of(self._options).rng:
            torch.save(_generators(), folder / _GENERATORS)
        return str(folder)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Restore optimizer, schedule and scaler, and begin to commit.

        Raises:
            UsageError: there are several processes, or a state does not fit what is there.
        """
        del control
        if args.world_size > 1:
            raise UsageError(
                f"a run of {args.world_size} processes cannot be committed", hint="train with one process"
            )
        if not self._ready or self.checkpointer is None:
            self._close()
            self.checkpointer = self._made()
        self._live = {
            **kwargs,
            "scheduler": kwargs["lr_scheduler"],
            "scaler": getattr(kwargs["optimizer"], "scaler", None),
            "trainer": state,
        }
        loaded, self._loaded = self._loaded, {}
        if loaded and state.global_step:
            self.checkpointer.load_inside(loaded)
        self._seen, self._ready, self._running = state.global_step, False, True
        self.checkpointer.__enter__()
        # The trainer does not say when an exception ends it.
        atexit.register(self._close)

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Commit the last step of the epoch before, when it is due."""
        del args, control, kwargs
        self._commit(state)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Commit the step before, when it is due.

        By now it is logged and evaluated, and the next batch is drawn: where the trainer puts the random
        generators back when it resumes.
        """
        del args, control, kwargs
        self._clean_up()
        self._commit(state)

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Commit the last step before the trainer puts the best weights in place of its own."""
        del kwargs
        if args.load_best_model_at_end and control.should_training_stop and not control.should_save:
            self._commit_last(state)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Do the same where the trainer saves what it compares: after evaluation."""
        del kwargs
        if args.load_best_model_at_end and control.should_training_stop:
            self._commit_last(state)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Commit the last step and what is queued."""
        del control, kwargs
        self._commit(state)
        if not args.load_best_model_at_end:
            self._commit_last(state)
        self._close()

    def _commit_last(self, state: TrainerState) -> None:
        self._commit(state)
        if self.checkpointer is not None:
            self.checkpointer.commit_last()

    def _commit(self, state: TrainerState) -> None:
        if self.checkpointer is not None and state.global_step != self._seen:
            self._seen, self._live["trainer"] = state.global_step, state
            said = [entry for entry in state.log_history if entry.get("step") == self._seen]
            metrics = {name: value for entry in said for name, value in numbers(entry).items()}
            metrics.pop("step", None)
            self.checkpointer.after_step(self._seen - 1, metrics)

    def _clean_up(self) -> None:
        # The trainer has read all of it when the first step begins, generators last.
        self._folder.close()

    def _close(self) -> None:
        atexit.unregister(self._close)
        self._clean_up()
        if self._running and self.checkpointer is not None:
            self._running = False
            self.checkpointer.close()

    def _made(self) -> Checkpointer:
        def part(name: str) -> Handed:
            return Handed(
                lambda: _state_of(self._live.get(name)),
                lambda state: self._loaded.update({name: state}),
                lambda: {"": self._live.get(name)},
            )

        return Checkpointer(
            self._repo,
            HandedModel(
                lambda: _state_of(self._live.get("model")),
                lambda state: self._loaded.update({"model": state}),
                lambda: self._live["model"],
            ),
            part("optimizer"),
            scheduler=part("scheduler"),
            scaler=part("scaler"),
            **with_part(self._options, "trainer", part("trainer")),
        )


def _state_of(part: Any) -> dict[str, Any]:  # noqa: ANN401 - model, optimizer, schedule, or the trainer's state
    if part is None:
        return {}
    if not isinstance(part, TrainerState):
        return dict(part.state_dict())
    # As the trainer writes it to a file.
    return dict(json.loads(json.dumps(dataclasses.asdict(part))))


def _generators() -> dict[str, object]:
    """Return the states of the random generators, which were just put back, as the trainer keeps them."""
    states: dict[str, object] = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # noqa: NPY002 - the global one
        "cpu": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states
