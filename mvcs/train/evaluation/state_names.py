"""Which parameters and buffers of a model the tensors of its state are, whatever the state calls them."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import nn

from mvcs.objects import Path
from mvcs.train.evaluation.live_tensors import live_tensors


def names_of(model: nn.Module, state: Callable[[], object], paths: Iterable[Path]) -> dict[Path, str]:
    """Return the names of a model's parameters and buffers by the paths that their values have in its state.

    Most states have the names themselves. Else the tensor that lies in the same memory is found, as in a
    state of several parts or with other names. What is a copy there, or of another shape, is left out.

    Args:
        model: the model.
        state: gives its state as it is now; asked only where a path is no name.
        paths: of leaves of the state.
    """
    live = live_tensors(model)
    found, others = dict[Path, str](), set[Path]()
    for path in paths:
        if len(path) == 1 and str(path[0]) in live:
            found[path] = str(path[0])
        else:
            others.add(path)
    if others:
        by_memory = {_memory(tensor): name for name, tensor in live.items() if tensor.numel()}
        memories = {path: _memory(tensor) for path, tensor in _tensors(state(), ()) if path in others}
        found |= {path: by_memory[memory] for path, memory in memories.items() if memory in by_memory}
    return found


def _tensors(value: object, path: Path) -> Iterator[tuple[Path, torch.Tensor]]:
    """Yield the tensors of nested containers; a state that is committed has no circles."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(item, (*path, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _tensors(item, (*path, index))


def _memory(tensor: torch.Tensor) -> object:
    return tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()
