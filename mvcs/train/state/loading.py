"""Loading the states of parts: each of them once, where the tensors of the part are, and bit for bit.

torch casts what it loads to a parameter's type: what a loader changed is put back behind it.
"""

import copy
import inspect
import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cache, reduce
from types import ModuleType
from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer, lr_scheduler
from torch.optim.lr_scheduler import LRScheduler

from mvcs.addresses import without_secrets
from mvcs.checkpoint import check_state, set_generator
from mvcs.errors import UsageError, some_of
from mvcs.train.state.host_copies import bits_of
from mvcs.train.state.optimizers import SCHEDULED, class_of, optimizers_in
from mvcs.train.state.stateful import Stateful

_LOADER = "loader"
_HOOKS: Final = "_optimizer_load_state_dict_pre_hooks"

Named = tuple[str, object, Any]
_SHOWN: Final = 3
# How a step is computed, which versions of torch add to.
_FLAGS: Final = {"foreach", "fused", "capturable", "differentiable", "maximize", "decoupled_weight_decay"}
# What has the shape of its parameter, in the optimizers of torch.
_ALIKE: Final = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "exp_inf", "momentum_buffer", "square_avg"}

_INNER: Final = "_schedulers"
_LISTS: Final = ("base_lrs", "lr_lambdas", _INNER)
# Of all schedulers, or of the versions of torch that print.
_COMMON: Final = {"self", "optimizer", "last_epoch", "verbose"}
_SCALER: Final = ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")

# What gives the parameters of a lazy module the shapes of a state.
_LAZY: Final = nn.modules.lazy.LazyModuleMixin._lazy_load_hook  # noqa: SLF001 - torch's


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


def check_fit(name: str, part: object, saved: object, source: str) -> None:
    """Refuse a state that a part of torch's could take over in part only, or not at all.

    Args:
        name: what to call the part.
        part: whose state it is to become; of kinds that are not torch's nothing is known.
        saved: the state.
        source: what to call the commit.

    Raises:
        UsageError: it does not fit; the message says what does not.
    """
    wrong = list(_wrong(part, saved))
    if wrong:
        raise UsageError(
            f"{source} does not fit the {name}: {some_of(wrong, _SHOWN, '; ')}",
            hint=f"nothing is loaded; make the {name} as that run did, {_instead(part)}",
        )


def starts_anew(part: object, saved: object) -> bool:
    """Tell whether there is no state for a part: one was not saved, or by a scaler that was not enabled."""
    is_empty = isinstance(part, GradScaler) and part.is_enabled() and saved == {}
    return saved is None or is_empty


def check_own_state(path: Sequence[str], part: object, state: object) -> None:
    """Refuse a part whose state no commit can hold, or from whose state it could not resume; nothing is read.

    Args:
        path: its keys in the state of the run.
        part: a part of a run.
        state: of the part.

    Raises:
        StateError: something in the state cannot be stored; the message names its path.
        UsageError: a model does not load its own state.
    """
    module = part if isinstance(part, nn.Module) else None
    tensors = () if module is None else (*module.parameters(), *module.buffers())
    if any(nn.parameter.is_lazy(tensor) or tensor.is_meta for tensor in tensors):
        return  # it is made later
    check_state(reduce(lambda inner, key: {key: inner}, reversed(path), state))
    wrong = _not_taken_back(module) if module is not None and _loads_plainly(module) else []
    if wrong:
        raise UsageError(
            f"{'.'.join(path)} cannot load its own state, so nothing could resume: {some_of(wrong, _SHOWN)}",
            hint="hand over what is trained alone, such as adapters, or wrap it in a class whose "
            "load_state_dict takes what its state_dict gives",
        )


def _not_taken_back(module: nn.Module) -> list[str]:
    """Name what a module looks for in its own state in vain, and what no module in it takes."""
    saved = module.state_dict()
    plain = {
        f"{path}." if path else "": child
        for path, child in module.named_modules(remove_duplicate=False)
        if type(child)._load_from_state_dict is nn.Module._load_from_state_dict  # noqa: SLF001 - torch's
    }
    wanted = {
        prefix + name
        for prefix, child in plain.items()
        for name, tensor in (*child._parameters.items(), *child._buffers.items())  # noqa: SLF001 - torch's
        if tensor is not None and name not in child._non_persistent_buffers_set  # noqa: SLF001 - torch's
    }
    missing = [f"'{name}' is missing" for name in wanted if name not in saved]
    rest = {name: None for name in saved if name not in wanted and not name.endswith("_extra_state")}
    unexpected: list[str] = []
    for prefix, child in plain.items():
        # Nothing is copied where no name is one of its own.
        child._load_from_state_dict(rest, prefix, {}, True, [], unexpected, [])  # noqa: SLF001 - torch's
    return missing + [f"nothing takes '{name}'" for name in unexpected]


def _wrong(part: object, saved: object) -> Iterator[str]:
    if isinstance(part, nn.Module):
        yield from _misfits(part, saved) if _loads_plainly(part) else ()
    elif isinstance(part, Optimizer):
        yield from _optimizer_misfits(part, saved)
    elif isinstance(part, LRScheduler):
        yield from _schedule_misfits(part, saved)
    elif isinstance(part, GradScaler):
        found = saved if isinstance(saved, Mapping) else {}
        missing = (name for name in _SCALER if part.is_enabled() and name not in found)
        yield from (f"'{name}' is missing there" for name in missing)
    elif isinstance(part, torch.Generator):
        try:
            torch.Generator(part.device).set_state(saved)  # type: ignore[arg-type]  # it says so
        except (TypeError, RuntimeError) as error:
            yield f"it is no state of a generator: {error}"
    elif isinstance(part, np.random.Generator | np.random.RandomState | random.Random):
        here, there = (getattr(one, "bit_generator", one) for one in (part, saved))
        if type(there) is not type(here):
            yield f"it is a '{type(there).__name__}' there and a '{type(here).__name__}' here"


def _instead(part: object) -> str:
    if isinstance(part, nn.Module | Optimizer):
        return "or begin a run of its own in a folder of its own: mvcs.open_or_init(FOLDER)"
    return "or leave it out and pass another one by a new name, which starts fresh, as extra={'new': ...}"


def _loads_plainly(module: nn.Module) -> bool:
    """Tell whether a module takes over what it is given, name by name, and nothing converts it before."""
    own = type(module).load_state_dict is not nn.Module.load_state_dict
    return not own and not any(_converts(child) for child in module.modules())


def _converts(child: nn.Module) -> bool:
    kinds = [kind for kind in type(child).__mro__ if "_load_from_state_dict" in vars(kind)]
    # Those of torch itself convert only what older versions of torch have saved.
    own = not kinds[0].__module__.startswith("torch.")
    hooks = (getattr(hook, "hook", hook) for hook in child._load_state_dict_pre_hooks.values())  # noqa: SLF001
    others = any(getattr(hook, "__func__", hook) is not _LAZY for hook in hooks)
    return own or others or bool(child._load_state_dict_post_hooks)  # noqa: SLF001


def _misfits(module: nn.Module, saved: object) -> Iterator[str]:
    if not isinstance(saved, Mapping):
        yield "it holds no tensors by name"
        return
    here = module.state_dict()
    yield from (f"'{name}' is missing there" for name in here if name not in saved)
    yield from (f"'{name}' is missing here" for name in saved if name not in here)
    for name, tensor in here.items():
        if name in saved and isinstance(tensor, torch.Tensor):
            yield from _tensor_misfits(name, tensor, saved[name])


def _tensor_misfits(name: str, here: torch.Tensor, saved: object) -> Iterator[str]:
    # One of a lazy module has no shape yet, and takes the one that it is given.
    if not isinstance(saved, torch.Tensor):
        yield f"'{name}' is no tensor there"
    elif not nn.parameter.is_lazy(here) and saved.shape != here.shape:
        yield f"'{name}' has shape {tuple(saved.shape)} there and {tuple(here.shape)} here"
    elif saved.dtype != here.dtype:
        yield f"'{name}' is {_named(saved.dtype)} there and {_named(here.dtype)} here"


def _optimizer_misfits(optimizer: Optimizer, saved: object) -> Iterator[str]:
    groups = saved.get("param_groups") if isinstance(saved, Mapping) else None
    own = type(optimizer).load_state_dict is not Optimizer.load_state_dict
    if own and isinstance(saved, Mapping) and groups is None:
        return  # what wraps another optimizer judges itself
    if not isinstance(saved, Mapping) or not isinstance(groups, list) or not groups:
        yield "it holds no groups of parameters"
        return
    there, here = ({key for group in found for key in group} for found in (groups, optimizer.param_groups))
    # A key that nothing in torch knows may be the user's own, or another version's.
    missing = set(getattr(optimizer, "defaults", ())) - there - _FLAGS
    unknown = there - here - _FLAGS - SCHEDULED - {"params"}
    known = _settings(torch.optim, Optimizer)
    other = _other_kind(optimizer, missing, unknown, known, class_of(saved, groups[0]))
    counts, own_counts = (
        [len(group["params"]) for group in found] for found in (groups, optimizer.param_groups)
    )
    if other:
        yield other
    elif counts != own_counts:
        yield f"its groups have {counts} parameters there and {own_counts} here"
    else:
        yield from _moment_misfits(optimizer, saved.get("state") or {}, groups)


def _other_kind(
    part: object,
    missing: set[str],
    unknown: set[str],
    known: AbstractSet[str],
    there: str | None = None,
) -> str | None:
    """Say what tells that settings are those of another kind of part; None where they are not."""
    if not (missing and unknown) and not (missing | unknown) & known:
        return None
    here = type(part).__name__
    if there not in {None, here}:
        return f"it was committed from {there}; here is {here}"
    has = [f"no {', '.join(sorted(unknown))}"] * bool(unknown) + [", ".join(sorted(missing))] * bool(missing)
    return f"it was committed from another class than {here}, which has {' but '.join(has)}"


@cache
def _settings(module: ModuleType, base: type) -> frozenset[str]:
    """Return what the classes of a module of torch are made with."""
    kinds = (kind for kind in vars(module).values() if inspect.isclass(kind) and issubclass(kind, base))
    return frozenset(name for kind in kinds for name in inspect.signature(kind).parameters)


def _moment_misfits(
    optimizer: Optimizer, state: Mapping[Any, Any], groups: list[dict[str, Any]]
) -> Iterator[str]:
    places = (place for group in groups for place in group["params"])
    parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
    for place, parameter in zip(places, parameters, strict=True):
        if not type(optimizer).__module__.startswith("torch.optim"):
            return
        # That of a lazy module comes with the model's state.
        for name, value in {} if nn.parameter.is_lazy(parameter) else state.get(place, {}).items():
            if name in _ALIKE and isinstance(value, torch.Tensor) and value.shape != parameter.shape:
                there, here = tuple(value.shape), tuple(parameter.shape)
                yield f"'{name}' of parameter {place} has shape {there} there, and the parameter {here} here"


def _named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _schedule_misfits(scheduler: LRScheduler, saved: object) -> Iterator[str]:
    """Yield what tells that a state is that of another kind of scheduler.

    One with a `load_state_dict` of its own, that is not torch's, judges that itself.
    """
    if not type(scheduler).load_state_dict.__module__.startswith("torch."):
        return
    if not isinstance(saved, Mapping):
        yield "it holds no settings by name"
        return
    here = scheduler.state_dict()
    missing, unknown = (_telling(one.keys() - other.keys()) for one, other in ((here, saved), (saved, here)))
    other = _other_kind(
        scheduler, missing, unknown, _settings(lr_scheduler, LRScheduler) - _COMMON | {_INNER}
    )
    if other:
        yield other
        return
    yield from _list_misfits(scheduler, here, saved)


def _list_misfits(scheduler: LRScheduler, here: Mapping[str, Any], saved: Mapping[str, Any]) -> Iterator[str]:
    for name in _LISTS:
        there, own = saved.get(name, []), here.get(name, [])
        if not isinstance(there, list) or len(there) != len(own):
            count = len(there) if isinstance(there, list) else "none"
            yield f"'{name}' has {count} there and {len(own)} here"
        elif name == _INNER:
            for inner, state in zip(getattr(scheduler, _INNER, ()), there, strict=False):
                yield from _schedule_misfits(inner, state)


def _telling(keys: set[str]) -> set[str]:
    return {key for key in keys - _COMMON if key == _INNER or not key.startswith("_")}
