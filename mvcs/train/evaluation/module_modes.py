"""Train and eval mode of a model whose modules do something when it changes, such as merging an adapter."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from torch import nn

from mvcs.train.evaluation.call_evaluate import described

_NOTHING: Final = object()


class ModuleModes:
    """The modes of a model's modules as they are now, and what a change of them moves.

    Attributes:
        are_own: whether a module has a `train` or `eval` of its own.
        failure: why the modes could not be put back by these, in words.
    """

    def __init__(self, model: nn.Module) -> None:
        """Take note of the modes, and of what modules have beside them."""
        self._model = model
        self._modes = [(module, module.training) for module in model.modules()]
        self.are_own = any(map(_has_own, model.modules()))
        self._before = self._attributes()
        self._moved: set[tuple[int, str]] = set()
        self.failure: str | None = None

    def begin_evaluation(self) -> None:
        """Put the model in eval mode."""
        self._model.eval()
        self._moved.update(self._changes(self._before))

    def put_back(self) -> None:
        """Give each module its mode by its own `train`, parents first, which undoes what `eval` did.

        Attributes that move with the modes then are what they were, such as a flag that weights are merged.
        """
        if self.failure is None and self.are_own:
            now = self._attributes()
            try:
                self._call_train()
            except Exception as error:  # noqa: BLE001 - the user's code
                self.failure = f"the model's own train() failed: {described(error)}"
            self._moved.update(self._changes(now))
        for index, name in self._moved:
            self._put_back(index, name)

    def _call_train(self) -> None:
        for module, training in self._modes:
            if module.training is not training:
                module.train(training)

    def _put_back(self, index: int, name: str) -> None:
        held, before = vars(self._modes[index][0]), self._before[index]
        if name in before:
            held[name] = before[name]
        else:
            held.pop(name, None)

    def _attributes(self) -> list[Mapping[str, Any]]:
        return [dict(vars(module)) for module, _ in self._modes] if self.are_own else []

    def _changes(self, earlier: list[Mapping[str, Any]]) -> Iterator[tuple[int, str]]:
        """Yield the index of each module that has another attribute than earlier, and its name."""
        for index, (before, now) in enumerate(zip(earlier, self._attributes(), strict=True)):
            for name in before.keys() | now.keys():
                if before.get(name, _NOTHING) is not now.get(name, _NOTHING):
                    yield index, name


def _has_own(module: nn.Module) -> bool:
    kind, own = type(module), vars(module)
    inherits = kind.train is nn.Module.train and kind.eval is nn.Module.eval
    return not inherits or "train" in own or "eval" in own
