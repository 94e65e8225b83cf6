"""Whether a state fits a scheduler, a scaler of gradients, or a generator of torch."""

import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import torch
from torch.optim import lr_scheduler

_INNER: Final = "_schedulers"
_LISTS: Final = ("base_lrs", "lr_lambdas", _INNER)
# Of all schedulers, or of the versions of torch that print.
_COMMON: Final = {"self", "optimizer", "last_epoch", "verbose"}
_SCALER: Final = ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")


def schedule_misfits(scheduler: lr_scheduler.LRScheduler, saved: object) -> Iterator[str]:
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
    if (missing and unknown) or (missing | unknown) & _settings():
        names = [", ".join(sorted(found)) or "nothing else" for found in (unknown, missing)]
        yield f"it is of another kind than {type(scheduler).__name__}, with {names[0]} in place of {names[1]}"
        return
    yield from _list_misfits(scheduler, here, saved)


def _list_misfits(
    scheduler: lr_scheduler.LRScheduler, here: Mapping[str, Any], saved: Mapping[str, Any]
) -> Iterator[str]:
    for name in _LISTS:
        there, own = saved.get(name, []), here.get(name, [])
        if not isinstance(there, list) or len(there) != len(own):
            count = len(there) if isinstance(there, list) else "none"
            yield f"'{name}' has {count} there and {len(own)} here"
        elif name == _INNER:
            for inner, state in zip(getattr(scheduler, _INNER, ()), there, strict=False):
                yield from schedule_misfits(inner, state)


def scaler_misfits(scaler: torch.amp.GradScaler, saved: object) -> Iterator[str]:
    """Yield what a scaler of gradients would look for in vain; one that is not enabled looks for nothing."""
    if scaler.is_enabled():
        found = saved if isinstance(saved, Mapping) else {}
        yield from (f"'{name}' is missing there" for name in _SCALER if name not in found)


def generator_misfits(generator: torch.Generator, saved: object) -> Iterator[str]:
    """Yield why a generator of random numbers cannot take over a state."""
    try:
        torch.Generator(generator.device).set_state(saved)  # type: ignore[arg-type]  # it says so
    except (TypeError, RuntimeError) as error:
        yield f"it is no state of a generator: {error}"


def starts_anew(part: object, saved: object) -> bool:
    """Tell whether there is no state for a part: one was not saved, or by a scaler that was not enabled."""
    is_empty = isinstance(part, torch.amp.GradScaler) and part.is_enabled() and saved == {}
    return saved is None or is_empty


def _telling(keys: set[str]) -> set[str]:
    return {key for key in keys - _COMMON if key == _INNER or not key.startswith("_")}


@cache
def _settings() -> frozenset[str]:
    kinds = (kind for kind in vars(lr_scheduler).values() if inspect.isclass(kind))
    own = (kind for kind in kinds if issubclass(kind, lr_scheduler.LRScheduler))
    return frozenset(name for kind in own for name in inspect.signature(kind).parameters) - _COMMON | {_INNER}
