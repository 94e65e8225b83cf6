"""MosaicML Composer: a callback that commits a run and resumes it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Unpack

import torch
from composer.core import Callback, State
from composer.loggers import Logger
from composer.utils import dist, ensure_tuple

from mvcs.errors import UsageError
from mvcs.repository import Repository
from mvcs.train.callbacks import Handed, HandedModel, check_kind, numbers, with_part
from mvcs.train.checkpointer import Checkpointer
from mvcs.train.options import CheckpointerOptions, Process, listed
from mvcs.train.saving.report import Resumed
from mvcs.train.state import rng

_MODEL, _OPTIMIZERS, _SCHEDULERS, _SCALER = "model", "optimizers", "schedulers", "scaler"
_TIMESTAMP, _DRAWS, _WALL_CLOCK = "timestamp", "draws", "_wct"
# Of the machine and the libraries; and a resumed run has a name of its own, as with Composer's files.
_LEFT_OUT = ("integrations", "metadata", "run_name")


class MvcsCallback(Callback):
    """Commits what Composer puts into its own checkpoints, with the random generators beside it.

    Give it to `Trainer(callbacks=[...])`. The trainer then goes on from the newest whole state of the branch,
    or begins where there is none; a file of its `load_path` is loaded first. A step is a batch, however many
    pieces it is trained in. Tested with one process; others are refused.

    Attributes:
        checkpointer: what commits, while `fit` runs and after.
    """

    @listed
    def __init__(
        self, repo: Repository, *, resume: bool = True, **options: Unpack[CheckpointerOptions]
    ) -> None:
        """Commit to `repo`.

        Args:
            repo: where to commit; used from a second thread until `fit` ends.
            resume: whether the trainer goes on from the newest commit of the branch.
            options: those of `mvcs.train.Checkpointer`.
        """
        super().__init__()
        self.checkpointer: Checkpointer | None = None
        self._repo = repo
        self._resume = resume
        self._options = options
        self._dump: dict[str, Any] = {}
        self._loaded: dict[str, Any] = {}
        self._draws: dict[str, Any] = {}
        self._generators: dict[str, Any] | None = None
        self._running = self._ready = False
        self._fetched = self._seen = 0

    @property
    def restored(self) -> Resumed | None:
        """What the trainer went on from."""
        return None if self.checkpointer is None else self.checkpointer.restored

    def after_load(self, state: State, logger: Logger) -> None:
        """Restore everything but the random generators: the trainer seeds them after this.

        Raises:
            MvcsError: there are several processes, or the state cannot be read, or is none of such a run.
        """
        if dist.get_world_size() > 1:
            raise UsageError(
                f"a run of {dist.get_world_size()} processes cannot be committed",
                hint="train with one process",
            )
        self._generators, self._ready = None, True
        self.checkpointer = self._made(state)
        if self._resume and self.checkpointer.resume():
            self._take_over(self.checkpointer, state, logger)

    def fit_start(self, state: State, logger: Logger) -> None:
        """Begin to commit."""
        del logger
        if not self._ready or self.checkpointer is None:
            self._finish()
            self.checkpointer = self._made(state)
        self._running, self._ready, self._fetched = True, False, 0
        self._seen = int(state.timestamp.batch)
        self.checkpointer.__enter__()

    def epoch_start(self, state: State, logger: Logger) -> None:
        """Commit the last step of the epoch before, or put the generators back to this moment."""
        del logger
        self._put_back(state)
        self._commit(state)

    def before_dataloader(self, state: State, logger: Logger) -> None:
        """Note how an epoch's order is drawn, or draw it again: Composer skips what a run has seen."""
        del logger
        if self._generators is None:
            if int(state.timestamp.batch_in_epoch) == 0:
                self._draws = _draws(state)
            return
        if self._fetched == 0:
            _redraw(state, self._draws)
        if self._fetched == int(state.timestamp.batch_in_epoch) or "train" in state.dataset_resumption:
            self._put_back(state)
        self._fetched += 1

    def after_dataloader(self, state: State, logger: Logger) -> None:
        """Put the generators back at the latest: the trainer was told to skip nothing."""
        del logger
        self._put_back(state)

    def batch_checkpoint(self, state: State, logger: Logger) -> None:
        """Commit the step, evaluated by now, when it is due; an epoch's last one waits for the next."""
        del logger
        if state.dataloader_len is None or state.timestamp.batch_in_epoch != state.dataloader_len:
            self._commit(state)
            if self.checkpointer is not None and not state.timestamp < state.max_duration:
                self.checkpointer.commit_last()

    def fit_end(self, state: State, logger: Logger) -> None:
        """Commit the last step and what is queued."""
        del logger
        self._commit(state)
        if self._running and self.checkpointer is not None:
            self.checkpointer.commit_last()
        self._finish()

    def close(self, state: State, logger: Logger) -> None:
        """Commit what is queued."""
        del state, logger
        self._finish()

    def _commit(self, state: State) -> None:
        if self.checkpointer is not None and int(state.timestamp.batch) != self._seen:
            self._seen = int(state.timestamp.batch)
            self.checkpointer.after_step(self._seen - 1, _metrics(state))

    def _finish(self) -> None:
        if self._running and self.checkpointer is not None:
            self._running = False
            self.checkpointer.close()

    def _put_back(self, state: State) -> None:
        if self._generators is not None:
            _redraw(state, self._generators)
            self._generators = None

    def _made(self, state: State) -> Checkpointer:
        def give_model() -> dict[str, Any]:
            # The first part that is asked for; the others are of the same moment.
            self._dump = state.state_dict()
            return dict(self._dump.pop(_MODEL))

        def part(key: str) -> Handed:
            def inside() -> dict[str, Any]:
                return {type(one).__qualname__: one for one in ensure_tuple(getattr(state, key))}

            def give() -> dict[str, Any]:
                # By position, as torch loads them; Composer's own have the names of parameters inside.
                self._dump.pop(key, None)
                return {name: one.state_dict() for name, one in inside().items()}

            return Handed(give, lambda saved: self._loaded.update({key: saved}), inside)

        def give_rest() -> dict[str, Any]:
            rest, self._dump = self._dump, {}
            rest[_TIMESTAMP] = {name: _in_seconds(times) for name, times in rest[_TIMESTAMP].items()}
            rest[_DRAWS] = {"epoch": self._draws, "loader": _drawn_by_loader(state)}
            return {name: value for name, value in rest.items() if name not in _LEFT_OUT}

        return Checkpointer(
            self._repo,
            HandedModel(give_model, lambda saved: self._loaded.update({_MODEL: saved}), lambda: state.model),
            part(_OPTIMIZERS),
            scheduler=part(_SCHEDULERS),
            scaler=part(_SCALER),
            **with_part(self._options, "composer", Handed(give_rest, self._loaded.update)),
        )

    def _take_over(self, checkpointer: Checkpointer, state: State, logger: Logger) -> None:
        loaded, self._loaded = self._loaded, {}
        named = {"optimizer": _OPTIMIZERS, "scheduler": _SCHEDULERS, "scaler": _SCALER}
        states = {name: loaded.pop(key) for name, key in named.items() if key in loaded}
        check_kind(loaded, {_DRAWS, _TIMESTAMP}, "Composer")
        draws = loaded.pop(_DRAWS)
        loaded[_TIMESTAMP] = {name: _from_seconds(times) for name, times in loaded[_TIMESTAMP].items()}
        state.load_state_dict(loaded, logger, strict=True)
        checkpointer.load_inside(states)
        self._draws = draws["epoch"]
        if Process.of(self._options).rng:
            self._generators = {"global": rng.capture(), "loader": draws["loader"]}


def _drawn_by_loader(state: State) -> torch.Tensor | None:
    generator = getattr(state.train_dataloader, "generator", None)
    return generator.get_state() if isinstance(generator, torch.Generator) else None


def _draws(state: State) -> dict[str, Any]:
    """Return the states of the global generators and of the loader's own."""
    return {"global": rng.capture(), "loader": _drawn_by_loader(state)}


def _redraw(state: State, draws: Mapping[str, Any]) -> None:
    """Put the generators back to what `_draws` returned."""
    if draws:
        rng.restore(draws["global"])
    generator = getattr(state.train_dataloader, "generator", None)
    if draws and draws["loader"] is not None and isinstance(generator, torch.Generator):
        generator.set_state(draws["loader"])


def _metrics(state: State) -> dict[str, float]:
    """Return losses by Composer's names, and metrics as `metrics/train/NAME` and `metrics/LABEL/NAME`."""
    found = dict(state.total_loss_dict)
    found |= {f"metrics/train/{name}": value for name, value in state.train_metric_values.items()}
    for label, metrics in state.eval_metrics.items():
        known = {name: state.eval_metric_values.get(name) for name in metrics}
        found |= {f"metrics/{label}/{name}": value for name, value in known.items()}
    return numbers(found)


def _in_seconds(times: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(times)
    return found | {
        name: value.total_seconds() for name, value in times.items() if name.endswith(_WALL_CLOCK)
    }


def _from_seconds(times: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(times)
    return found | {
        name: timedelta(seconds=value) for name, value in times.items() if name.endswith(_WALL_CLOCK)
    }
