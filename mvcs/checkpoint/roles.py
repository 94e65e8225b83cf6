"""What part a leaf plays in a training state, told from where it stands."""

import pathlib
import re
from collections.abc import Iterator, Sequence
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import NamedTuple, Protocol

from mvcs.checkpoint.formats.detection import SUFFIXES, TORCH_SUFFIXES, is_called_file
from mvcs.objects import DType, FileEntry, NodeTag, Path, Value, children_of, contents_of, tensor_reference

GRADIENTS = "optimizer_gradients"
"""The name in a run's state of gradients that no step has used yet; they are kept exactly."""

STATE, GROUPS = "state", "param_groups"  # of what an optimizer of `torch.optim` hands over
MODEL = "model"  # what the training hook, and most scripts, call the part of a state that has the weights
MODELS = frozenset({MODEL, "state_dict"})
EXTRA = "_extra_state"
"""What torch calls the part of a module's state that is neither a parameter nor a buffer."""
MOMENT_NAMES = frozenset(
    {
        "exp_avg",
        "exp_avg_sq",
        "exp_avg_sq_row",
        "exp_avg_sq_col",
        "max_exp_avg_sq",
        "momentum_buffer",
        "square_avg",
        "grad_avg",
        "acc_delta",
        "sum",
        "exp_inf",
    }
)
_TELLING = MOMENT_NAMES | {EXTRA}
_MAPPINGS = frozenset({NodeTag.DICT, NodeTag.COUNTER, NodeTag.ORDERED_DICT})
_NAMES = 2  # of a path that may be an optimizer's: those of a file and of what is first in it
_BELOW = 3  # keys from an optimizer to a tensor of its state: "state", the parameter, the tensor
_OPTIMIZER_NAME = re.compile(r"(optim|optimizer|optimizers)([._-].*)?", re.IGNORECASE)


class Standing(IntEnum):
    """Where a leaf stands. The first of these counts where it stands in several places.

    GRADIENT: among gradients that no step of an optimizer has used. APART: in the extra state of a module.
    OUTSIDE: in no optimizer. CALLED: the same, called as a moment is, and not of a model. INSIDE: in what an
    optimizer keeps, of whose form or settings nothing is known. STATE: in the state of a parameter, where
    names tell what a tensor is: in what has the form of `torch.optim`, or in a file of tensors alone, which
    has no settings that could say more.
    """

    GRADIENT = 0
    APART = 1
    OUTSIDE = 2
    CALLED = 3
    INSIDE = 4
    STATE = 5


class Typed(Protocol):
    """A leaf's dtype and shape."""

    @property
    def dtype(self) -> DType:
        """Its element type."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        ...


class Structured(Protocol):
    """What was captured, or a tree: leaves and the structure that refers to them."""

    @property
    def leaves(self) -> Sequence[Typed]:
        """Every tensor once."""
        ...

    @property
    def root(self) -> Value:
        """The structure of a state."""
        ...

    @property
    def files(self) -> tuple[FileEntry, ...] | None:
        """The files, or None for a state."""
        ...


class _Around(NamedTuple):
    """What a node stands in: whether in an optimizer, and how many keys lead to the nearest of its form."""

    inside: bool
    form: int | None = None


def standings_of(captured: Structured) -> dict[int, Standing]:
    """Return where each leaf stands, by its number."""
    found: dict[int, Standing] = {}
    for path, node in contents_of(captured.files, captured.root):
        flat = all(tensor_reference(child) is not None for _, child in children_of(node))
        for index, place, around in _walk(node, path):
            here = _standing(place, around, flat=flat)
            found[index] = min(found.get(index, here), here)
    return found


def _standing(place: Path, around: _Around, *, flat: bool) -> Standing:
    if not around.inside:
        names = _TELLING.intersection(path_components(place))
        if not names:
            return Standing.OUTSIDE
        if EXTRA in names:
            return Standing.APART
        return Standing.CALLED if MODELS.isdisjoint(_first_names(place)) else Standing.OUTSIDE
    if GRADIENTS in _first_names(place):
        return Standing.GRADIENT
    # What an evaluation of the model may see is no moment, whatever its form.
    told = flat or (
        (around.form is not None and len(place) == around.form + _BELOW and place[around.form] == STATE)
        and place[0] != MODEL
    )
    return Standing.STATE if told else Standing.INSIDE


def _walk(node: Value, path: Path) -> Iterator[tuple[int, Path, _Around]]:
    """Yield each reference to a leaf with its path, and what it stands in."""
    # A stack of our own, and nothing for primitives: there may be millions of nodes.
    outer = [(_Around(_is_optimizer_name(path)), iter([(path, node)]))]
    while outer:
        around, below = outer[-1]
        for place, child in below:
            reference = tensor_reference(child)
            # Names further in do not count.
            named_here = len(place) < _NAMES or (len(place) == _NAMES and is_file(place[0]))
            if not around.inside and named_here and _is_optimizer_name(place):
                named = around._replace(inside=True)
            else:
                named = around
            if reference is not None:
                yield reference[0], place, named
                continue
            inner = _Around(True, len(place)) if is_optimizer(child) else named
            outer.append((inner, _lists_below(child, place)))
            break
        else:
            outer.pop()


def is_optimizer(node: Value) -> bool:
    """Tell whether a node has the form of what an optimizer hands over: groups, beside a state or not."""
    if not isinstance(node, list) or node[0] not in _MAPPINGS:
        return False
    below = {key: child for key, child in children_of(node) if key in {STATE, GROUPS}}
    if GROUPS not in below:
        return False
    groups = (group for _, group in children_of(below[GROUPS]))
    return STATE in below or any(key == "params" for group in groups for key, _ in children_of(group))


def _lists_below(node: Value, path: Path) -> Iterator[tuple[Path, Value]]:
    return (((*path, key), child) for key, child in children_of(node) if isinstance(child, list))


def _is_optimizer_name(path: Path) -> bool:
    # The first name of a state, or a file's own name and the first name in it.
    return any(_OPTIMIZER_NAME.fullmatch(name) is not None for name in _first_names(path))


def _first_names(path: Path) -> list[str]:
    if not path:
        return []
    if not is_file(path[0]):
        return [str(path[0]).split(".", 1)[0]]
    return [pathlib.PurePosixPath(str(path[0])).name, *(path_components(path[1:2])[:1])]


@lru_cache(1)
def is_file(key: object) -> bool:
    """Tell whether the first key of a path is a file of tensors."""
    # Nearly all keys are names of tensors, of which the last letters tell in a fraction of the time.
    maybe = isinstance(key, str) and key.lower().rstrip("/.").endswith((*SUFFIXES, *TORCH_SUFFIXES))
    return maybe and is_called_file(pathlib.PurePosixPath(str(key)))


def path_components(path: Path) -> list[str]:
    """Return the components of a path; one key may hold several, joined with dots."""
    return ".".join(map(str, path)).split(".") if path else []


class Role(StrEnum):
    """The part a leaf plays."""

    WEIGHT = "weight"
    SMALL = "small"
    MOMENT = "moment"
    GRADIENT = "gradient"
    OTHER = "other"


_DIGITS = re.compile(r"[0-9]+")
_LARGEST_KERNEL = 31
_EMBEDDING = re.compile(r"(.*_)?(emb|embed|embeds|embedding|embeddings)(_.*)?|tok|pos|w[tp]e", re.IGNORECASE)


def roles_of(captured: Structured) -> list[Role]:
    """Return the role of every leaf, in order.

    WEIGHT: real floating point of 16 bits and more, two and more dimensions, outside optimizer state. SMALL:
    the same with fewer dimensions. MOMENT: floating point with dimensions inside optimizer state, or called
    as moments are and not of a model. GRADIENT: the same among gradients that no step of an optimizer has
    used. OTHER: all else (integers, booleans, RNG states, step counters, complex numbers, narrow floats,
    what modules of torch hand over as extra state, and what has no elements).
    """
    standings = standings_of(captured)
    return [_role(leaf, standings.get(index, Standing.OUTSIDE)) for index, leaf in enumerate(captured.leaves)]


def _role(leaf: Typed, standing: Standing) -> Role:
    if standing is Standing.GRADIENT and leaf.dtype.kind == "float":
        return Role.GRADIENT
    if standing is Standing.APART:
        return Role.OTHER
    if standing is not Standing.OUTSIDE:
        return Role.MOMENT if leaf.dtype.kind == "float" and leaf.shape else Role.OTHER
    if not leaf.dtype.quantizable or 0 in leaf.shape:
        return Role.OTHER
    return Role.WEIGHT if len(leaf.shape) > 1 else Role.SMALL


def layer_type(path: Path, shape: Sequence[int] = ()) -> str:
    """Return what leaves of one kind have in common.

    For convolutions that is their kernel, as in `convolution 3x3`: nets name them differently from block to
    block, and all of one size move alike. For others it is the name but for numbers, as in
    `blocks.#.attn.qkv.weight`; a file's name in front does not count, so that a model in several files has
    the types of one in a single file.
    """
    kernel = shape[2:]
    if kernel and max(kernel) <= _LARGEST_KERNEL:
        return "convolution " + "x".join(map(str, kernel))
    below = path[1:] if len(path) > 1 and is_file(path[0]) else path
    return ".".join("#" if _DIGITS.fullmatch(part) else part for part in path_components(below))


def is_embedding(path: Path, shape: Sequence[int]) -> bool:
    """Tell whether a weight is a table of embeddings, by its name: `tok_embeddings.weight`, `wte.weight`."""
    return len(shape) == 2 and any(_EMBEDDING.fullmatch(part) for part in path_components(path))
