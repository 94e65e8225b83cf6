"""PyTorch Lightning: a callback that commits a run and resumes it."""

from collections.abc import Callable
from typing import Any, Unpack

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, Checkpoint, ModelCheckpoint

from mvcs.errors import UsageError
from mvcs.repository import Repository
from mvcs.train.callbacks import Handed, HandedModel, check_kind, numbers, with_part
from mvcs.train.checkpointer import Checkpointer
from mvcs.train.options import CheckpointerOptions, Process, listed
from mvcs.train.saving.report import Resumed
from mvcs.train.state import rng
from mvcs.train.state.optimizers import train_groups

_LOADERS = "combined_loader"
_MODEL, _OPTIMIZERS, _SCHEDULERS = "state_dict", "optimizer_states", "lr_schedulers"
_LEFT_OUT = ("hparams_name", "hyper_parameters", "datamodule_hparams_name", "datamodule_hyper_parameters")


class MvcsCallback(Callback):
    """Commits what Lightning puts into its own checkpoints, with the random generators beside it.

    Give it to `Trainer(callbacks=[...])`. `fit` then goes on from the newest whole state of the branch, or
    begins where there is none. A step is one of the optimizer. Tested with one process; others are refused.

    The trainer may have `enable_checkpointing=False`. With True no checkpoint files are written either, since
    the `ModelCheckpoint` that Lightning adds by itself is taken out; one with any setting of its own stays.
    One passed without a setting cannot be told from Lightning's own, and is taken out as well.

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
            resume: whether `fit` goes on from the newest commit of the branch.
            options: those of `mvcs.train.Checkpointer`.
        """
        self.checkpointer: Checkpointer | None = None
        self._repo = repo
        self._resume = resume
        self._options = options
        self._dump: dict[str, Any] = {}
        self._loaded: dict[str, Any] = {}
        self._generators: dict[str, object] | None = None
        self._seen = 0
        self._between_epochs = False
        self._loaders: list[object] | None = None
        self._states: dict[str, Any] = {}
        self._groups: list[int] = []

    @property
    def restored(self) -> Resumed | None:
        """What `fit` went on from."""
        return None if self.checkpointer is None else self.checkpointer.restored

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Take the place of the checkpoints that Lightning adds by itself, and begin `fit` before the others.

        As with Lightning's own files, callbacks have their states then, and may add groups of parameters.
        """
        del pl_module
        if stage == "fit":
            called = trainer.callbacks
            for own in filter(_is_added_by_lightning, list(called)):
                called.remove(own)  # from what is just being called, so that it does not prepare its folder
            self._go_first(trainer)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Restore the model, and leave loops for Lightning to restore."""
        if trainer.world_size > 1:
            raise UsageError(
                f"a run of {trainer.world_size} processes cannot be committed", hint="train with devices=1"
            )
        del pl_module
        self._go_last(trainer)
        self._groups = [len(optimizer.param_groups) for optimizer in trainer.optimizers]
        self._seen = trainer.global_step
        self.checkpointer = self._made(trainer).__enter__()
        if self._resume and self.checkpointer.resume():
            self._hand_over(trainer)

    def _go_first(self, trainer: Trainer) -> None:
        trainer.callbacks = [self, *(callback for callback in trainer.callbacks if callback is not self)]

    def _go_last(self, trainer: Trainer) -> None:
        # The others' list is just being gone through.
        others = [callback for callback in trainer.callbacks if callback is not self]
        files = [callback for callback in others if isinstance(callback, Checkpoint)]
        trainer.callbacks = [*(other for other in others if other not in files), self, *files]

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Restore optimizers and schedulers, before the others, and behind these what was drawn since."""
        states, self._states = self._states, {}
        if states and self.checkpointer is not None:
            self._go_last(trainer)
            self.checkpointer.load_inside(states)
            for optimizer, count in zip(trainer.optimizers, self._groups, strict=False):
                train_groups(optimizer, count, pl_module)
            return  # it is called again behind the others
        if self._generators is not None:
            if self._between_epochs:
                self._place_loaders(trainer.fit_loop)
            rng.restore(self._generators)
            self._generators = None
            if self._between_epochs:
                # The state is of the moment before this; Lightning itself does not do it in its first epoch.
                iter(trainer.fit_loop._data_fetcher)  # noqa: SLF001

    @staticmethod
    def _place_loaders(loop: Any) -> None:  # noqa: ANN401 - Lightning's
        """Load what Lightning has left aside: it takes a run that had ended for one that begins."""
        states, loop._combined_loader_states_to_load = loop._combined_loader_states_to_load, []  # noqa: SLF001
        if states:
            loop._combined_loader._load_state_dicts(states)  # noqa: SLF001
            iter(loop._data_fetcher)  # noqa: SLF001 - takes over the states

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Commit the last step of the epoch before."""
        del pl_module
        self._commit(trainer, between_epochs=True)
        self._go_last(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Let the last step be committed before others begin an epoch, or put an average in its place."""
        del pl_module
        self._go_first(trainer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        """Commit the step that has just ended when it is due; an epoch's last one waits for the next."""
        del pl_module, outputs, batch, batch_idx
        if not trainer.is_last_batch:
            self._commit(trainer, between_epochs=False)
            if _ends(trainer) and self.checkpointer is not None:
                self.checkpointer.commit_last()
            return
        # When the run ends here, Lightning has let go of its loaders before the commit.
        self._loaders = trainer.fit_loop.on_save_checkpoint().get(_LOADERS)
        if trainer.received_sigterm:
            # Heard by the checkpointer too, which ends the run as soon as this step is committed.
            trainer._signal_connector.received_sigterm = False  # noqa: SLF001

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Commit the last step, and what is queued."""
        del pl_module
        self._commit(trainer, between_epochs=True)
        self._go_last(trainer)
        if self.checkpointer is not None:
            self.checkpointer.finish()

    def _commit(self, trainer: Trainer, *, between_epochs: bool) -> None:
        if self.checkpointer is not None and trainer.global_step != self._seen:
            self._seen, self._between_epochs = trainer.global_step, between_epochs
            self.checkpointer.after_step(self._seen - 1, numbers(trainer.callback_metrics))

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Commit what is queued."""
        del trainer, pl_module
        if stage == "fit":
            self._close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Commit what is queued; the exception goes on."""
        del trainer, pl_module, exception
        self._close()

    def _close(self) -> None:
        if self.checkpointer is not None:
            self.checkpointer.close()

    def _made(self, trainer: Trainer) -> Checkpointer:
        def give_model() -> dict[str, Any]:
            # The first part that is asked for; the others are of the same moment.
            self._dump = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)  # noqa: SLF001
            return dict(self._dump.pop(_MODEL))

        def part(key: str, inside: Callable[[], list[Any]]) -> Handed:
            return Handed(
                lambda: {key: self._dump.pop(key)},
                self._loaded.update,
                lambda: {f"{key}.{place}": one for place, one in enumerate(inside())},
            )

        def scaler() -> dict[str, object]:
            plugin = trainer.precision_plugin
            return {type(plugin).__qualname__: getattr(plugin, "scaler", None)}

        def give_rest() -> dict[str, Any]:
            rest, self._dump = self._dump, {}
            rest["between_epochs"] = self._between_epochs
            if self._between_epochs:
                _begin_epoch(rest["loops"]["fit_loop"], self._loaders)
            return {name: value for name, value in rest.items() if name not in _LEFT_OUT}

        return Checkpointer(
            self._repo,
            HandedModel(
                give_model,
                lambda state: self._loaded.update({_MODEL: state}),
                lambda: trainer.lightning_module,
            ),
            part(_OPTIMIZERS, lambda: trainer.optimizers),
            scheduler=part(_SCHEDULERS, lambda: [one.scheduler for one in trainer.lr_scheduler_configs]),
            **with_part(self._options, "lightning", Handed(give_rest, self._loaded.update, scaler)),
        )

    def _hand_over(self, trainer: Trainer) -> None:
        # As Lightning does with a file; what is missing here it does itself after this hook.
        check_kind(self._loaded, {"between_epochs", "loops"}, "Lightning")
        connector = trainer._checkpoint_connector  # noqa: SLF001 - a checkpoint in memory has no public door
        self._between_epochs = self._loaded.pop("between_epochs")
        connector._loaded_checkpoint, self._loaded = self._loaded, {}  # noqa: SLF001
        connector.restore_datamodule()
        connector.restore_model()
        connector.restore_callbacks()
        # Others may add groups of parameters until training starts, and look at rates then.
        for name, key in (("optimizer", _OPTIMIZERS), ("scheduler", _SCHEDULERS)):
            self._states[name] = {key: connector._loaded_checkpoint[key]}  # noqa: SLF001
            connector._loaded_checkpoint[key] = []  # noqa: SLF001
        trainer.callbacks.insert(0, self)
        self._generators = rng.capture() if Process.of(self._options).rng else None
        self._seen = int(connector._loaded_checkpoint["global_step"])  # noqa: SLF001


def _is_added_by_lightning(callback: Callback) -> bool:
    """Tell whether a callback is as Lightning makes it where nobody gave one; that leaves no other trace."""
    return type(callback) is ModelCheckpoint and _settings(callback) == _settings(ModelCheckpoint())


def _settings(callback: Callback) -> dict[str, object]:
    return {name: value for name, value in vars(callback).items() if isinstance(value, int | str | None)}


def _ends(trainer: Trainer) -> bool:
    """Tell whether the run ends with the batch that was just trained, within an epoch."""
    at_limit = 0 <= trainer.max_steps <= trainer.global_step
    return at_limit or bool(trainer.should_stop and trainer.fit_loop._can_stop_early)  # noqa: SLF001 - not public


def _begin_epoch(loops: dict[str, Any], loaders: list[object] | None) -> None:
    """Set the counters of the loop over batches to where the next epoch begins, as Lightning is about to."""
    if loaders:
        loops["state_dict"].setdefault(_LOADERS, loaders)
    for name in [name for name in loops if name.startswith("epoch_loop.")]:
        loops[name] = _reset(loops[name])


def _reset(progress: Any) -> Any:  # noqa: ANN401 - nested dicts of counters
    if not isinstance(progress, dict):
        return progress
    fresh = {name: _reset(value) for name, value in progress.items()}
    if "current" in fresh:
        fresh["current"] = dict.fromkeys(fresh["current"], 0)
    if "is_last_batch" in fresh:
        fresh["is_last_batch"] = False
    return fresh
