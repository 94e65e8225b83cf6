"""What the modules of a model are made of: remembered before a loan, compared after it, and put back."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Self

from torch import nn

_MODULES: Final = "_modules"
_REGISTRIES: Final = ("_parameters", "_buffers", _MODULES)
_HOOKS: Final = tuple(
    name for name, held in vars(nn.Module()).items() if isinstance(held, dict) and "_hooks" in name
)
_NOTHING: Final[Mapping[Any, Any]] = {}
_PARAMETRIZED: Final = "parametrizations"  # where torch.nn.utils.parametrize registers what computes weights


class _Module(NamedTuple):
    """One module: its mode, its class, what is registered in it, and its other attributes."""

    name: str
    module: nn.Module
    training: bool
    kind: type[nn.Module]
    properties: Mapping[str, property]
    attributes: Mapping[str, Any]
    held: Mapping[str, Any]
    before: Mapping[str, Mapping[Any, Any]]

    @classmethod
    def of(cls, name: str, module: nn.Module) -> Self:
        attributes = dict(vars(module))
        # Read as attributes, since modules of TorchScript have these elsewhere.
        held = {registry: getattr(module, registry) for registry in _REGISTRIES}
        held |= {hooks: attributes[hooks] for hooks in _HOOKS if hooks in attributes}
        before = {registry: dict(inside) for registry, inside in held.items() if inside}
        properties = _parametrized(module) if _PARAMETRIZED in held[_MODULES] else _NOTHING
        return cls(name, module, module.training, type(module), properties, attributes, held, before)

    def changes(self) -> Iterator[str]:
        """Yield what training would mind: other submodules, another class, or a hook that is gone.

        A hook that was added is no change: an evaluation that listens to layers may end before it stops.
        """
        children = self.before.get(_MODULES, _NOTHING)
        now = getattr(self.module, _MODULES)
        if not _is_same(now, children):
            yield from self._other_children(dict(now), children)
        if type(self.module) is not self.kind:
            yield f"changed the class of {self._described}"
        hooks = self.before.keys() - _REGISTRIES
        if any(key not in getattr(self.module, name) for name in hooks for key in self.before[name]):
            yield f"removed a hook of {self._described}"

    def _other_children(self, now: Mapping[str, Any], children: Mapping[str, Any]) -> Iterator[str]:
        for key in children:
            if key not in now:
                yield f"removed the module '{self._path(key)}'"
            elif now[key] is not children[key]:
                yield f"replaced the module '{self._path(key)}'"
        yield from (f"added the module '{self._path(key)}'" for key in now if key not in children)

    def put_back(self, *, attributes: bool) -> None:
        if type(self.module) is not self.kind:
            self.module.__class__ = self.kind
        for name, made in self.properties.items():
            # Removing a parametrization takes its property off the class, which is this module's own.
            if name not in vars(self.kind):
                setattr(self.kind, name, made)
        for name, held in self.held.items():
            if getattr(self.module, name) is not held:
                setattr(self.module, name, held)
            _put_back(held, self.before.get(name, _NOTHING))
        if attributes:
            vars(self.module).clear()
            vars(self.module).update(self.attributes)
        if self.module.training is not self.training:
            self.module.training = self.training

    def _path(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key

    @property
    def _described(self) -> str:
        return f"the module '{self.name}'" if self.name else "the model"


def _parametrized(module: nn.Module) -> Mapping[str, property]:
    return {name: made for name, made in vars(type(module)).items() if isinstance(made, property)}


def _put_back(held: dict[Any, Any], before: Mapping[Any, Any]) -> None:
    if (held or before) and not _is_same(held, before):
        held.clear()
        held.update(before)


def _is_same(now: Mapping[Any, Any], before: Mapping[Any, Any]) -> bool:
    if len(now) != len(before):
        return False
    pairs = zip(now.items(), before.items(), strict=True)
    return all(here[0] == there[0] and here[1] is there[1] for here, there in pairs)


class ModuleStructure:
    """The modules of a model as they are now."""

    def __init__(self, model: nn.Module) -> None:
        self._modules = [_Module.of(name, module) for name, module in model.named_modules()]

    def change(self) -> str | None:
        """Return in words what was restructured since, or None where nothing was."""
        changes = [change for module in self._modules for change in module.changes()]
        return _counted(changes) if changes else None

    def put_back(self, *, attributes: bool) -> None:
        """Register in each module what was there, and give it its class and its mode.

        Args:
            attributes: give it its other attributes as well, such as a flag that weights are merged.
        """
        for module in self._modules:
            module.put_back(attributes=attributes)


def _counted(changes: Iterable[str]) -> str:
    first, *others = changes
    more = f", and made {len(others)} more change{'s' * (len(others) > 1)} to its modules"
    return first + more if others else first
