"""The nested structure of a state, as plain values: containers are tagged arrays, tensors are references.

A node is a primitive (None, bool, int, float, str, bytes) or an array whose first item is one of the tags
below. `docs/format/objects.md` lists what follows each tag.
"""

import cmath
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from itertools import pairwise
from typing import cast

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects.cbor import Value, dumps
from mvcs.objects.checked_fields import as_bytes, as_float, as_integer, as_list, as_text
from mvcs.objects.ids import ObjectId, as_id

Key = str | int | bool
Path = tuple[Key, ...]

INLINE_BYTES = 4096
# One more than a writer takes: the blob behind a long bytearray is a level of its own.
MAX_NESTING = 65
MAX_ALIKE = 64
MAX_NODES = 1 << 22
MAX_KEY_BITS = 4096  # keys stand in paths, and Python refuses to write thousands of digits


class NodeTag(IntEnum):
    """What an array in a structure stands for. Numbers of format 1, never reused."""

    LIST = 0
    TUPLE = 1
    DICT = 2
    ORDERED_DICT = 3
    COMPLEX = 4
    TORCH_DTYPE = 5
    TORCH_DEVICE = 6
    TORCH_SIZE = 7
    NUMPY_SCALAR = 8
    TENSOR = 9
    BLOB_BYTES = 10
    BLOB_TEXT = 11
    COUNTER = 12
    SET = 13
    FROZENSET = 14
    BYTEARRAY = 15
    OBJECT = 16


class TensorFlag(IntFlag):
    """How a tensor reference is handed back."""

    NUMPY = 1
    REQUIRES_GRAD = 2
    PARAMETER = 4


# An object's kind is the first of what is in it.
SEQUENCES = frozenset({NodeTag.LIST, NodeTag.TUPLE, NodeTag.SET, NodeTag.FROZENSET, NodeTag.OBJECT})
_KEYS, _TEXTS = frozenset({str, int, bool}), frozenset({str})
_LISTS, _TWO = frozenset({list}), frozenset({2})
MAPPINGS = frozenset({NodeTag.DICT, NodeTag.COUNTER})
_LAST_TAG, _ALL_FLAGS = max(NodeTag), max(TensorFlag) * 2 - 1
# Looked up for every node: an enumeration takes longer to call.
_TAGS = sorted(NodeTag)
_TENSOR = int(NodeTag.TENSOR)
_FLAGS = [TensorFlag(bits) for bits in range(_ALL_FLAGS + 1)]
SCALARS = frozenset({NodeTag.COMPLEX, NodeTag.BLOB_BYTES, NodeTag.BLOB_TEXT})


def tag_of(node: Value) -> tuple[NodeTag, list[Value]]:
    """Split a tagged array into its tag and what follows.

    Raises:
        CorruptionError: the node is not a tagged array.
        UnsupportedFormatError: the tag is unknown.
    """
    if type(node) is list and node and type(node[0]) is int and 0 <= node[0] <= _LAST_TAG:
        return _TAGS[node[0]], node[1:]
    items = as_list(node, "a structure")
    number = as_integer(items[0] if items else None, "a structure's tag")
    if number > _LAST_TAG:
        raise UnsupportedFormatError(f"a structure holds an object of the unknown kind {number}")
    return _TAGS[number], items[1:]


def pairs_of(value: object) -> list[tuple[Key, Value]]:
    """Check a list of `[key, value]` pairs with distinct keys of type str, int or bool."""
    found = as_list(value, "a mapping")
    # A look at all together: each by itself takes three times as long, and there may be many.
    if not {*map(type, found)} <= _LISTS or not {*map(len, cast("list[list[Value]]", found))} <= _TWO:
        raise CorruptionError("a pair is not a list of 2")
    pairs = [*map(tuple, cast("list[list[Value]]", found))]
    keys = [key for key, _ in pairs]
    types = {*map(type, keys)}
    if not types <= _KEYS:
        raise CorruptionError("a mapping has a key that is not text, an integer or a boolean")
    if types == _TEXTS:
        count = len({*keys})  # all that there is to be told of nearly all mappings
    else:
        _refuse_alike(keys)
        count = len({*map(key_identity, keys)})
    if count != len(keys):
        raise CorruptionError("a mapping names a key twice")
    return cast("list[tuple[Key, Value]]", pairs)


def _refuse_alike(keys: list[Value]) -> None:
    """Refuse numbers that were chosen to have one hash: a mapping would compare each with all."""
    large = [
        key for key in keys if not isinstance(key, str) and abs(cast("int", key)) > sys.hash_info.modulus
    ]
    if any(cast("int", key).bit_length() > MAX_KEY_BITS for key in large):
        raise CorruptionError(f"a mapping has a key of more than {MAX_KEY_BITS} bits")
    if any(count > MAX_ALIKE for count in Counter(map(hash, large)).values()):
        raise CorruptionError(f"more than {MAX_ALIKE} keys of a mapping have one hash")


def key_identity(key: object) -> object:
    """Return what makes keys equal in a Python mapping: 1 and True are one key, 1 and '1' are two."""
    return (str, key) if isinstance(key, str) else (int, key)


def children_of(node: Value) -> Iterator[tuple[Key, Value]]:
    """Yield what a container holds, each with its key (an index for sequences); nothing for leaves."""
    if not isinstance(node, list):
        return
    tag, rest = tag_of(node)
    if tag in SEQUENCES:
        yield from enumerate(rest)
    elif tag in MAPPINGS:
        yield from pairs_of(only_part(rest))
    elif tag is NodeTag.ORDERED_DICT:
        pairs, metadata = exact_parts(rest, 2)
        yield from pairs_of(pairs)
        if metadata is not None:
            yield "_metadata", metadata
    elif tag is NodeTag.BYTEARRAY and isinstance(only_part(rest), list):
        yield "content", only_part(rest)


def tensor_reference(node: Value) -> tuple[int, TensorFlag] | None:
    """Return the leaf index and flags of a tensor reference, None for any other node."""
    if not isinstance(node, list) or not is_tensor(node):
        return None
    index, flags = exact_parts(node[1:], 2)
    bits = as_integer(flags, "a tensor's flags")
    if bits > _ALL_FLAGS:
        raise UnsupportedFormatError(f"a tensor reference has the unknown flags {bits:#x}")
    return as_integer(index, "a leaf's index"), _FLAGS[bits]


def blob_reference(node: Value) -> tuple[ObjectId, int] | None:
    """Return the id and length of a blob reference, None for any other node."""
    if not isinstance(node, list) or not node or node[0] not in (NodeTag.BLOB_BYTES, NodeTag.BLOB_TEXT):
        return None
    identifier, length = exact_parts(node[1:], 2)
    return as_id(identifier), as_integer(length, "a blob's length")


def is_tensor(node: list[Value]) -> bool:
    """Tell whether a node is a tensor reference, which nearly all are, and has nothing below."""
    return bool(node) and node[0] == _TENSOR and type(node[0]) is int


def renumber(node: Value, number: Callable[[int], int]) -> Value:
    """Return the structure with every leaf index replaced by `number` of it."""
    if not isinstance(node, list):
        return node
    tag, rest = tag_of(node)
    if (reference := tensor_reference(node)) is not None:
        return [int(NodeTag.TENSOR), number(reference[0]), int(reference[1])]
    if tag in SEQUENCES:
        return [int(tag), *(renumber(child, number) for child in rest)]
    if tag in MAPPINGS or tag is NodeTag.ORDERED_DICT:
        pairs = [[key, renumber(child, number)] for key, child in pairs_of(rest[0])]
        return [int(tag), pairs, *(renumber(child, number) for child in rest[1:])]
    return node


def only_part(rest: list[Value]) -> Value:
    """Return the single part of an object.

    Raises:
        CorruptionError: it has none, or more.
    """
    return exact_parts(rest, 1)[0]


def exact_parts(rest: list[Value], count: int) -> list[Value]:
    """Return the parts of an object that has so many.

    Raises:
        CorruptionError: it has another number of them.
    """
    if len(rest) != count:
        raise CorruptionError(f"a structure's object has {len(rest)} parts where {count} belong")
    return rest


def path_text(path: Path) -> str:
    """Return a path as people write it: keys joined with dots."""
    return ".".join(str(key) for key in path)


_LIST = [int(NodeTag.LIST)]
_PLAIN = frozenset({int(NodeTag.LIST), int(NodeTag.TUPLE)})  # of which nothing is to be checked


def nodes_below(node: Value) -> list[Value]:
    """Return the values of `children_of`."""
    if type(node) is list and node[:1] == _LIST:
        return node[1:]
    return [child for _, child in children_of(node)]


def walk_nodes(node: Value, path: Path = ()) -> Iterator[tuple[Path, Value]]:
    """Yield every node below and including `node` with its path, depth first, in order."""
    yield path, node
    outer = [(path, _children(node))]
    while outer:
        here, below = outer[-1]
        for key, child in below:
            place = (*here, key)
            yield place, child
            if type(child) is list and not is_tensor(child):
                outer.append((place, _children(child)))
                break
        else:
            outer.pop()


def walk_tensors(node: Value, path: Path = ()) -> Iterator[tuple[Path, int]]:
    """Yield path and leaf of every tensor reference below and including `node`, in order."""
    outer: list[tuple[Path, Iterator[tuple[Key | None, Value]]]] = [(path, iter(((None, node),)))]
    while outer:
        here, below = outer[-1]
        for key, child in below:
            if type(child) is not list:
                continue
            place = here if key is None else (*here, key)
            reference = tensor_reference(child)
            if reference is None:
                outer.append((place, _children(child)))
                break
            yield place, reference[0]
        else:
            outer.pop()


def _children(node: Value) -> Iterator[tuple[Key, Value]]:
    """Do what `children_of` does; for lists, which may be long, without a step of ours for each item."""
    if type(node) is list and node[:1] == _LIST:
        return enumerate(node[1:])
    return children_of(node)


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
        _check_value(tag, rest)
        return nodes_below(node)


def _check_value(tag: NodeTag, rest: list[Value]) -> None:
    if tag is NodeTag.BYTEARRAY:
        content = only_part(rest)
        if blob_reference(content) is None or tag_of(content)[0] is not NodeTag.BLOB_BYTES:
            as_bytes(content, "a bytearray")
    elif tag in (NodeTag.SET, NodeTag.FROZENSET):
        _check_members(rest)
    elif tag is NodeTag.COMPLEX:
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
