"""A method of compression: bytes from the tensors of a checkpoint, and tensors from these bytes.

A method sees one checkpoint after another. What decoding its payloads so far gave is its `State`: the
encoder goes by nothing else, so that a decoder which has the payloads alone follows it. A payload begins with
the names and shapes of the tensors, where they are not those of the checkpoint before. Then come the tensors
that hold a NaN or an infinity, which every method keeps as they are.
"""

import importlib.util
import json
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from mvcs.checkpoint import is_embedding
from mvcs.errors import CorruptionError, UsageError

Floats = NDArray[np.float32]
Tensors = Mapping[str, Floats]
Shapes = Mapping[str, tuple[int, ...]]
Value = float | int | str
Setting = Mapping[str, Value]

MAX_VALUES = 1 << 34
_MAX_LAYOUT = 1 << 26


@dataclass(frozen=True)
class State:
    """What decoding the payloads so far gave.

    Attributes:
        shapes: of the tensors, by name, in the order of their values.
        tensors: float32, restored; in their shapes.
        known: what else the method's decoder remembers, such as codes and tables.
    """

    shapes: Shapes
    tensors: Tensors = field(repr=False)
    known: Mapping[str, Any] = field(repr=False, default_factory=dict)


Needs = Mapping[str, Any]
"""What `Method.needs` names."""
Restored = tuple[Tensors, Mapping[str, Any]]
"""Tensors, and what the next checkpoint's coding needs to know."""


class NotApplicableError(UsageError):
    """The checkpoints lack what a method needs, or this installation does."""


class Method(ABC):
    """A method as its paper says, for checkpoints of float32 tensors of two and more dimensions.

    Attributes:
        name: how it is asked for.
        paper: title, venue and sections.
        differs: what differs from the paper, or is not said there; empty where nothing does.
        package: that it needs beside those of mvcs; empty where it needs none.
        version: is raised when the same tensors would give other bytes, so that old results do not count.
        axes: values to search, by name; the coarsest first in each, so that quality rises along all of them.
        metrics: what a setting's "metric" may be, in no order; empty for a method without that choice.
        fixed: settings that are measured as they are, beside the search, by a name each.
        needs: what `encode` is handed beside tensors, by name: "scores", float32 in the tensors' shapes that
            say how sensitive the loss is to each weight; "moments", an optimizer's tensors by kind and by
            name; "seed", a number for what is drawn.
        tasks: the recorded runs that it is for, by their tasks; empty for all.
        restores: kinds of moments that it codes as well; the others are kept exactly.
        chain: payloads that restoring a checkpoint takes beside its own: "all" before, the "first" or "none".
    """

    name: str
    paper: str
    differs: str = ""
    package: str = ""
    version: ClassVar[int] = 1
    axes: ClassVar[Mapping[str, Sequence[Value]]] = {}
    metrics: ClassVar[Sequence[str]] = ()
    fixed: ClassVar[Mapping[str, Setting]] = {}
    needs: ClassVar[frozenset[str]] = frozenset()
    tasks: ClassVar[frozenset[str]] = frozenset()
    restores: ClassVar[frozenset[str]] = frozenset()
    chain: str = "all"

    @property
    def missing(self) -> str:
        """How to install the package that it needs; empty where that is there."""
        there = not self.package or importlib.util.find_spec(self.package) is not None
        return "" if there else "pip install 'mvcs[bench]'"

    @abstractmethod
    def code(self, tensors: Tensors, state: State | None, setting: Setting, needs: Needs) -> Sequence[bytes]:
        """Return the sections of a payload for tensors of finite values, tables and headers in.

        Args:
            tensors: float32, by name.
            state: of the checkpoint before; None for the first.
            setting: a value for each axis, and a metric.
            needs: what `needs` names.
        """

    @abstractmethod
    def restore(self, sections: Sequence[bytes], shapes: Shapes, state: State | None) -> Restored:
        """Return tensors of these shapes, and what the next checkpoint's coding needs to know.

        Args:
            sections: what `code` returned.
            shapes: of the tensors that `code` was given.
            state: of the checkpoint before; None for the first.

        Raises:
            CorruptionError: the sections are not what `code` returns for such shapes.
        """

    def axes_for(self, shapes: Shapes) -> Mapping[str, Sequence[Value]]:
        """Return the axes that make a difference for such tensors: of embeddings where there are some."""
        if any(is_embedding((name,), shape) for name, shape in shapes.items()):
            return self.axes
        return {name: values for name, values in self.axes.items() if name != "embedding_bins"}

    def encode(
        self,
        tensors: Tensors,
        state: State | None,
        setting: Setting,
        **needs: Any,  # noqa: ANN401  # by name
    ) -> tuple[bytes, State]:
        """Return a payload, and the state that decoding it gives.

        Args:
            tensors: float32 of two and more dimensions, by name.
            state: of the checkpoint before; None for the first.
            setting: a value for each axis, and a metric.
            needs: what `needs` names.
        """
        payload = self.payload(tensors, state, setting, **needs)
        return payload, self.decode(payload, state)[1]

    def payload(
        self,
        tensors: Tensors,
        state: State | None,
        setting: Setting,
        **needs: Any,  # noqa: ANN401  # by name
    ) -> bytes:
        """Return what `encode` does, without decoding it."""
        finite = {name: tensor for name, tensor in tensors.items() if np.isfinite(tensor).all()}
        kept = [tensor.tobytes() if name not in finite else b"" for name, tensor in tensors.items()]
        shapes = shapes_of(tensors)
        layout = b"" if state is not None and same(shapes, state.shapes) else write_shapes(shapes)
        exact = [index for index, content in enumerate(kept) if content]
        flags = struct.pack(f"<I{len(exact)}I", len(exact), *exact)
        return pack([layout, flags, b"".join(kept), *self.code(finite, state, setting, needs)])

    def decode(self, payload: bytes, state: State | None) -> tuple[Tensors, State]:
        """Return the tensors of a payload, and the state for the next.

        Args:
            payload: what `encode` returned.
            state: of the checkpoint before; None for the first.

        Raises:
            CorruptionError: it is not such a payload, or belongs to another state.
        """
        try:
            layout, flags, kept, *sections = unpack(payload)
            if not layout and state is None:
                raise CorruptionError("a payload without shapes cannot be the first")
            shapes = read_shapes(layout) if layout else cast("State", state).shapes
            exact = _exact(flags, kept, shapes)
            coded = {name: shape for name, shape in shapes.items() if name not in exact}
            restored, known = self.restore(sections, coded, state)
        except (ValueError, IndexError, KeyError, struct.error, EOFError, zlib.error) as error:
            raise CorruptionError(f"this is no payload of {self.name}: {error}") from error
        tensors = {name: exact[name] if name in exact else restored[name] for name in shapes}
        return tensors, State(shapes, tensors, known)

    def weight_bytes(self, payload: bytes) -> int:
        """Return how many bytes of a payload are for weights: all of them, where moments are not coded."""
        return len(payload)


def same(shapes: Shapes, others: Shapes) -> bool:
    """Tell whether tensors have the same names and shapes in the same order."""
    return list(shapes.items()) == list(others.items())


def pack(sections: Sequence[bytes]) -> bytes:
    """Put byte strings into one: their number and lengths as little-endian 32-bit integers, then they."""
    return struct.pack(f"<I{len(sections)}I", len(sections), *map(len, sections)) + b"".join(sections)


def unpack(payload: bytes) -> list[bytes]:
    """Return what `pack` was given.

    Raises:
        ValueError: it did not make these bytes.
    """
    (count,) = struct.unpack_from("<I", payload)
    if 4 + 4 * count > len(payload):
        raise ValueError("it is torn")
    lengths = struct.unpack_from(f"<{count}I", payload, 4)
    if 4 + 4 * count + sum(lengths) != len(payload):
        raise ValueError("it is torn")
    start, sections = 4 + 4 * count, list[bytes]()
    for length in lengths:
        sections.append(payload[start : start + length])
        start += length
    return sections


def shapes_of(tensors: Tensors) -> Shapes:
    """Return the shape of each tensor."""
    return {name: tensor.shape for name, tensor in tensors.items()}


def floats_of(section: bytes, shapes: Shapes) -> dict[str, Floats]:
    """Return little-endian float32 that stand one after another as arrays of these shapes.

    Raises:
        ValueError: they are fewer or more.
    """
    return split(np.frombuffer(section, "<f4").astype(np.float32), shapes)


def joined(tensors: Tensors) -> Floats:
    """Return the values of all tensors, one after another."""
    return np.concatenate([tensor.ravel() for tensor in tensors.values()] or [np.zeros(0, np.float32)])


def split(values: NDArray[Any], shapes: Shapes) -> dict[str, NDArray[Any]]:
    """Return values that stand one after another as arrays of these shapes.

    Raises:
        ValueError: they are fewer or more.
    """
    sizes = [prod(shape) for shape in shapes.values()]
    if values.size != sum(sizes):
        raise ValueError(f"{values.size} values for {sum(sizes)}")
    parts = np.split(values, np.cumsum(sizes)[:-1])
    return {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=False)}


def narrowed(values: NDArray[np.floating[Any]]) -> Floats:
    """Return values as float32; those beyond its range become its ends."""
    ends = np.finfo(np.float32)
    return values.clip(ends.min, ends.max).astype(np.float32)


def before(state: State | None, kind: str, shapes: Shapes) -> Iterator[tuple[str, NDArray[Any] | None]]:
    """Yield names with what a state knows of each tensor; None where it had none of this name and shape."""
    known = {} if state is None else state.known.get(kind, {})
    for name, shape in shapes.items():
        found = known.get(name)
        yield name, None if found is None or found.shape != shape else found


def write_shapes(shapes: Shapes) -> bytes:
    """Return names and shapes as compressed JSON."""
    return zlib.compress(json.dumps({name: list(shape) for name, shape in shapes.items()}).encode(), 9)


def read_shapes(layout: bytes) -> Shapes:
    """Return what `write_shapes` was given.

    Raises:
        ValueError: it did not make these bytes, or for more than `MAX_VALUES` values.
    """
    reader = zlib.decompressobj()
    text = reader.decompress(layout, _MAX_LAYOUT)
    if not reader.eof:
        raise ValueError("its names and shapes have no end")
    found = json.loads(text)
    shapes = {str(name): tuple(int(size) for size in shape) for name, shape in found.items()}
    if (
        any(size < 0 for shape in shapes.values() for size in shape)
        or sum(map(prod, shapes.values())) > MAX_VALUES
    ):
        raise ValueError("its shapes are out of range")
    return shapes


def _exact(flags: bytes, kept: bytes, shapes: Shapes) -> Tensors:
    (count,) = struct.unpack_from("<I", flags)
    names = list(shapes)
    chosen = {names[index]: shapes[names[index]] for index in struct.unpack_from(f"<{count}I", flags, 4)}
    return split(np.frombuffer(kept, np.float32), chosen)
