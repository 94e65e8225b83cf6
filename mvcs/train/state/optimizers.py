"""The optimizers of a run: which parameter each state belongs to.

torch matches states with parameters by position alone. So a
commit says beside the states what their parameters are called, and how their tensors lie in memory.
"""

import copy
import functools
import inspect
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from mvcs.checkpoint import known_optimizer
from mvcs.errors import UsageError, some_of
from mvcs.train.state.host_copies import PLAIN_TYPES

_logger = logging.getLogger("mvcs.train")

PARAMETERS: Final = "optimizer_parameters"
_NAMES, _STRIDES = "names", "strides"
_SHOWN: Final = 8
# What torch's schedules hold for each group, and those that they are made of.
_RATES: Final = {"base_lrs", "_last_lr", "lr_lambdas", "max_lrs", "min_lrs"}
_BY_GROUP: Final = _RATES | {"base_momentums", "max_momentums"}
# What schedules write into groups for themselves, at their beginning.
SCHEDULED: Final = {"initial_lr", "max_lr", "min_lr", "swa_lr", "base_momentum", "max_momentum"}
_INNER: Final = "_schedulers"

Names = list[list[str | None]]
# For each group here the number of one there, and for each of its parameters the place in that.
Order = list[tuple[int, list[int]]]


class Optimizers:
    """The optimizers among the parts of a run, and the modules that know their parameters by name."""

    def __init__(self, parts: Mapping[str, object]) -> None:
        """Take all parts, further ones as `extra.NAME`."""
        self._parts = dict(parts)
        self._added: list[tuple[Optimizer, int]] = []
        self._made: dict[str, list[dict[str, Any]]] = {}

    def gather(self, state: Mapping[str, Any], *, strides: bool = True) -> dict[str, Any]:
        """Return what torch leaves out of the states of optimizers, by the name of the part.

        Args:
            state: the live state of the run.
            strides: look for tensors that do not lie row by row; without, there must be none.
        """
        known = self._known()
        found = {}
        for name, optimizer in self._optimizers():
            names = _called(optimizer, known)[0] if optimizer is not None else []
            laid = list(_strides(part_of(state, name), ())) if strides else []
            if laid or any(one is not None for group in names for one in group):
                found[name] = {_NAMES: names, _STRIDES: laid}
        return found

    def arrange(self, state: dict[str, Any], gradients: str, source: str) -> dict[str, Any]:
        """Return a state in which those of optimizers come in the order of the parameters here.

        Groups that only the state has are added where the model has their parameters, until `undo`.

        Args:
            state: what a commit of a run restored; its tensors are laid out as they were.
            gradients: under which name it has gradients.
            source: what to call it.

        Raises:
            UsageError: it is not clear which parameter a state belongs to; both orders are shown.
        """
        told = state.get(PARAMETERS)
        known = self._known()
        for name, optimizer in self._optimizers():
            saved, said = part_of(state, name), told.get(name) if isinstance(told, Mapping) else told
            self._made[name] = [_settings(group) for group in optimizer.param_groups] if optimizer else []
            if said is None or not isinstance(saved, Mapping):
                continue
            names = _read(name, saved, said, source)
            if optimizer is None:
                continue
            here, own, first = _called(optimizer, known)
            there = [[first.get(id(own.get(str(one))), one) for one in group] for group in names]
            if there == here or _are_renamed(name, there, here, own, source):
                continue
            order = _order(there, here, own)
            if order is None or not self._may_move(name, saved, state, order):
                raise UsageError(
                    f"{source} does not fit the {name}: its parameters are {_some(there)} there "
                    f"and {_some(here)} here",
                    hint=f"nothing is loaded; make the {name} as that run did, with the same groups",
                )
            state = self._moved(state, name, order, gradients)
            self._add_groups(name, optimizer, [there[place] for place, _ in order], own)
            if there[: len(here)] != here:
                text = "%s has the states of the %s in the order %s; they are matched by name, with %s"
                _logger.warning(text, source, name, _some(there), _some(here))
        return state

    def settle(self, state: Mapping[str, Any], source: str) -> None:
        """Put back what schedules without a state wrote into groups, once optimizers have loaded theirs.

        Beside a schedule that continues, rates and momentum are as that left them. The log says which other
        settings the commit replaced, and whether another class of torch made the state.
        """
        for name, optimizer in self._optimizers():
            schedules = [part_of(state, other) is not None for other, _ in self._schedules(name)]
            groups = optimizer.param_groups if optimizer is not None and not all(schedules) else ()
            for group, made in zip(groups, self._made[name], strict=False):  # those that were added are last
                own = {key: value for key, value in made.items() if key in SCHEDULED}
                if any(schedules):
                    own = {key: value for key, value in own.items() if key not in group}
                else:
                    own |= {"lr": made["lr"]} | _momentum(made, group)
                group.update(own)
            if optimizer is not None:
                self._tell_settings(name, optimizer, part_of(state, name), source, scheduled=any(schedules))

    def _tell_settings(
        self,
        name: str,
        optimizer: Optimizer,
        saved: Any,  # noqa: ANN401 - of whatever form
        source: str,
        *,
        scheduled: bool,
    ) -> None:
        if not isinstance(saved, Mapping) or "param_groups" not in saved:
            return
        # What else stands in groups some optimizers count there.
        wanted = {*inspect.signature(type(optimizer)).parameters, "decoupled_weight_decay"}
        said = set[str]()
        for made, group in zip(self._made[name], optimizer.param_groups, strict=False):
            moved = (
                {"lr", *(("momentum", "betas") if "max_momentum" in group else ())} if scheduled else set()
            )
            keys = made.keys() & wanted & group.keys() - moved
            said |= {
                f"{key} {made[key]} -> {group[key]}" for key in keys if str(made[key]) != str(group[key])
            }
        told = (
            [f"the commit's settings replace the script's: {some_of(sorted(said), _SHOWN)}"] if said else []
        )
        was, here = (class_of(saved, groups[0]) for groups in (saved["param_groups"], self._made[name]))
        if None not in {was, here} and was != here:
            told = [f"it was committed from {was}; here is {here}", *told]
        if told:
            _logger.warning("%s, %s: %s", source, name, "; ".join(told))

    def undo(self) -> None:
        """Take the groups away that were added."""
        for optimizer, count in self._added:
            del optimizer.param_groups[count:]
        self._added = []

    def train_added(self) -> None:
        """Have the parameters of added groups trained."""
        for optimizer, count in self._added:
            train_groups(
                optimizer, count, *(one for one in self._parts.values() if isinstance(one, nn.Module))
            )
        self._added = []

    def _optimizers(self) -> Iterator[tuple[str, Optimizer | None]]:
        """Yield the parts that are optimizers or wrap some, with the one whose parameters they have."""
        for name, part in self._parts.items():
            if (name == "optimizer" or isinstance(part, Optimizer)) and optimizers_in(part):
                yield name, innermost(part)

    def _known(self) -> dict[str, torch.Tensor]:
        """Return the parameters of all modules by their paths in a state, tied ones by each of theirs."""
        found: dict[str, torch.Tensor] = {}
        for name, part in self._parts.items():
            if isinstance(part, nn.Module):
                for place, parameter in part.named_parameters(remove_duplicate=False):
                    # A compiled module puts itself in between.
                    found[f"{name}.{place.replace('_orig_mod.', '')}"] = parameter
        return found

    def _schedules(self, name: str) -> Iterator[tuple[str, LRScheduler]]:
        own = innermost(self._parts[name])
        for other, part in self._parts.items():
            # That of accelerate wraps one, and has its state.
            inner = part if isinstance(part, nn.Module) else getattr(part, "scheduler", part)
            if isinstance(inner, LRScheduler) and innermost(inner.optimizer) is own:
                yield other, inner

    def _may_move(self, name: str, saved: Mapping[str, Any], state: Mapping[str, Any], order: Order) -> bool:
        """Tell whether all that goes by the order of parameters and of groups is known."""
        if isinstance(innermost(self._parts[name]), torch.optim.LBFGS) or saved.keys() != {
            "state",
            "param_groups",
        }:
            return False
        if [place for place, _ in order] == list(range(len(order))):
            return True
        schedules = dict(self._schedules(name))
        is_known = "scheduler" in schedules or self._parts.get("scheduler") is None or name != "optimizer"
        counts = {len(one) for other in schedules for one in _by_group(part_of(state, other))}
        return is_known and counts <= {len(order)}

    def _add_groups(
        self,
        name: str,
        optimizer: Optimizer,
        names: Names,
        known: Mapping[str, torch.Tensor],
    ) -> None:
        count = len(optimizer.param_groups)
        if len(names) > count:
            self._added.append((optimizer, count))
        for called in names[count:]:
            own = [(str(one).partition(".")[2], known[str(one)]) for one in called]
            is_named = "param_names" in optimizer.param_groups[0]
            optimizer.add_param_group({"params": own if is_named else [one for _, one in own]})
            _logger.warning(
                "the %s gets the group that was added to it in that run: %s", name, _some([called])
            )

    def _moved(self, state: dict[str, Any], name: str, order: Order, gradients: str) -> dict[str, Any]:
        saved = part_of(state, name)
        groups = saved["param_groups"]
        ids = [one for group in groups for one in group["params"]]
        moved = [groups[place]["params"][one] for place, ones in order for one in ones]
        places = {one: place for place, one in enumerate(ids)}
        new, fresh = [], iter(ids)
        for place, ones in order:
            group = dict(groups[place])
            for key in {"params", "param_names"} & group.keys():
                group[key] = [group[key][one] for one in ones]
            new.append(group | {"params": [next(fresh) for _ in ones]})
        given = {one: value for one, value in saved["state"].items() if one not in places}
        given |= {
            one: saved["state"][was] for one, was in zip(ids, moved, strict=True) if was in saved["state"]
        }
        state = _with_part(state, name, {**saved, "state": given, "param_groups": new})
        regroup = [one for one, _ in order]
        for other, _ in self._schedules(name) if regroup != sorted(regroup) else ():
            state = _with_part(state, other, _regrouped(part_of(state, other), regroup))
        others = state.get(gradients)  # what is not of these parameters is refused as it is
        kept = others.get(name) if isinstance(others, dict) else None
        if isinstance(others, dict) and isinstance(kept, list) and len(kept) == len(ids):
            again = [kept[places[was]] for was in moved]
            state = {**state, gradients: {**others, name: again}}
        return state


def optimizers_in(part: object) -> list[Optimizer]:
    """Return the optimizers of torch that a part wraps, from the inside, and itself where it is one."""
    # Those of accelerate and others are optimizers by their class alone.
    is_one = isinstance(part, Optimizer) and hasattr(part, "_optimizer_step_post_hooks")
    found: list[Any] = [part] if is_one else []
    is_plain = getattr(type(part), "load_state_dict", None) is Optimizer.load_state_dict
    if isinstance(part, LRScheduler) or (is_one and is_plain):
        return found
    for value in getattr(part, "__dict__", {}).values():
        several = value.values() if isinstance(value, dict) else value
        for one in several if isinstance(value, dict | list | tuple) else (value,):
            found = [*(optimizers_in(one) if isinstance(one, Optimizer) else ()), *found]
    return found


def class_of(saved: Mapping[str, Any], group: Mapping[str, Any]) -> str | None:
    """Return which optimizer keeps what a state has, with the settings of a group; None where unknown."""
    states = saved.get("state")
    first = next(iter(states.values()), None) if isinstance(states, Mapping) else None
    kept = first.items() if isinstance(first, Mapping) else ()
    tensors = {name for name, value in kept if isinstance(value, torch.Tensor) and value.dim()}
    found = known_optimizer(tensors, group.keys())
    if found is None or found.name != "Adam":
        return found.name if found else None
    is_decoupled = group.get("decoupled_weight_decay")  # older versions of torch did not say
    return None if is_decoupled is None else "AdamW" if is_decoupled else "Adam"


def innermost(part: object) -> Optimizer | None:
    """Return the optimizer whose parameters and steps are those of a part; None where there are several."""
    found = optimizers_in(part)
    return found[0] if len(found) == 1 or (found and isinstance(part, Optimizer)) else None


def train_groups(optimizer: Optimizer, count: int, *modules: nn.Module) -> None:
    """Have the parameters of groups behind so many trained: those with a state, or all if none has one."""
    added = [one for group in optimizer.param_groups[count:] for one in group["params"]]
    trained = {id(one) for one in added if one in optimizer.state or not optimizer.state}
    for module in (child for each in modules for child in each.modules()):
        for parameter in module.parameters(recurse=False):
            if id(parameter) in trained:
                parameter.requires_grad_()
                # Lightning freezes norms so.
                if isinstance(module, nn.modules.batchnorm._BatchNorm):  # noqa: SLF001 - torch's
                    module.track_running_stats = module.running_mean is not None


def _called(
    optimizer: Optimizer, known: Mapping[str, torch.Tensor]
) -> tuple[Names, dict[str, torch.Tensor], dict[int, str]]:
    """Return the names of parameters by group, parameters by any of their names, and names by their ids."""
    own = dict(known)
    for group in optimizer.param_groups:
        for name, parameter in zip(group.get("param_names", ()), group["params"], strict=False):
            own.setdefault(name, parameter)
    first = {id(parameter): name for name, parameter in reversed(own.items())}
    names = [[first.get(id(parameter)) for parameter in group["params"]] for group in optimizer.param_groups]
    return names, own, first


def _are_renamed(name: str, there: Names, here: Names, known: Mapping[str, object], source: str) -> bool:
    """Tell whether a model has other names for all parameters, as one that converts what it loads."""
    named, renamed = ({one for group in names for one in group} for names in (there, here))
    if (
        named & (renamed | known.keys())
        or None in named | renamed
        or list(map(len, there)) != list(map(len, here))
    ):
        return False
    _logger.warning("%s has other names for the parameters of the %s: taken in their order", source, name)
    return True


def _order(there: Names, here: Names, known: Mapping[str, object]) -> Order | None:
    """Return where each group here stands there, then those that are to be added; None where in doubt."""
    free = dict(enumerate(there))
    order: Order = []
    for number, group in enumerate(here):
        same = [number] if free.get(number) == group else []
        alike = [place for place, other in free.items() if None not in group and set(other) == set(group)]
        if not same + alike or len(free[(same + alike)[0]]) != len(group):
            return None
        place = (same + alike)[0]
        places = {name: one for one, name in enumerate(free.pop(place))}
        order.append((place, list(range(len(group))) if same else [places[name] for name in group]))
    taken = {name for group in here for name in group}
    if any(name in taken or name not in known for group in free.values() for name in group):
        return None
    return order + [(place, list(range(len(group)))) for place, group in free.items()]


def _strides(node: object, path: tuple[Any, ...]) -> Iterator[list[Any]]:
    """Yield path and strides of the tensors in a state that do not lie row by row, but without gaps."""
    if not isinstance(node, dict | list):
        return
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        kind = type(value)
        if kind in PLAIN_TYPES:
            other = value.layout is torch.strided and not value.is_contiguous()
            if other and not value.is_nested and _is_dense(value):
                yield [[*path, key], list(value.stride())]
        elif kind is not int:  # as the numbers of parameters are, which may be many
            yield from _strides(value, (*path, key))


def _is_dense(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor's elements lie without gaps and apart, in whichever order."""
    return tensor.stride() == torch.empty_like(tensor, device="meta").stride()


def _read(name: str, saved: Mapping[str, Any], said: Any, source: str) -> Names:  # noqa: ANN401 - anything
    """Lay the tensors of a state out as is said beside it, and return the names of its parameters.

    Raises:
        UsageError: what is said does not belong to the state.
    """
    try:
        is_dense = True
        for path, strides in said[_STRIDES]:
            *outer, last = path
            node: Any = functools.reduce(_below, outer, saved)
            tensor = _below(node, last)
            laid = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device="meta")
            # A second time for one tensor would be a copy for each word of a hostile store.
            is_dense = is_dense and _is_dense(laid) and tensor.is_contiguous() and not laid.is_contiguous()
            node[last] = torch.empty_like(laid, device="cpu").copy_(tensor) if is_dense else tensor
        names: Names = [[_name(one) for one in group] for group in said[_NAMES]]
        # What wraps an optimizer may have groups elsewhere.
        counts = (
            [len(group["params"]) for group in saved["param_groups"]] if "param_groups" in saved else None
        )
        is_fit = is_dense and counts in (None, list(map(len, names)))
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError):
        is_fit = False
    if not is_fit:
        raise UsageError(
            f"{source} does not fit the {name}: the names and strides beside its state are of another",
            hint="nothing is loaded; resume from another commit, which 'mvcs log' names",
        )
    return names


def _settings(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a group's settings, without its parameters."""
    return {
        key: value.clone() if isinstance(value, torch.Tensor) else value
        for key, value in group.items()
        if key not in {"params", "param_names"}
    }


def _momentum(made: Mapping[str, Any], group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the momentum that a schedule which cycles it began with; other betas are those of the group."""
    if "max_momentum" not in made:
        return {}
    found = {key: made[key] for key in {"momentum"} & made.keys()}
    return found | ({"betas": (made["betas"][0], *group["betas"][1:])} if "betas" in made else {})


def _below(node: Any, key: Any) -> Any:  # noqa: ANN401 - what is below anything
    if not isinstance(node, dict | list):
        raise TypeError("nothing is below a value")
    return node[key]


def _name(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError("no name")
    return value


def part_of(state: Any, name: str) -> Any:  # noqa: ANN401 - whatever it is
    """Return the state of a part by its place, such as `extra.NAME`; None where there is none."""
    key, rest = _first_key(state, name)
    found = state.get(key) if isinstance(state, Mapping) else None
    if isinstance(state, list):
        found = state[key] if isinstance(key, int) and key < len(state) else None
    return part_of(found, rest) if rest else found


def _with_part(state: Any, name: str, saved: object) -> Any:  # noqa: ANN401 - the same
    key, rest = _first_key(state, name)
    changed = copy.copy(state)
    changed[key] = _with_part(state[key], rest, saved) if rest else saved
    return changed


def _first_key(state: object, name: str) -> tuple[Any, str]:
    """Take the first key off a place; a key may have dots, as names of further parts do."""
    if isinstance(state, Mapping) and name in state:
        return name, ""
    key, _, rest = name.partition(".")
    return int(key) if isinstance(state, list) and key.isdecimal() else key, rest


def _by_group(schedule: Any) -> Iterator[list[Any]]:  # noqa: ANN401 - a state of any form
    if isinstance(schedule, Mapping):
        yield from (one for name, one in schedule.items() if name in _BY_GROUP and isinstance(one, list))
        for inner in schedule.get(_INNER, ()):
            yield from _by_group(inner)


def _regrouped(schedule: Any, order: Sequence[int]) -> Any:  # noqa: ANN401 - the same
    """Return the state of a schedule for groups in another order."""
    if not isinstance(schedule, Mapping):
        return schedule
    found = dict(schedule)
    for name in _BY_GROUP & found.keys():
        if isinstance(found[name], list):
            found[name] = [found[name][place] for place in order]
    if _INNER in found:
        found[_INNER] = [_regrouped(inner, order) for inner in found[_INNER]]
    return found


def _some(names: Names) -> str:
    groups = (some_of([str(one).removeprefix("model.") for one in group], _SHOWN) for group in names)
    return ", ".join(f"[{group}]" for group in groups)
