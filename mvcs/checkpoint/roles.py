"""What part a leaf plays in a training state, told from where it stands."""

import pathlib
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Protocol

from mvcs.checkpoint.formats.detection import is_called_file
from mvcs.objects import DType, FileEntry, NodeTag, Path, Value, children_of, contents_of, tensor_reference


class Role(StrEnum):
    """The part a leaf plays."""

    WEIGHT = "weight"
    SMALL = "small"
    MOMENT = "moment"
    GRADIENT = "gradient"
    OTHER = "other"


GRADIENTS = "optimizer_gradients"
"""The name in a run's state of gradients that no step has used yet; they are kept exactly."""

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
_OPTIMIZER_KEYS = frozenset({"state", "param_groups"})
_MAPPINGS = frozenset({NodeTag.DICT, NodeTag.COUNTER, NodeTag.ORDERED_DICT})
_NAMES = 2  # of a path that may be an optimizer's: those of a file and of what is first in it
_OPTIMIZER_NAME = re.compile(r"(optim|optimizer|optimizers)([._-].*)?", re.IGNORECASE)
_DIGITS = re.compile(r"[0-9]+")
_LARGEST_KERNEL = 31
_EMBEDDING = re.compile(r"(.*_)?(emb|embed|embeds|embedding|embeddings)(_.*)?|tok|pos|w[tp]e", re.IGNORECASE)


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


def roles_of(captured: Structured) -> list[Role]:
    """Return the role of every leaf, in order.

    WEIGHT: real floating point of 16 bits and more, two and more dimensions, outside optimizer state. SMALL:
    the same with fewer dimensions. MOMENT: floating point with dimensions inside optimizer state. GRADIENT:
    the same among gradients that no step of an optimizer has used. OTHER: all else (integers, booleans, RNG
    states, step counters, complex numbers, narrow floats).
    """
    inside, gradients = _optimizer_leaves(captured)
    return [
        _role(leaf, optimizer=index in inside, gradient=index in gradients)
        for index, leaf in enumerate(captured.leaves)
    ]


def _role(leaf: Typed, *, optimizer: bool, gradient: bool) -> Role:
    if gradient and leaf.dtype.kind == "float":
        return Role.GRADIENT
    if optimizer:
        return Role.MOMENT if leaf.dtype.kind == "float" and leaf.shape else Role.OTHER
    if not leaf.dtype.quantizable:
        return Role.OTHER
    return Role.WEIGHT if len(leaf.shape) > 1 else Role.SMALL


def _optimizer_leaves(captured: Structured) -> tuple[set[int], set[int]]:
    """Return the leaves inside optimizers, and those of them that are gradients."""
    found: dict[int, tuple[Path, bool]] = {}
    for path, node in contents_of(captured.files, captured.root):
        for index, place, inside in _walk(node, path, inside=_is_optimizer_name(path)):
            found.setdefault(index, (place, inside))
    inner = {index: place for index, (place, inside) in found.items() if inside}
    return set(inner), {index for index, place in inner.items() if GRADIENTS in _first_names(place)}


def _walk(node: Value, path: Path, *, inside: bool) -> Iterator[tuple[int, Path, bool]]:
    """Yield each reference to a leaf with its path, and whether it stands inside an optimizer."""
    # A stack of our own, and nothing for primitives: there may be millions of nodes.
    outer: list[tuple[Path, bool, Iterator[tuple[Path, Value]]]] = [(path, inside, iter([(path, node)]))]
    while outer:
        _, inside, below = outer[-1]
        for place, child in below:
            reference = tensor_reference(child)
            # Names further in do not count.
            here = inside or (len(place) <= _NAMES and _is_optimizer_name(place))
            if reference is not None:
                yield reference[0], place, here or not MOMENT_NAMES.isdisjoint(path_components(place))
                continue
            outer.append((place, here or _is_optimizer(child), _lists_below(child, place)))
            break
        else:
            outer.pop()


def _is_optimizer(node: Value) -> bool:
    if not isinstance(node, list) or node[0] not in _MAPPINGS:
        return False
    return {key for key, _ in children_of(node) if key in _OPTIMIZER_KEYS} == _OPTIMIZER_KEYS


def _lists_below(node: Value, path: Path) -> Iterator[tuple[Path, Value]]:
    return (((*path, key), child) for key, child in children_of(node) if isinstance(child, list))


def _is_optimizer_name(path: Path) -> bool:
    # The first name of a state, or a file's own name and the first name in it.
    return any(_OPTIMIZER_NAME.fullmatch(name) is not None for name in _first_names(path))


def _first_names(path: Path) -> list[str]:
    if not path:
        return []
    first = str(path[0])
    if not _is_file(path[0]):
        return [path_components(path[:1])[0]]
    return [pathlib.PurePosixPath(first).name, *(path_components(path[1:2])[:1])]


def _is_file(key: object) -> bool:
    return isinstance(key, str) and is_called_file(pathlib.PurePosixPath(key))


def path_components(path: Path) -> list[str]:
    """Return the components of a path; one key may hold several, joined with dots."""
    return [part for key in path for part in str(key).split(".")]


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
    below = path[1:] if len(path) > 1 and _is_file(path[0]) else path
    return ".".join("#" if _DIGITS.fullmatch(part) else part for part in path_components(below))


def is_embedding(path: Path, shape: Sequence[int]) -> bool:
    """Tell whether a weight is a table of embeddings, by its name: `tok_embeddings.weight`, `wte.weight`."""
    return len(shape) == 2 and any(_EMBEDDING.fullmatch(part) for part in path_components(path))
