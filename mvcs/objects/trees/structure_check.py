"""A decoded structure checked as a whole, so that later readers may trust it, and what it refers to."""

import cmath
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast

from mvcs.errors import CorruptionError
from mvcs.objects.cbor import Value, dumps
from mvcs.objects.checked_fields import as_bytes, as_float, as_integer, as_text
from mvcs.objects.ids import ObjectId
from mvcs.objects.trees.structure import (
    MAX_ALIKE,
    MAX_NESTING,
    MAX_NODES,
    SCALARS,
    NodeTag,
    blob_reference,
    exact_parts,
    only_part,
    tag_of,
    tensor_reference,
)
from mvcs.objects.trees.walks import nodes_below

_PLAIN = frozenset({int(NodeTag.LIST), int(NodeTag.TUPLE)})  # of which nothing is to be checked


@dataclass
class References:
    """What structures refer to, in the order in which it is met.

    Attributes:
        leaves: how many leaves are referred to, the first references of which come in order.
        blobs: id and length of each blob.
        nodes: how many nodes there are.
    """

    leaves: int = 0
    nodes: int = 0
    blobs: list[tuple[ObjectId, int]] = field(default_factory=list)

    def add(self, node: Value) -> None:
        """Check a whole decoded structure, and take in what it refers to.

        Raises:
            CorruptionError: a node is malformed, leaves are met in another order, or there is too much.
            UnsupportedFormatError: a tag is unknown.
        """
        # A stack of our own, and nothing for primitives: there may be millions of nodes.
        outer: list[Iterator[Value]] = [iter((node,))]
        while outer:
            for item in outer[-1]:
                if type(item) is not list:
                    continue
                below = self._below(item)
                self.nodes += len(below)
                if self.nodes > MAX_NODES:
                    raise CorruptionError(f"a tree has more than {MAX_NODES} numbers, texts and containers")
                if below:
                    if len(outer) > MAX_NESTING:
                        raise CorruptionError(f"a structure is nested deeper than {MAX_NESTING} levels")
                    outer.append(iter(below))
                    break
            else:
                outer.pop()

    def _below(self, node: list[Value]) -> list[Value]:
        """Check a node that is no primitive, and return what is in it."""
        if node and type(node[0]) is int and node[0] in _PLAIN:
            return node[1:]
        reference = tensor_reference(node)
        if reference is not None:
            if reference[0] > self.leaves:
                raise CorruptionError("a tree refers to its leaves out of order")
            self.leaves = max(self.leaves, reference[0] + 1)
            return []
        tag, rest = tag_of(node)
        if tag in (NodeTag.BLOB_BYTES, NodeTag.BLOB_TEXT):
            self.blobs.append(cast("tuple[ObjectId, int]", blob_reference(node)))
            return []
        _check_leaf(tag, rest)
        return nodes_below(node)


def _check_leaf(tag: NodeTag, rest: list[Value]) -> None:
    if tag is NodeTag.BYTEARRAY:
        _check_bytearray(only_part(rest))
    elif tag in (NodeTag.SET, NodeTag.FROZENSET):
        _check_members(rest)
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
    elif tag is NodeTag.OBJECT:
        as_text(rest[0] if rest else None, "an object's kind")
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
    hashes = Counter(hash(number) for number in map(_number, members) if number is not None)
    if any(count > MAX_ALIKE for count in hashes.values()):
        raise CorruptionError(f"more than {MAX_ALIKE} members of a set have one hash")


def _number(member: Value) -> complex | None:
    """Return a member of a set that is a finite number; None for any other."""
    if isinstance(member, list) and tag_of(member)[0] is NodeTag.COMPLEX:
        real, imaginary = (as_float(part, "a complex number") for part in exact_parts(member[1:], 2))
        member = complex(real, imaginary)  # type: ignore[assignment]  # no primitive, but a number
    if isinstance(member, int):
        return member
    return member if isinstance(member, float | complex) and cmath.isfinite(member) else None
