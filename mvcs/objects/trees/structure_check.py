"""A decoded structure checked as a whole, so that later readers may trust it."""

from itertools import pairwise

from mvcs.errors import CorruptionError
from mvcs.objects.cbor import Value, dumps
from mvcs.objects.checked_fields import as_bytes, as_float, as_integer, as_text
from mvcs.objects.trees.structure import (
    MAX_NESTING,
    SCALARS,
    NodeTag,
    blob_reference,
    exact_parts,
    only_part,
    tag_of,
    tensor_reference,
    walk_nodes,
)


def check(node: Value) -> None:
    """Check a whole decoded structure, so that later readers may trust it.

    Raises:
        CorruptionError: a node is malformed.
        UnsupportedFormatError: a tag is unknown.
    """
    for path, item in walk_nodes(node):
        if len(path) > MAX_NESTING:
            raise CorruptionError(f"a structure is nested deeper than {MAX_NESTING} levels")
        if isinstance(item, list):
            _check_leaf(*tag_of(item))


def _check_leaf(tag: NodeTag, rest: list[Value]) -> None:
    if tag is NodeTag.BYTEARRAY:
        _check_bytearray(only_part(rest))
    elif tag in (NodeTag.SET, NodeTag.FROZENSET):
        _check_members(rest)
    elif tag is NodeTag.TENSOR:
        tensor_reference([tag, *rest])
    elif tag in (NodeTag.BLOB_BYTES, NodeTag.BLOB_TEXT):
        blob_reference([tag, *rest])
    else:
        _check_value(tag, rest)


def _check_value(tag: NodeTag, rest: list[Value]) -> None:
    if tag is NodeTag.COMPLEX:
        for part in exact_parts(rest, 2):
            as_float(part, "a complex number")
    elif tag in (NodeTag.TORCH_DTYPE, NodeTag.TORCH_DEVICE):
        as_text(only_part(rest), "a torch constant")
    elif tag is NodeTag.TORCH_SIZE:
        for size in rest:
            as_integer(size, "a size")
    elif tag is NodeTag.NUMPY_SCALAR:
        name, raw = exact_parts(rest, 2)
        as_text(name, "a numpy type"), as_bytes(raw, "a numpy scalar")


def _check_bytearray(content: Value) -> None:
    if blob_reference(content) is None or tag_of(content)[0] is not NodeTag.BLOB_BYTES:
        as_bytes(content, "a bytearray")


def _check_members(members: list[Value]) -> None:
    if any(isinstance(member, list) and tag_of(member)[0] not in SCALARS for member in members):
        raise CorruptionError("a set holds something other than primitives")
    encoded = [dumps(member) for member in members]
    if any(left > right for left, right in pairwise(encoded)):
        raise CorruptionError("a set's members are not sorted")
