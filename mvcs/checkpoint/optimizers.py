"""What a captured state says of its optimizers: settings and state of every parameter, and its weight."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mvcs.checkpoint.roles import (
    GROUPS,
    MODEL,
    MOMENT_NAMES,
    STATE,
    Role,
    Standing,
    path_components,
    standings_of,
)
from mvcs.checkpoint.state.arrays import number_in, number_of
from mvcs.checkpoint.state.captured import Captured, CapturedLeaf
from mvcs.objects import Key, Path, Value, children_of, contents_of, element_count, tensor_reference

_NAMES = "param_names"
_BUFFERS = frozenset({"running_mean", "running_var"})

Shapes = Counter[tuple[int, ...]]
Plain = int | float | bool | str | tuple["Plain", ...] | None


@dataclass(frozen=True)
class Parameter:
    """One parameter as an optimizer of `torch.optim` knows it.

    Attributes:
        key: its number, or its name, in the optimizer's state.
        group: which optimizer of the state, and which of its groups, it is in.
        settings: the plain values of that group, such as lr and betas; never checked.
        leaves: its state's tensors that have dimensions, by name.
        nested: those that lie deeper, in the lists and dicts of its state, by the name of these.
        is_named: its state has no settings beside it, and its form says that names tell what its tensors are.
        kin: where nothing tells of what optimizer it is, the names of all such tensors of the state.
        counter: its state's step counter: a number, or the leaf that holds one; None where there is none.
        name: what the optimizer calls it: its key, or what its group says; None where it has a number alone.
        weight: the leaf of its value, where that is clear.
    """

    key: Key
    group: tuple[int, int]
    settings: Mapping[str, Plain]
    leaves: Mapping[str, int]
    counter: float | CapturedLeaf | None = None
    name: str | None = None
    weight: int | None = None
    nested: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    is_named: bool = False
    kin: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """The names in its state, or in all states like it, that tensors with dimensions stand under."""
        return self.kin or frozenset(self.leaves) | frozenset(self.nested)

    @property
    def any_leaf(self) -> int:
        """The first leaf of its state."""
        return next(iter((*self.leaves.values(), *(found[0] for found in self.nested.values()))))

    @property
    def step(self) -> float | None:
        """Steps done, read when asked for; None where that is not known."""
        return number_in(self.counter) if isinstance(self.counter, CapturedLeaf) else self.counter


def optimizer_parameters(captured: Captured, kinds: Sequence[Role]) -> list[Parameter]:
    """Return the parameters of every optimizer in a state that has tensors for them, also of wrapped ones.

    A name is the weight whose path ends with it. Numbers are matched as torch gives them out: in the order of
    the parameters. So the parameters of one shape are the weights of that shape, in order, if there are as
    many of them and all are in one group; of others the weight is not known. Where one part of the state has
    just the shapes of an optimizer, as a model beside an average of its weights, only that part counts.

    Args:
        captured: the state or files.
        kinds: the role of each leaf.
    """
    optimizers = _all_optimizers(captured)
    outside = [
        index
        for index, (leaf, kind) in enumerate(zip(captured.leaves, kinds, strict=True))
        if kind in {Role.WEIGHT, Role.SMALL} and _BUFFERS.isdisjoint(path_components(leaf.path)[-1:])
    ]
    found = [list(_parameters(number, node, captured.leaves)) for number, (_, node) in enumerate(optimizers)]
    parts: dict[Key, list[int]] = defaultdict(list)
    for index in outside:
        if len(captured.leaves[index].path) > 1:
            parts[captured.leaves[index].path[0]].append(index)
    shapes = {part: Counter(captured.leaves[index].shape for index in own) for part, own in parts.items()}
    homes = [_home(Counter(_shape(one, captured.leaves) for one in each), shapes) for each in found]
    # A wrapper and what it wraps have the same weights, two optimizers have not.
    owners = {(home, owner) for home, (owner, _) in zip(homes, optimizers, strict=True)}
    lived_in = Counter(home for home, _ in owners)
    matched: list[Parameter] = []
    rest: list[Parameter] = []
    for each, home in zip(found, homes, strict=True):
        if home is None or lived_in[home] > 1:
            rest += each
        else:
            matched += _matched(each, parts[home], captured.leaves)
    return matched + _matched(rest, outside, captured.leaves)


def _home(wanted: Shapes, shapes: Mapping[Key, Shapes]) -> Key | None:
    """Return the first name of the one part of a state that has just the shapes of an optimizer."""
    fitting = [part for part, own in shapes.items() if own == wanted]
    return MODEL if MODEL in fitting else fitting[0] if len(fitting) == 1 else None


def _all_optimizers(captured: Captured) -> list[tuple[int, dict[Key, Value]]]:
    """Return the optimizers of a state or of files, each with the number of the outermost that it is in."""
    contents = contents_of(captured.files, captured.root)
    # What an evaluation of a state's model may see is no moment, whatever its form.
    outermost = [one for path, node in contents for one in _optimizers(node, skipped=None if path else MODEL)]
    return [(owner, one) for owner, outer in enumerate(outermost) for one in (outer, *_wrapped(outer))]


def _optimizers(node: Value, skipped: Key | None = None) -> Iterator[dict[Key, Value]]:
    """Yield the outermost optimizers, but for those in a child that is `skipped`."""
    below = dict(children_of(node))
    if below.keys() >= {STATE, GROUPS}:
        yield below
        return
    for key, child in below.items():
        if key != skipped:
            yield from _optimizers(child)


def _wrapped(optimizer: dict[Key, Value]) -> Iterator[dict[Key, Value]]:
    """Yield the optimizers that one has beside its own state."""
    for key, child in optimizer.items():
        if key not in {STATE, GROUPS}:
            for inner in _optimizers(child):
                yield inner
                yield from _wrapped(inner)


def _parameters(
    number: int, optimizer: dict[Key, Value], leaves: Sequence[CapturedLeaf]
) -> Iterator[Parameter]:
    states = dict(children_of(optimizer[STATE]))
    for place, group in enumerate(dict(children_of(optimizer[GROUPS])).values()):
        values = dict(children_of(group))
        names = [name for _, name in children_of(values.pop(_NAMES, None))]
        keys = [key for _, key in children_of(values.pop("params", None))]
        settings = {str(name): _plain(node, leaves) for name, node in values.items()}
        for key, name in zip(keys, names if len(names) == len(keys) else keys, strict=True):
            if isinstance(key, int | str) and key in states:
                tensors, nested, counter = _state(states[key], leaves)
                called = name if isinstance(name, str) else None
                if tensors or nested:
                    one = Parameter(key, (number, place), settings, tensors, counter, called)
                    yield replace(one, nested=nested)


def _state(
    node: Value, leaves: Sequence[CapturedLeaf]
) -> tuple[dict[str, int], dict[str, tuple[int, ...]], float | CapturedLeaf | None]:
    tensors: dict[str, int] = {}
    nested: dict[str, tuple[int, ...]] = {}
    counter: float | CapturedLeaf | None = None
    for name, value in children_of(node):
        reference = tensor_reference(value)
        leaf = None if reference is None else leaves[reference[0]]
        if name == "step" and (leaf is None or element_count(leaf.shape) == 1):
            counter = number_of(value, leaves) if leaf is None else leaf
        elif reference is not None and leaf is not None and leaf.shape:
            tensors[str(name)] = reference[0]
        elif reference is None and (found := tuple(_tensors(value))):
            nested[str(name)] = found
    return tensors, nested, counter


def _tensors(node: Value) -> Iterator[int]:
    for _, value in children_of(node):
        reference = tensor_reference(value)
        if reference is None:
            yield from _tensors(value)
        else:
            yield reference[0]


def _plain(node: Value, leaves: Sequence[CapturedLeaf]) -> Plain:
    if isinstance(node, int | float | str):
        return node
    number = number_of(node, leaves)
    if number is None and isinstance(node, list) and tensor_reference(node) is None:
        return tuple(_plain(item, leaves) for _, item in children_of(node))
    return number


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
            if parameter.name is not None:
                result.append(replace(parameter, weight=_named(parameter.name, same, leaves)))
            else:
                result.append(replace(parameter, weight=same[place] if in_order else None))
    return result


def _shape(parameter: Parameter, leaves: Sequence[CapturedLeaf]) -> tuple[int, ...]:
    return leaves[parameter.any_leaf].shape


def _named(name: str, candidates: Sequence[int], leaves: Sequence[CapturedLeaf]) -> int | None:
    wanted = name.split(".")
    fitting = [index for index in candidates if path_components(leaves[index].path)[-len(wanted) :] == wanted]
    return fitting[0] if len(fitting) == 1 else None


_NO_GROUP = (-1, -1)
Place = tuple[bool, tuple[object, ...]]


def loose_parameters(
    captured: Captured, kinds: Sequence[Role], grouped: Collection[Parameter]
) -> list[Parameter]:
    """Return the moments that `optimizer_parameters` does not know of, by what they may belong to.

    Args:
        captured: the state or files.
        kinds: the role of each leaf.
        grouped: what it returned.
    """
    covered = {index for one in grouped for index in _leaves_of(one)}
    loose = [index for index, kind in enumerate(kinds) if kind is Role.MOMENT and index not in covered]
    # Most states have none: then nothing is walked once more.
    standings = standings_of(captured) if loose else {}
    found: dict[Place, dict[str, int]] = defaultdict(dict)
    for index in loose:
        leaf, named = captured.leaves[index], standings.get(index) is Standing.STATE
        if named or (element_count(leaf.shape) != 1 and GROUPS not in leaf.path):
            parent, name = _own_name(leaf.path) if named else _likely_name(leaf.path)
            found[named, parent][name] = index
    kin = frozenset(name for (named, _), leaves in found.items() if not named for name in leaves)
    return [_parameter(place, leaves, kin) for place, leaves in found.items()]


def _parameter(place: Place, leaves: dict[str, int], kin: frozenset[str]) -> Parameter:
    named, parent = place
    key = ".".join(map(str, parent))
    return Parameter(key, _NO_GROUP, {}, leaves, is_named=named, kin=frozenset() if named else kin)


def _leaves_of(parameter: Parameter) -> Iterator[int]:
    yield from parameter.leaves.values()
    for found in parameter.nested.values():
        yield from found


def _own_name(path: Path) -> tuple[tuple[object, ...], str]:
    """Return what a tensor is called, and what stands before that; a key may hold several parts."""
    parts = path_components(path)
    return tuple(parts[:-1]), parts[-1] if parts else ""


def _likely_name(path: Path) -> tuple[tuple[object, ...], str]:
    """Return what in a path is most likely the name of a moment, and the rest: the last that is no number."""
    parts = path_components(path)
    words = [at for at, part in enumerate(parts) if not part.isdigit()]
    moments = [at for at in words if parts[at] in MOMENT_NAMES]
    at = (moments or words or [len(parts) - 1])[-1]
    return (at, *parts[:at], *parts[at + 1 :]), parts[at] if parts else ""
