"""The parameters and buffers of a model in training, and which of them the tensors of a state are."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import torch
from torch import nn

from mvcs.errors import UsageError
from mvcs.objects import Path, path_text
from mvcs.train.state.host_copies import INTEGERS, copied_as, is_plain

Weights = Mapping[str, torch.Tensor]

_TURNS: Final = 37.0  # of a cosine, over values: what is alike before is not behind it
_WRAPPERS: Final = frozenset({"module", "_orig_mod"})  # of AveragedModel, DataParallel, torch.compile
_FIRST: Final = 1 << 12  # values that tell most strangers apart
_NEAR: Final = 0.5  # of the squares of the weights: those of two runs are four times as far apart


def live_tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers by name, tied ones under each name, as views that no graph sees."""
    named = chain(model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False))
    return {name: tensor.data for name, tensor in named if is_plain(tensor)}


def write(live: Weights, weights: Weights) -> None:
    """Write `weights` into the tensors of the same names, bit for bit.

    Raises:
        UsageError: a name, shape or dtype is not that of a live tensor, or elements that share memory there
            have several values.
    """
    for name, value in weights.items():
        target = live.get(name)
        if target is None:
            raise UsageError(f"the model has no ordinary parameter or buffer '{name}'")
        if value.shape != target.shape or value.dtype != target.dtype:
            raise UsageError(
                f"'{name}' is {_described(target)} in the model and {_described(value)} in what is evaluated"
            )
        if not assign(target, value):
            raise UsageError(
                f"elements of '{name}' share memory in the model and differ in what is evaluated",
                hint="register it as a tensor of its own: tensor.contiguous()",
            )


def _described(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def assign(target: torch.Tensor, value: torch.Tensor) -> bool:
    """Write the bits of `value` where `target` lies, and tell whether it holds them all then.

    Of elements that share memory, as those of an expanded tensor do, one is written.
    """
    with torch.inference_mode(mode=target.is_inference()), torch.no_grad():
        into, source = copied_as(target), copied_as(value.detach())
        once = into
        for dimension, (size, stride) in enumerate(zip(into.shape, into.stride(), strict=True)):
            if size > 1 and stride == 0:
                once, source = once.narrow(dimension, 0, 1), source.narrow(dimension, 0, 1)
        once.copy_(source)
        return once is into or bool(torch.equal(_bits(target), _bits(value).to(target.device)))


def has_bits(target: torch.Tensor, value: torch.Tensor) -> bool:
    """Tell whether both lie in host memory and are the same to the last bit."""
    in_memory = target.device.type == value.device.type == "cpu"
    return in_memory and bool(torch.equal(_bits(target), _bits(value)))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    plain = copied_as(tensor.detach())
    return plain.view(INTEGERS[plain.element_size()])


@dataclass(frozen=True)
class OtherWeights(Mapping[str, torch.Tensor]):
    """Weights of about the magnitudes of others, which have nothing else in common with them.

    Elements that are the same stay so, as those that share memory have to.

    Attributes:
        weights: the others.
        size: times their magnitudes.
    """

    weights: Weights
    size: float = 1.0

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.weights)

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self.weights)

    def __getitem__(self, name: str) -> torch.Tensor:
        """Return a tensor of the same shape and dtype; whole numbers are the same."""
        value = self.weights[name]
        if not value.is_floating_point():
            return value
        wide = value.detach().double()
        scale = math.sqrt(float(wide.square().mean())) if wide.numel() else 1.0
        scale = scale if 0 < scale < math.inf else 1.0
        return (self.size * scale * torch.cos(_TURNS / scale * wide + 1)).to(value.dtype)


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
        by_memory = {memory_of(tensor): name for name, tensor in live.items() if tensor.numel()}
        memories = {path: memory_of(tensor) for path, tensor in tensors_of(state(), ()) if path in others}
        found |= {path: by_memory[memory] for path, memory in memories.items() if memory in by_memory}
    return found


def tensors_of(value: object, path: Path) -> Iterator[tuple[Path, torch.Tensor]]:
    """Yield the tensors of nested containers; a state that is committed has no circles."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from tensors_of(item, (*path, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from tensors_of(item, (*path, index))


def memory_of(tensor: torch.Tensor) -> object:
    """Return what is the same for tensors that lie in the same memory alike."""
    return tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()


def averages_of(
    model: nn.Module, extra: Mapping[str, object], known: Collection[str] = ()
) -> dict[str, dict[Path, str]]:
    """Return the averages of a model among the further parts of a state, and other copies that follow it.

    One has the names and shapes of all parameters that are trained, behind whatever comes before them, or is
    a list of them in their order; and most of its values are near. What it does not have is the model's.

    Args:
        model: the model.
        extra: the parts, as in a state.
        known: averages by name that are taken as such wherever their values are.

    Returns:
        by name, such as "extra.ema.shadow", the model's parameter or buffer for each path of the state.
    """
    live = {
        name: one.data for name, one in (*model.named_parameters(), *model.named_buffers()) if is_plain(one)
    }
    trained = [name for name, one in model.named_parameters() if one.requires_grad and name in live]
    parameters = [name for name, _ in model.named_parameters() if name in live]
    needed, places = set(trained or parameters), {_parts(name): name for name in live}
    found: dict[str, dict[Path, str]] = {}
    for entry, value in extra.items():
        held = {path: one for path, one in tensors_of(value, ("extra", entry)) if is_plain(one)}
        for name, own, is_list in _candidates(held, live, places, (trained, parameters)):
            pairs = [(held[path], live[other]) for path, other in own.items() if other in needed]
            # Of a list nothing but the values tells which is which.
            groups = [[pair] for pair in pairs if pair[0].dim() > 1] if is_list else [pairs]
            is_known = any(f"{name}.".startswith(f"{one}.") for one in known)
            if needed <= set(own.values()) and (is_known or all(map(_near, groups))):
                found.setdefault(name, own)
    return found


def _candidates(
    held: Mapping[Path, torch.Tensor],
    live: Mapping[str, torch.Tensor],
    places: Mapping[tuple[str, ...], str],
    orders: Sequence[Sequence[str]],
) -> Iterator[tuple[str, dict[Path, str], bool]]:
    """Yield what may be an average: its name, the model's name of each tensor, and whether it is a list."""
    named: dict[tuple[str, ...], dict[Path, str]] = defaultdict(dict)
    lists: dict[Path, list[Path]] = defaultdict(list)
    for path, tensor in held.items():
        parts = _parts(*path[2:])
        for at in range(len(parts)):
            name = places.get(parts[at:])
            if (
                name is not None
                and live[name].shape == tensor.shape
                and name not in named[parts[:at]].values()
            ):
                named[parts[:at]][path] = name
        if isinstance(path[-1], int) and len(path) > 2:
            lists[path[:-1]].append(path)
    for before, own in named.items():
        yield ".".join(["extra", str(next(iter(held))[1]), *before]), own, False
    for place, paths in lists.items():
        for order in orders:
            shapes = [held[path].shape for path in paths]
            if shapes == [live[name].shape for name in order]:
                yield path_text(place), dict(zip(paths, order, strict=True)), True


def _parts(*keys: object) -> tuple[str, ...]:
    """Return the components of a name, without those of wrappers."""
    parts = (part for key in keys for part in str(key).split("."))
    return tuple(part for part in parts if part not in _WRAPPERS)


def _near(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> bool:
    """Tell whether tensors are near those that they may be averages of: the matrices, where there are any."""
    pairs = [(own, other) for own, other in pairs if other.dim() > 1] or pairs
    apart, whole = 0.0, 0.0
    for own, other in pairs:
        one, two = (each.detach().flatten()[:_FIRST].cpu().double() for each in (own, other))
        apart, whole = apart + float((one - two).square().sum()), whole + float(two.square().sum())
    return apart <= _NEAR * whole
