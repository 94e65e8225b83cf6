"""The GPT that another run has learned, trained on with prose at a tenth of its rate."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from mvcs.bench.data.text import Corpus, documentation
from mvcs.bench.runs.run_maker import load_checkpoint
from mvcs.bench.runs.schedules import Constant, Schedule
from mvcs.bench.runs.tasks import SampleSizes, digest
from mvcs.bench.tasks.gpt import Gpt, GptTask
from mvcs.errors import ConflictError, FileFormatError, NotFoundError

SCHEDULE = Constant(peak=1.5e-4, warm=15)
SAMPLES = SampleSizes(batch=2, search=60, verify=24, report=60, reported=30, searched_first=20)


@dataclass(frozen=True, kw_only=True)
class FinetuneTask(GptTask):
    """Next-byte prediction on Python's documentation, from what a run of `gpt` ended with.

    Attributes:
        base: the folder of that run; None for a model whose weights are loaded later.
    """

    base: Path | None = None
    batch: int = 6
    corpus: Corpus = field(default_factory=documentation)
    name: str = "finetune"
    schedule: Schedule = SCHEDULE
    sample_sizes: SampleSizes = SAMPLES

    @cached_property
    def data(self) -> str:
        """A digest of the text and of the weights that the run begins with."""
        begun = [] if self.base is None else self._weights.values()
        return digest(self.corpus.train, self.corpus.valid, *(one.numpy().view(np.uint8) for one in begun))

    def model(self) -> nn.Module:
        """Return the model as the other run ended.

        Raises:
            NotFoundError: there is no such run.
            ConflictError: it has not ended.
            FileFormatError: it learned another model.
        """
        model = Gpt(self.sizes)
        if self.base is not None:
            try:
                model.load_state_dict(self._weights)
            except RuntimeError as error:
                raise FileFormatError(
                    f"the run in '{self.base}' is not one of gpt: {error}",
                    hint="name the folder of a run that 'mvcs bench make gpt' made",
                ) from error
        return model

    @cached_property
    def _weights(self) -> dict[str, Tensor]:
        return {} if self.base is None else last_weights(self.base)


def last_weights(folder: Path) -> dict[str, Tensor]:
    """Return the model's state dict in the last checkpoint of a run.

    Raises:
        NotFoundError: there is no checkpoint.
        ConflictError: the run has not ended.
        FileFormatError: the file is no checkpoint of a run.
    """
    found = sorted(folder.glob("step_*.pt"))
    if not found:
        raise NotFoundError(
            f"there is no checkpoint of a run in '{folder}'",
            hint="train one with 'mvcs bench make gpt', and name its folder",
        )
    state = load_checkpoint(found[-1])
    try:
        step, steps, weights = state["step"], state["plan"]["steps"], state["model"]
    except (KeyError, TypeError) as error:
        raise FileFormatError(f"'{found[-1]}' is not a checkpoint of 'mvcs bench make'") from error
    if step < steps:
        raise ConflictError(
            f"the run in '{folder}' stands at step {step} of {steps}",
            hint="let 'mvcs bench make' end it first",
        )
    return dict(weights)
