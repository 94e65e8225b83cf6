"""Loading the states of parts, each of them once; those whose own code judges a state come first."""

import copy
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from mvcs.addresses import without_secrets
from mvcs.errors import UsageError
from mvcs.train.state.optimizers import keep_exact
from mvcs.train.state.placement import settings_placed
from mvcs.train.state.stateful import Stateful

_LOADER = "loader"

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
        part.load_state_dict(_copied(settings_placed(saved, part), part))
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
