"""What part a leaf plays in a training state, told from where it stands."""

import re
from collections.abc import Sequence
from enum import StrEnum

from mvcs.checkpoint.standing import Standing, Structured, Typed, is_file, path_components, standings_of
from mvcs.objects import Path


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
