"""A nested Python state, taken apart into a structure with leaves and blobs, and put together again."""

import sys
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from typing import cast

import numpy as np

from mvcs.checkpoint.state.arrays import find_array, scalar_node
from mvcs.checkpoint.state.captured import Captured, Collector, check_integer, refuse
from mvcs.checkpoint.state.objects import object_parts
from mvcs.checkpoint.state.rebuild import rebuild_state
from mvcs.objects import MAX_KEY_BITS, NodeTag, Path, Value, cbor

__all__ = ["StateCapture", "capture_state", "rebuild_state"]

# A mapping is three nested arrays, so 64 of them and a tree around them stay below the encoding's 256.
MAX_NESTING = 64

_SEQUENCES: dict[type, NodeTag] = {list: NodeTag.LIST, tuple: NodeTag.TUPLE}
_SETS: dict[type, NodeTag] = {set: NodeTag.SET, frozenset: NodeTag.FROZENSET}
_MAPPINGS: dict[type, NodeTag] = {
    dict: NodeTag.DICT,
    Counter: NodeTag.COUNTER,
    OrderedDict: NodeTag.ORDERED_DICT,
}
_PRIMITIVES = (type(None), bool, int, float, complex, str, bytes)
_KEYS = frozenset({str, int, bool})


def capture_state(state: object) -> Captured:
    """Take a nested state apart.

    Supported, by exact type: None, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict,
    OrderedDict, Counter, set and frozenset of primitives, numpy arrays and scalars, torch tensors and
    parameters, torch dtypes, devices and sizes, and objects of the kinds in `docs/format/files.md`. Tensors
    that are the same memory become one leaf.

    Args:
        state: what a run hands over. It is not copied; leaves read it when they are read. What devices are
            computing is waited for.

    Raises:
        StateError: something else is in it, or it contains itself; the message names the path.
    """
    capture = StateCapture(Collector())
    root = capture.node(state, ())
    if "torch" in sys.modules:
        from mvcs.checkpoint.state import torch_values

        torch_values.wait_for_devices(leaf.source for leaf in capture.collector.leaves)
    return Captured(tuple(capture.collector.leaves), root=root, blobs=capture.collector.blobs)


def check_state(state: object) -> None:
    """Find out whether a state can be stored; no tensor is read.

    Raises:
        StateError: something in it cannot; the message names the path.
    """
    StateCapture(Collector()).node(state, ())


class StateCapture:
    """Walks a state once, in order, and hands leaves and blobs to a collector."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self._open: set[int] = set()

    def node(self, value: object, path: Path, depth: int = MAX_NESTING) -> Value:
        """Return the structure of `value`.

        Raises:
            StateError: something in it cannot be stored; the message names its path.
        """
        kind = type(value)
        if kind in _SEQUENCES or kind in _MAPPINGS or kind in _SETS:
            return self._container(value, path, depth)
        if kind in _PRIMITIVES or kind is bytearray:
            return self._primitive(value, path)
        node = self._object(value, path, depth)
        if node is not None:
            return node
        if kind is np.ndarray:
            return self.collector.tensor(find_array(value, path), path)  # type: ignore[arg-type]  # by its kind
        if isinstance(value, np.generic):
            return scalar_node(value, path)
        return self._torch(value, path)

    def _object(self, value: object, path: Path, depth: int) -> Value:
        try:
            parts = object_parts(value)
        except ValueError as error:
            raise refuse(path, str(error)) from None
        if parts is None:
            return None
        node = self._container(parts, path, depth)
        return [int(NodeTag.OBJECT), *node[1:]]  # type: ignore[index]  # a tuple's

    def _primitive(self, value: object, path: Path) -> Value:
        if isinstance(value, str):
            return self.collector.text_node(value)
        if isinstance(value, bytes):
            return self.collector.bytes_node(value)
        if isinstance(value, bytearray):
            return [int(NodeTag.BYTEARRAY), self.collector.bytes_node(bytes(value))]
        if isinstance(value, complex):
            return [int(NodeTag.COMPLEX), value.real, value.imag]
        if isinstance(value, int):
            check_integer(path, value)
        return value  # type: ignore[return-value]  # None, bool, int or float are values

    def _torch(self, value: object, path: Path) -> Value:
        # A state cannot hold torch objects in a process that has not imported torch.
        if "torch" in sys.modules:
            from mvcs.checkpoint.state import torch_values

            found = torch_values.find_tensor(value, path)
            if found is not None:
                return self.collector.tensor(found, path)
            constant = torch_values.constant_node(value, path)
            if constant is not None:
                return constant
        if callable(getattr(value, "state_dict", None)):
            raise refuse(path, f"a '{type(value).__name__}'", f"pass {_called(value, path)}.state_dict()")
        raise refuse(path, f"a '{type(value).__name__}'")

    def _container(self, value: object, path: Path, depth: int) -> Value:
        if depth == 0:
            raise refuse(path, f"a container inside {MAX_NESTING} others")
        if id(value) in self._open:
            raise refuse(path, "a container that contains itself")
        self._open.add(id(value))
        try:
            return self._opened(value, path, depth)
        finally:
            self._open.discard(id(value))

    def _opened(self, value: object, path: Path, depth: int) -> Value:
        kind = type(value)
        if isinstance(value, list | tuple):
            items = [self.node(item, (*path, index), depth - 1) for index, item in enumerate(value)]
            return [int(_SEQUENCES[kind]), *items]
        if isinstance(value, set | frozenset):
            return [int(_SETS[kind]), *self._members(value, path)]
        if isinstance(value, dict):
            return self._mapping(value, path, depth)
        raise refuse(path, f"a '{kind.__name__}'")

    def _members(self, members: Iterable[object], path: Path) -> list[Value]:
        for member in members:
            if type(member) not in _PRIMITIVES:
                raise refuse(path, f"a set with a '{type(member).__name__}' in it")
        # A set has no order of its own, so the encoding gives it one: equal sets are equal bytes.
        return sorted((self._primitive(member, path) for member in members), key=cbor.dumps)

    def _mapping(self, value: Mapping[object, object], path: Path, depth: int) -> Value:
        pairs: list[Value] = []
        if not {*map(type, value)} <= _KEYS:
            return self._object(value, path, depth)
        for key, item in cast("Mapping[str | int, object]", value).items():
            if isinstance(key, int) and key.bit_length() > MAX_KEY_BITS:
                raise refuse(path, f"a key of {key.bit_length()} bits")
            pairs.append([key, self.node(item, (*path, key), depth - 1)])
        tag = _MAPPINGS[type(value)]
        metadata = self._attributes(value, path, depth)
        return [int(tag), pairs, metadata] if tag is NodeTag.ORDERED_DICT else [int(tag), pairs]

    def _attributes(self, value: object, path: Path, depth: int) -> Value:
        attributes = getattr(value, "__dict__", {})
        for name in attributes:
            if name != "_metadata" or type(value) is not OrderedDict:
                raise refuse(path, f"the attribute '{name}' of a '{type(value).__name__}'")
        if "_metadata" not in attributes:
            return None
        return self.node(attributes["_metadata"], (*path, "_metadata"), depth - 1)


def _called(value: object, path: Path) -> str:
    """Return what the caller will call something: its name in the state, or else what it is."""
    last = path[-1] if path else None
    if isinstance(last, str) and last.isidentifier():
        return last
    return "model" if hasattr(value, "parameters") else type(value).__name__.lower()
