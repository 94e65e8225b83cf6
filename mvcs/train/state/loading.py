"""Loading the states of parts: each of them once, where the tensors of the part are, and bit for bit.

torch casts what it loads to a parameter's type: what a loader changed is put back behind it.
"""

import copy
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import torch
from torch import nn

from mvcs.addresses import without_secrets
from mvcs.checkpoint import set_generator
from mvcs.errors import UsageError
from mvcs.train.state.host_copies import bits_of
from mvcs.train.state.optimizers import optimizers_in
from mvcs.train.state.stateful import Stateful

_LOADER = "loader"
_HOOKS: Final = "_optimizer_load_state_dict_pre_hooks"

Named = tuple[str, object, Any]


def is_checked(part: object) -> bool:
    """Tell whether a part is of torch, so that a state is known to fit before it is loaded."""
    return isinstance(part, nn.Module | torch.optim.Optimizer)


def load_others(parts: Iterable[Named], source: str) -> None:
    """Load the states of those parts that are no modules and no optimizers of torch, one after the other.

    Each object is loaded once, also where it has two names: its `load_state_dict` may add to what is there.
    The loader comes last, and no copy is made of its state: to ask for that may start its processes.

    Args:
        parts: what to call each, the part, and the state that it is to take over.
        source: what to call the commit.

    Raises:
        UsageError: one refuses; all are as they were, as far as they take their own states over.
    """
    changed: list[tuple[Stateful, Any]] = []
    seen = set[int]()
    for name, part, saved in sorted(parts, key=lambda named: named[0] == _LOADER):
        if is_checked(part) or not isinstance(part, Stateful) or id(part) in seen:
            continue
        seen.add(id(part))
        try:
            if name != _LOADER:
                changed.append((part, copy.deepcopy(part.state_dict())))
            part.load_state_dict(copy.deepcopy(saved))
            keep_exact(name, part, saved, source)
        except UsageError:
            _set_back(changed)
            raise
        except Exception as error:
            _set_back(changed)
            raise _refused(name, source, error, "nothing is loaded") from error


def load(name: str, part: Stateful, saved: dict[str, Any], source: str) -> None:
    """Load the state of a module or an optimizer of torch, once every part was asked.

    Raises:
        UsageError: it refuses, as a model may that converts what it loads; others may have changed.
    """
    try:
        part.load_state_dict(_copied(_settings_placed(saved, part), part))
    except Exception as error:
        raise _refused(name, source, error, "parts may be loaded by half: make all of them again") from error
    keep_exact(name, part, saved, source)


def _copied(saved: dict[str, Any], part: Stateful) -> dict[str, Any]:
    """Return a copy for a loader; torch's own changes no tensor of what it is given, and those are large."""
    own = type(part).load_state_dict in {nn.Module.load_state_dict, torch.optim.Optimizer.load_state_dict}
    return saved if own else copy.deepcopy(saved)


def _refused(name: str, source: str, error: Exception, became: str) -> UsageError:
    said = ": ".join(filter(None, (type(error).__name__, without_secrets(str(error)))))
    return UsageError(
        f"{source} does not fit the {name}: its load_state_dict raised {said}",
        hint=f"{became}; make the {name} as that run did, or leave it out",
    )


def _set_back(changed: Iterable[tuple[Stateful, Any]]) -> None:
    for part, before in changed:
        with suppress(Exception):  # it refused another state already
            part.load_state_dict(before)


def placed_like(saved: Any, here: object) -> Any:  # noqa: ANN401 - whatever a state holds
    """Return `saved` with each tensor on the device of the one at its place in `here`; the others stay.

    A commit holds values, and not where they were: all of it is restored into host memory. A generator of
    random numbers in `here` takes the state of the saved one, and stays the one that others draw from.
    """
    if set_generator(saved, here):
        return here
    if isinstance(saved, torch.Tensor) and isinstance(here, torch.Tensor):
        return saved if here.is_meta or saved.device == here.device else _moved(saved, here.device)
    if isinstance(saved, dict) and isinstance(here, Mapping):
        placed = saved.copy()
        placed.update((key, placed_like(value, here[key])) for key, value in saved.items() if key in here)
        return placed
    if type(saved) in (list, tuple) and isinstance(here, list | tuple) and len(saved) == len(here):
        return type(saved)(map(placed_like, saved, here))
    return saved


def _settings_placed(saved: Any, part: object) -> Any:  # noqa: ANN401 - of whatever form
    """Return the state of an optimizer with settings that are tensors, such as a rate, where its own are.

    What stands in `state` torch places itself, as each parameter wants it. Other parts do it themselves.
    """
    if not isinstance(part, torch.optim.Optimizer) or "param_groups" not in saved:
        return saved
    return {**saved, "param_groups": placed_like(saved["param_groups"], part.param_groups)}


def _moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    moved = tensor.detach().to(device)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(moved, requires_grad=tensor.requires_grad)
    return moved.requires_grad_(tensor.requires_grad)


def keep_exact(name: str, part: object, given: object, source: str) -> None:
    """Put back what the loader of an optimizer, or of what wraps one, has changed of the states it was given.

    Args:
        name: what to call the part.
        part: it has loaded a copy of `given`; of parts without an optimizer nothing is asked.
        given: the state.
        source: what to call the commit.

    Raises:
        UsageError: a tensor of a state is not as it was given, and it cannot be put back.
    """
    optimizers = optimizers_in(part)
    if not optimizers or any(getattr(one, _HOOKS, None) for one in optimizers):
        return  # a hook may have made another state of it on purpose
    for is_last in (False, True):
        changed = list(_changed(given, part.state_dict(), ()))  # type: ignore[attr-defined]  # it is loaded
        if changed and is_last:
            path, now, right = changed[0]
            place = ".".join(map(str, path))
            raise UsageError(
                f"{source} does not fit the {name}: its load_state_dict makes of '{place}', "
                f"{_described(right)}, {_described(now)}",
                hint="parts may be loaded by half: make all of them again",
            )
        others = {id(now): right for _, now, right in changed if not isinstance(now, int | float | None)}
        for optimizer in optimizers if others else ():
            _replace(optimizer.state, others)
            _replace(optimizer.param_groups, others)


def _changed(
    given: object, now: object, path: tuple[Any, ...]
) -> Iterator[tuple[tuple[Any, ...], object, Any]]:
    """Yield the path of what is not as it was given, what is there, and what should be."""
    if isinstance(given, torch.Tensor):
        is_other_kind = isinstance(now, torch.Tensor) and type(now) not in {torch.Tensor, nn.Parameter}
        if not is_other_kind and not _is_same(given, now):
            yield path, now, given.to(now.device) if isinstance(now, torch.Tensor) else given
    elif isinstance(given, Mapping) and isinstance(now, Mapping) and type(given) is type(now):
        for key, value in given.items():
            yield from _changed(value, now.get(key), (*path, key))
    elif isinstance(given, list | tuple | deque) and type(given) is type(now) and len(given) == len(now):
        for place, (one, other) in enumerate(zip(given, now, strict=True)):
            yield from _changed(one, other, (*path, place))
    elif isinstance(given, Mapping | list | tuple | deque) or (
        isinstance(given, str | bytes) and given != now
    ):
        yield path, now, placed_like(copy.deepcopy(given), now)


def _is_same(given: torch.Tensor, now: object) -> bool:
    if not isinstance(now, torch.Tensor) or (given.dtype, given.shape) != (now.dtype, now.shape):
        return False
    alike = given.is_contiguous() == now.is_contiguous() and (
        given.is_contiguous() or given.stride() == now.stride()
    )
    return alike and torch.equal(bits_of(given).to(now.device), bits_of(now))


def _replace(node: Any, others: Mapping[int, Any]) -> None:  # noqa: ANN401 - whatever a state holds
    """Put others in the place of objects, by their ids, wherever in a state they stand."""
    if isinstance(node, Mapping | list | deque):
        for key, value in list(node.items() if isinstance(node, Mapping) else enumerate(node)):
            node[key] = _in_place(value, others)  # type: ignore[index]  # both can be set


def _in_place(value: Any, others: Mapping[int, Any]) -> Any:  # noqa: ANN401 - the same
    if id(value) in others:
        return others[id(value)]
    if type(value) is tuple:
        return tuple(_in_place(one, others) for one in value)
    _replace(value, others)
    return value


def _described(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"{tuple(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
    return f"a '{type(value).__name__}'"
