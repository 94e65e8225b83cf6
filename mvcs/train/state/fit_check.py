"""Whether the state of a commit fits a part of a run, found out before any part is changed."""

import inspect
import random
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, reduce
from types import ModuleType
from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer, lr_scheduler
from torch.optim.lr_scheduler import LRScheduler

from mvcs.checkpoint import check_state
from mvcs.errors import UsageError, some_of
from mvcs.train.state.optimizers import SCHEDULED, class_of

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
        yield from _scaler_misfits(part, saved)
    elif isinstance(part, torch.Generator):
        yield from _generator_misfits(part, saved)
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


def _scaler_misfits(scaler: GradScaler, saved: object) -> Iterator[str]:
    """Yield what a scaler of gradients would look for in vain; one that is not enabled looks for nothing."""
    if scaler.is_enabled():
        found = saved if isinstance(saved, Mapping) else {}
        yield from (f"'{name}' is missing there" for name in _SCALER if name not in found)


def _generator_misfits(generator: torch.Generator, saved: object) -> Iterator[str]:
    """Yield why a generator of random numbers cannot take over a state."""
    try:
        torch.Generator(generator.device).set_state(saved)  # type: ignore[arg-type]  # it says so
    except (TypeError, RuntimeError) as error:
        yield f"it is no state of a generator: {error}"


def _telling(keys: set[str]) -> set[str]:
    return {key for key in keys - _COMMON if key == _INNER or not key.startswith("_")}
