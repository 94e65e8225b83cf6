"""What a captured state says of its optimizers: settings and state of every parameter, and its weight."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mvcs.checkpoint.roles import Role, parts_of
from mvcs.checkpoint.state.captured import Captured, CapturedLeaf
from mvcs.objects.cbor import Value
from mvcs.objects.trees.structure import Key, children, tensor_reference
from mvcs.objects.trees.tree import contents_of

STATE, GROUPS = "state", "param_groups"
_BUFFERS = frozenset({"running_mean", "running_var"})
_NUMBERS = {"float32": "<f4", "float64": "<f8", "int64": "<i8", "int32": "<i4"}

Plain = int | float | bool | str | tuple["Plain", ...] | None


@dataclass(frozen=True)
class Parameter:
    """One parameter as an optimizer of `torch.optim` knows it.

    Attributes:
        key: its number, or its name, in the optimizer's state.
        group: which of the optimizer's groups it is in.
        settings: the plain values of that group, such as lr and betas; never checked.
        leaves: its state's tensors that have dimensions, by name.
        counter: its state's step counter: a number, or the leaf that holds one; None where there is none.
        weight: the leaf of its value, where that is clear.
    """

    key: Key
    group: int
    settings: Mapping[str, Plain]
    leaves: Mapping[str, int]
    counter: float | CapturedLeaf | None = None
    weight: int | None = None

    @property
    def step(self) -> float | None:
        """Steps done, read when asked for; None where that is not known."""
        if not isinstance(self.counter, CapturedLeaf):
            return self.counter
        kind = _NUMBERS.get(self.counter.dtype.name)
        return None if kind is None else float(np.frombuffer(self.counter.source.read(), kind)[0])


def parameters(captured: Captured, kinds: Sequence[Role]) -> list[Parameter]:
    """Return the parameters of every optimizer in a state that has tensors for them.

    A name is the weight whose path ends with it. Numbers are matched as torch gives them out: in the order of
    the parameters. So the parameters of one shape are the weights of that shape, in order, if there are as
    many of them and all are in one group; of others the weight is not known.

    Args:
        captured: the state or files.
        kinds: the role of each leaf.
    """
    found = [one for _, node in contents_of(captured.files, captured.root) for one in _optimizers(node)]
    outside = [
        index
        for index, (leaf, kind) in enumerate(zip(captured.leaves, kinds, strict=True))
        if kind in {Role.WEIGHT, Role.SMALL} and _BUFFERS.isdisjoint(parts_of(leaf.path)[-1:])
    ]
    weights = [pair for node in found for pair in _parameters(node, captured.leaves)]
    return _matched(weights, outside, captured.leaves)


def _optimizers(node: Value) -> Iterator[dict[Key, Value]]:
    below = dict(children(node))
    if below.keys() >= {STATE, GROUPS}:
        yield below
        return
    for child in below.values():
        yield from _optimizers(child)


def _parameters(optimizer: dict[Key, Value], leaves: Sequence[CapturedLeaf]) -> Iterator[Parameter]:
    states = dict(children(optimizer[STATE]))
    for number, group in enumerate(dict(children(optimizer[GROUPS])).values()):
        values = dict(children(group))
        settings = {str(name): _plain(node) for name, node in values.items() if name != "params"}
        for key in dict(children(values.get("params"))).values():
            if isinstance(key, int | str) and key in states:
                tensors, counter = _state(states[key], leaves)
                if tensors:
                    yield Parameter(key, number, settings, tensors, counter)


def _state(node: Value, leaves: Sequence[CapturedLeaf]) -> tuple[dict[str, int], float | CapturedLeaf | None]:
    tensors: dict[str, int] = {}
    counter: float | CapturedLeaf | None = None
    for name, value in children(node):
        reference = tensor_reference(value)
        if reference is not None and leaves[reference[0]].shape:
            tensors[str(name)] = reference[0]
        elif name == "step":
            counter = _number(value) if reference is None else leaves[reference[0]]
    return tensors, counter


def _number(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _plain(node: Value) -> Plain:
    if isinstance(node, int | float | str):
        return node
    if isinstance(node, list) and tensor_reference(node) is None:
        return tuple(_plain(item) for _, item in children(node))
    return None


def _matched(found: list[Parameter], outside: list[int], leaves: Sequence[CapturedLeaf]) -> list[Parameter]:
    alike: dict[tuple[int, ...], list[Parameter]] = defaultdict(list)
    for parameter in found:
        alike[_shape(parameter, leaves)].append(parameter)
    weights: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for index in outside:
        weights[leaves[index].shape].append(index)
    result = []
    for shape, group in alike.items():
        same = weights[shape]
        in_order = len(same) == len(group) and len({one.group for one in group}) == 1
        for place, parameter in enumerate(group):
            if isinstance(parameter.key, str):
                result.append(replace(parameter, weight=_named(parameter.key, same, leaves)))
            else:
                result.append(replace(parameter, weight=same[place] if in_order else None))
    return result


def _shape(parameter: Parameter, leaves: Sequence[CapturedLeaf]) -> tuple[int, ...]:
    return leaves[next(iter(parameter.leaves.values()))].shape


def _named(name: str, candidates: Sequence[int], leaves: Sequence[CapturedLeaf]) -> int | None:
    wanted = name.split(".")
    fitting = [index for index in candidates if parts_of(leaves[index].path)[-len(wanted) :] == wanted]
    return fitting[0] if len(fitting) == 1 else None
