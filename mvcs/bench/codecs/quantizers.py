"""The quantizers that are compared: codes of all tensors of a class, what they lose, how many change."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from mvcs.bench.codecs.coders import Content
from mvcs.bench.runs.checkpoint_files import WEIGHTS, Tensor, TensorClass
from mvcs.delta import Bytes, ElementFormat, rescale_codes
from mvcs.inshrinkerator import TableCoding, fit_codebook
from mvcs.objects import DTYPES, DType, element_count
from mvcs.quantize import (
    ErrorSums,
    Floats,
    KMeansConfig,
    LatticeConfig,
    LogGrid,
    MomentsConfig,
    Scale,
    Sketch,
    balance_rows,
    lattice_codes,
    lattice_values,
    measure_errors,
    nearest_step,
    root_codes,
    root_signs,
    root_sums,
    root_values,
    steady_step,
    step_value,
    to_float32,
)

FIRST, SECOND, MOMENTUM = "exp_avg", "exp_avg_sq", "momentum_buffer"


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


def error(tensors: TensorClass, coded: Coded) -> tuple[float, float | None, float | None]:
    """Measure what the codes lose.

    Returns:
        Root mean square of the error over that of the values; the same in steps of the lattice, and the
        largest error in steps: both None without a lattice.
    """
    sums, squares, largest = ErrorSums(), 0.0, 0.0
    for path, tensor in tensors.tensors.items():
        found = measure_errors(to_float32(tensor.content, tensors.dtype.name), coded[path].restore())
        sums += found
        byte = coded[path].step
        step = 1.0 if byte is None else step_value(byte)
        squares += found.squares / step**2
        largest = max(largest, found.largest / step)
    if not sums.count or any(tensor.step is None for tensor in coded.values()):
        return sums.relative, None, None
    return sums.relative, (squares / sums.count) ** 0.5, largest


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


@dataclass(frozen=True)
class KMeans:
    """A table of values for each tensor, by k-means on one dimension."""

    config: KMeansConfig
    subject: str = WEIGHTS
    needs: str | None = None
    width: int = 1
    remembers: bool = False

    @property
    def name(self) -> str:
        """What a table calls it."""
        return f"k-means, {self.config.bins} values"

    def code(self, classes: Classes, before: Coded | None) -> Coded:  # noqa: ARG002  # it remembers nothing
        """Fit a table to every tensor, and give every value the nearest of its table."""
        own = classes[self.subject]
        return {path: self._coded(tensor.content, own.dtype) for path, tensor in own.tensors.items()}

    def _coded(self, content: Bytes, dtype: DType) -> CodedTensor:
        sketch = Sketch.of([to_float32(content, dtype.name)])
        coding = TableCoding(fit_codebook(sketch, self.config, dtype.name), dtype)
        coded = coding.code(content.data, 0, None)

        def restore() -> Floats:
            return to_float32(coding.restore(coded, 0, coded.codes.size), dtype.name)

        return CodedTensor(coded.codes, restore, coding.levels)


@dataclass(frozen=True)
class Lattice:
    """Multiples of a step shared by a layer type or a tensor, near the codes before."""

    config: LatticeConfig
    subject: str = WEIGHTS
    needs: str | None = None
    width: int = 2
    remembers: bool = True

    @property
    def name(self) -> str:
        """What a table calls it."""
        config = self.config
        return f"lattice of {self.subject}, step {config.step_size:g} rms, hysteresis {config.hysteresis:g}"

    def code(self, classes: Classes, before: Coded | None) -> Coded:
        """Give every value a multiple of its step."""
        own = classes[self.subject]
        values = {path: to_float32(tensor.content, own.dtype.name) for path, tensor in own.tensors.items()}
        groups = {path: self._group(path, tensor) for path, tensor in own.tensors.items()}
        scales = _scales(values, groups)
        old = before or {}
        return {
            path: self._coded(floats, scales[groups[path]], old.get(path), self._run(own.tensors[path]))
            for path, floats in values.items()
        }

    def _run(self, tensor: Tensor) -> int:
        """Return the length of a row that is balanced, as in a commit; 0 for none."""
        return element_count(tensor.shape[1:]) if self.subject == WEIGHTS else 0

    def _group(self, path: str, tensor: Tensor) -> str:
        return tensor.kind if self.config.share == "type" else path

    def _coded(self, values: Floats, scale: float, old: CodedTensor | None, run: int) -> CodedTensor:
        step = steady_step(scale * self.config.step_size, None if old is None else old.step)
        own = CodedTensor(np.zeros(0, np.uint8), lambda: values, step=step)
        base = None if old is None else old.near(own)[0].view(np.int16)
        codes = lattice_codes(values, step, base, self.config.hysteresis)
        if run:
            balance_rows(values, codes, step, run)
        return CodedTensor(codes.view(np.uint8), lambda: lattice_values(codes, step), step=step)


@dataclass(frozen=True)
class SecondMoment:
    """A lattice on the logarithm, with offsets of rows and columns."""

    config: MomentsConfig
    subject: str = SECOND
    needs: str | None = None
    width: int = 2
    remembers: bool = True

    @property
    def name(self) -> str:
        """What a table calls it."""
        return f"lattice of log2 {self.subject}, step {self.config.second:g}"

    def code(self, classes: Classes, before: Coded | None) -> Coded:
        """Find every tensor's offsets, and give every value a code near them."""
        own, old = classes[self.subject], before or {}
        return {
            path: self._coded(to_float32(tensor.content, own.dtype.name), tensor.shape, old.get(path))
            for path, tensor in own.tensors.items()
        }

    def _coded(self, values: Floats, shape: tuple[int, ...], old: CodedTensor | None) -> CodedTensor:
        parent = old.fitted if old is not None and isinstance(old.fitted, LogGrid) else None
        grid = LogGrid.fit([values], shape, self.config.scale, parent)
        codes = grid.codes(values)
        offsets = tuple(part.view(np.uint8) for part in (grid.rows, grid.cols) if part.size)

        def restore() -> Floats:
            return grid.values(codes, codes.size)

        return CodedTensor(codes.view(np.uint8), restore, offsets=offsets, fitted=grid)

    def roots(self, classes: Classes, coded: Coded) -> TensorClass:
        """Return second moments as they are restored, for the first moments to be measured by."""
        tensors = {
            path: Tensor(DTYPES["float32"], coded[path].restore().view(np.uint8), tensor.shape, tensor.kind)
            for path, tensor in classes[self.subject].tensors.items()
        }
        return TensorClass(restored(self.config), DTYPES["float32"], tensors)


def restored(config: MomentsConfig) -> str:
    """Return the name of the class of second moments as they are restored."""
    return f"{SECOND}, restored from step {config.second:g}"


@dataclass(frozen=True)
class FirstMoment:
    """Multiples of a step, or signs, times the root of the restored second moment."""

    config: MomentsConfig
    subject: str = FIRST
    width: int = 2
    remembers: bool = False

    @property
    def name(self) -> str:
        """What a table calls it."""
        how = "signs" if self.config.first == "sign" else f"step {self.config.first:g}"
        return f"{self.subject} over the root of {SECOND} of step {self.config.second:g}, {how}"

    @property
    def needs(self) -> str:
        """The second moments as they are restored."""
        return restored(self.config)

    def code(self, classes: Classes, before: Coded | None) -> Coded:  # noqa: ARG002  # it remembers nothing
        """Give every value a multiple of its root."""
        own, roots = classes[self.subject], classes[self.needs].tensors
        return {
            path: self._coded(
                to_float32(tensor.content, own.dtype.name), roots[path].content.view(np.float32)
            )
            for path, tensor in own.tensors.items()
        }

    def _coded(self, values: Floats, roots: Floats) -> CodedTensor:
        if isinstance(self.config.first, float):
            step = nearest_step(self.config.first)
            codes = root_codes(values, roots, step)
        else:
            step = root_sums(values, roots).sign_step
            codes = root_signs(values, roots)
        return CodedTensor(codes.view(np.uint8), lambda: root_values(codes, roots, step))


def quantizers() -> tuple[Quantizer, ...]:
    """Return the quantizers that are compared; first moments stand behind the second ones they need."""
    fine, coarse = MomentsConfig(0.5, 1.0), MomentsConfig.RESUME
    momentum = LatticeConfig(step_size=0.5, hysteresis=0.0, share="tensor")
    return (
        KMeans(KMeansConfig(bins=16)),
        Lattice(LatticeConfig(step_size=0.5, hysteresis=0.25)),
        SecondMoment(fine),
        FirstMoment(fine),
        SecondMoment(coarse),
        FirstMoment(coarse),
        Lattice(momentum, MOMENTUM),
    )


def _scales(values: dict[str, Floats], groups: dict[str, str]) -> dict[str, float]:
    """Return the root mean square of each group."""
    members: dict[str, list[Floats]] = defaultdict(list)
    for path, floats in values.items():
        members[groups[path]].append(floats)
    return {group: Scale.of(Sketch.of(parts)).rms for group, parts in members.items()}
