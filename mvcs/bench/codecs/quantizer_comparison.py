"""How quantizers are compared: codes of all tensors of a class, what they lose, how many change."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from mvcs.bench.codecs.coders import Content
from mvcs.bench.runs.checkpoint_files import TensorClass
from mvcs.delta import Bytes, ElementFormat, rescale_codes
from mvcs.quantize import ErrorSums, Floats, measure_errors, step_value, to_float32


@dataclass(frozen=True)
class CodedTensor:
    """One tensor's codes.

    Attributes:
        codes: one or two bytes a value.
        restore: gives the values that the codes stand for, as float32.
        levels: for codes of a table: more than every code.
        step: the step byte of codes on a lattice of equal steps; None for others.
        offsets: what is stored beside the codes, as more codes of the same width.
        fitted: what the same tensor's next codes continue from.
    """

    codes: Bytes = field(repr=False)
    restore: Callable[[], Floats] = field(repr=False)
    levels: int = 0
    step: int | None = None
    offsets: tuple[Bytes, ...] = field(default=(), repr=False)
    fitted: object = field(default=None, repr=False)

    @property
    def parts(self) -> tuple[Bytes, ...]:
        """Everything that is stored."""
        return self.codes, *self.offsets

    def near(self, other: "CodedTensor") -> tuple[Bytes, ...]:
        """Return this tensor's parts in the step of another one, as its base."""
        if self.step is None or other.step is None or self.step == other.step:
            return self.parts
        return rescale_codes(self.codes.view(np.int16), self.step, other.step).view(np.uint8), *self.offsets


Coded = Mapping[str, CodedTensor]
Classes = Mapping[str, TensorClass]


class Quantizer(Protocol):
    """Turns one class of tensors of a checkpoint into codes."""

    @property
    def name(self) -> str:
        """What a table calls it."""
        ...

    @property
    def subject(self) -> str:
        """The class it quantizes."""
        ...

    @property
    def needs(self) -> str | None:
        """Another class that it cannot do without."""
        ...

    @property
    def width(self) -> int:
        """Bytes of a code."""
        ...

    @property
    def remembers(self) -> bool:
        """Whether codes depend on those of the checkpoint before."""
        ...

    def code(self, classes: Classes, before: Coded | None) -> Coded:
        """Return the codes of every tensor of the class by its path."""
        ...


@dataclass(frozen=True)
class Error:
    """What quantization did to a class of tensors.

    Attributes:
        relative: root mean square of the error over that of the values.
        steps: root mean square of the error in steps of the lattice; None without one.
        largest: the largest error in steps; None without a lattice.
    """

    relative: float
    steps: float | None
    largest: float | None


def error(tensors: TensorClass, coded: Coded) -> Error:
    """Measure what the codes lose."""
    sums, squares, largest = ErrorSums(), 0.0, 0.0
    for path, tensor in tensors.tensors.items():
        found = measure_errors(to_float32(tensor.content, tensors.dtype.name), coded[path].restore())
        sums += found
        byte = coded[path].step
        step = 1.0 if byte is None else step_value(byte)
        squares += found.squares / step**2
        largest = max(largest, found.largest / step)
    if not sums.count or any(tensor.step is None for tensor in coded.values()):
        return Error(sums.relative, None, None)
    return Error(sums.relative, (squares / sums.count) ** 0.5, largest)


def migration(coded: Coded, before: Coded, width: int) -> float:
    """Return the share of values whose code changed, other than by a new step."""
    changed = total = 0
    for tensor, old in _pairs(coded, before):
        new = tensor.codes.view(f"<u{width}")
        changed += int(np.count_nonzero(new != old.near(tensor)[0].view(f"<u{width}")))
        total += new.size
    return changed / max(total, 1)


def comparable(coded: Coded, before: Coded | None) -> bool:
    """Tell whether every tensor has codes of the same number in both."""
    if before is None or coded.keys() != before.keys():
        return False
    sizes = ([[part.size for part in one.parts] for one in pair] for pair in _pairs(coded, before))
    return all(new == old for new, old in sizes)


def content_of(coded: Coded, before: Coded | None, width: int) -> Content:
    """Return everything that is stored of a class, near what was stored before, as encodings take it."""
    element = ElementFormat(width, floating=False)
    codes = [part for tensor in coded.values() for part in tensor.parts]
    levels = max(tensor.levels for one in (coded, before or {}) for tensor in one.values()) or 256
    if before is None:
        return Content.cut(codes, None, element, levels)
    pairs = list(_pairs(coded, before))
    old = [part for _, base in pairs for part in base.parts]
    steps = [step for pair in pairs for step in _steps(*pair)] if width == 2 else None
    return Content.cut(codes, old, element, levels, steps)


def _steps(tensor: CodedTensor, base: CodedTensor) -> list[tuple[int, int]]:
    """Return the step bytes of base and tensor for each part; equal ones where there is no step."""
    own = (0, 0) if tensor.step is None or base.step is None else (base.step, tensor.step)
    return [own, *((0, 0) for _ in tensor.offsets)]


def _pairs(coded: Coded, before: Coded) -> Iterator[tuple[CodedTensor, CodedTensor]]:
    return ((tensor, before[path]) for path, tensor in coded.items())
