"""A run's checkpoints on disk, and the classes of tensors in one of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mvcs.checkpoint import (
    MOMENT_NAMES,
    SUFFIXES,
    Captured,
    Role,
    capture_files,
    layer_type,
    path_components,
    roles_of,
)
from mvcs.delta import Bytes
from mvcs.errors import NotFoundError
from mvcs.objects import DTYPES, DType
from mvcs.quantize import from_float32, to_float32

WEIGHTS, NARROW = "weights", "weights as bfloat16"

_STEP = re.compile(r"([0-9]+)$")


@dataclass(frozen=True)
class Checkpoint:
    """One file of a run.

    Attributes:
        step: the number at the end of its name.
        path: where it lies.
    """

    step: int
    path: Path


@dataclass(frozen=True)
class Tensor:
    """One tensor of two or more dimensions.

    Attributes:
        dtype: its element type.
        content: its bytes, row-major and little-endian.
        shape: its sizes.
        kind: the layer type, which numbers in the name do not change.
    """

    dtype: DType
    content: Bytes
    shape: tuple[int, ...]
    kind: str


@dataclass(frozen=True)
class TensorClass:
    """The tensors of one class in one checkpoint: all weights, or one kind of moment.

    Attributes:
        name: "weights", or the optimizer's own word.
        dtype: the element type of all of them.
        tensors: by path in the file; moments of one weight have one path in all their classes.
    """

    name: str
    dtype: DType
    tensors: Mapping[str, Tensor] = field(repr=False)

    @property
    def raw_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.content.size for tensor in self.tensors.values())

    @property
    def values(self) -> int:
        """Elements of all tensors."""
        return self.raw_bytes // self.dtype.itemsize


def checkpoints(folder: Path) -> list[Checkpoint]:
    """Return the checkpoint files of a folder whose names end in a number, in the order of that number.

    Raises:
        NotFoundError: there are fewer than two.
    """
    files = [path for path in folder.glob("*") if path.suffix.lower() in SUFFIXES and path.is_file()]
    numbered = [(match, path) for path in files if (match := _STEP.search(path.stem))]
    found = sorted((Checkpoint(int(match[1]), path) for match, path in numbered), key=lambda one: one.step)
    if len(found) < 2:
        raise NotFoundError(
            f"there are {len(found)} checkpoints with a number in '{folder}', and two are needed",
            hint="name a folder of step_*.pt or step_*.safetensors; 'mvcs bench make' trains one",
        )
    return found


def read(checkpoint: Checkpoint) -> dict[str, TensorClass]:
    """Return a checkpoint's classes by name: float weights of two and more dimensions, and their moments.

    Raises:
        FileFormatError: the file is not a checkpoint.
    """
    captured = capture_files([checkpoint.path], checkpoint.path.parent, any_names=True)
    found: dict[tuple[str, DType], dict[str, Tensor]] = {}
    for name, path, tensor in _tensors(captured):
        found.setdefault((name, tensor.dtype), {})[path] = tensor
    classes: dict[str, TensorClass] = {}
    for (name, dtype), tensors in found.items():
        made = TensorClass(name, dtype, tensors)
        if name not in classes or made.raw_bytes > classes[name].raw_bytes:
            classes[name] = made
    return classes


def narrowed(weights: TensorClass) -> TensorClass:
    """Return float32 tensors rounded to bfloat16."""
    tensors = {
        path: Tensor(
            DTYPES["bfloat16"],
            np.frombuffer(from_float32(to_float32(tensor.content, "float32"), "bfloat16"), np.uint8),
            tensor.shape,
            tensor.kind,
        )
        for path, tensor in weights.tensors.items()
    }
    return TensorClass(NARROW, DTYPES["bfloat16"], tensors)


def _tensors(captured: Captured) -> Sequence[tuple[str, str, Tensor]]:
    rows = []
    for leaf, role in zip(captured.leaves, roles_of(captured), strict=True):
        name = WEIGHTS if role is Role.WEIGHT else _moment(path_components(leaf.path))
        if name is not None and len(leaf.shape) > 1 and leaf.dtype.quantizable:
            content = np.frombuffer(leaf.source.read(), np.uint8)
            # The file's own name is another one for every checkpoint.
            tensor = Tensor(leaf.dtype, content, leaf.shape, layer_type(leaf.path, leaf.shape))
            path = ".".join(part for part in path_components(leaf.path[1:]) if part != name)
            rows.append((name, path, tensor))
    return rows


def _moment(parts: Sequence[str]) -> str | None:
    return next((part for part in reversed(parts) if part in MOMENT_NAMES), None)
