"""What stands for the values of a pickle of torch.save: it says what torch would make, and no more."""

import math
import operator
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from typing import TypeAlias

import torch

from mvcs.objects import DTYPES, DType

Made: TypeAlias = object
ODD = "is not as torch.save writes it"
_TENSOR_TYPES = frozenset({"torch.Tensor", "torch.nn.parameter.Parameter"})
_TEXT = ("latin1", "latin-1", "ascii", "utf-8")
_MAX_SIZES = 1 << 10


@dataclass(frozen=True)
class Named:
    """Something that a pickle asks for by name."""

    name: str


@dataclass(frozen=True)
class Storage:
    """The memory of tensors, which lies outside the pickle.

    Attributes:
        key: what it is called.
        dtype: its element type.
        elements: how many there are.
    """

    key: str
    dtype: DType
    elements: int

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize


class Kind(Enum):
    """How the items of a container lie in it."""

    LIST = 0
    SET = 1
    MAPPING = 2
    """Keys and values in turn."""
    PAIRS = 3
    """A mapping made of a list of pairs."""
    BYTES = 4


@dataclass(eq=False)
class Items:
    """A container.

    Attributes:
        kind: how its items lie in it.
        items: what is in it. Where torch copies those of another container, they are that one's.
        attributes: what it is given beside them.
    """

    kind: Kind = Kind.LIST
    items: list[Made] = field(default_factory=list)
    attributes: list[Made] = field(default_factory=list)

    def keys(self) -> Iterable[Made]:
        """Return what is hashed."""
        if self.kind is Kind.PAIRS:
            return map(_key_of, self.items)
        if self.kind is Kind.MAPPING:
            return self.items[::2]
        return self.items if self.kind is Kind.SET else ()


def _key_of(pair: Made) -> Made:
    parts = pair.items if isinstance(pair, Items) and pair.kind is Kind.LIST else pair
    if not isinstance(parts, list | tuple) or len(parts) != 2:
        raise odd("a mapping")
    return parts[0]


@dataclass(frozen=True)
class Encoded:
    """Bytes, as torch.save writes them: text, each of whose characters is one."""

    text: str


@dataclass(frozen=True)
class Sizes:
    """A torch.Size."""

    sizes: tuple[Made, ...]


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor or parameter.

    Attributes:
        strange: of which kind it is, where that is one that no commit holds and torch need not make.
        dense: whether it has no more elements than its memory.
        memory: its memory, where it stands there row by row, as elements of `dtype` from `offset` bytes on.
        dtype: the name of its element type there.
        shape: its sizes.
        offset: where it begins.
    """

    strange: str = ""
    dense: bool = False
    memory: Storage | None = None
    dtype: str = ""
    shape: tuple[int, ...] = ()
    offset: int = 0


def odd(what: str) -> pickle.UnpicklingError:
    """Return the error for what no torch.save writes."""
    return pickle.UnpicklingError(f"{what} {ODD}")


# The element type of each kind of storage; of quantized ones, that of the numbers in it.
_TYPES = {
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "BoolStorage": "bool",
    "QInt8Storage": "int8",
    "QUInt8Storage": "uint8",
    "QUInt4x2Storage": "uint8",
    "QUInt2x4Storage": "uint8",
    "ShortStorage": "int16",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "IntStorage": "int32",
    "FloatStorage": "float32",
    "QInt32Storage": "int32",
    "LongStorage": "int64",
    "DoubleStorage": "float64",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
STORAGES = {
    **{f"torch.{name}": DTYPES[dtype] for name, dtype in _TYPES.items()},
    "torch.storage.UntypedStorage": DTYPES["uint8"],
}


def storage(identity: Made) -> tuple[Storage, Storage]:
    """Return a whole storage and the part of it that is asked for.

    Raises:
        UnpicklingError: it is described in no way of torch.save.
    """
    if not isinstance(identity, tuple) or len(identity) not in (5, 6) or identity[0] != "storage":
        raise odd("what lies outside the pickle")
    kind, key, _, elements, *view = identity[1:]
    dtype = STORAGES.get(kind.name) if isinstance(kind, Named) else None
    if dtype is None or not isinstance(key, str) or not is_size(elements):
        raise odd("a storage")
    whole = Storage(key, dtype, elements)
    if view in ([], [None]):
        return whole, whole
    return whole, _view(whole, view[0])


def _view(whole: Storage, view: Made) -> Storage:
    if not isinstance(view, tuple) or len(view) != 3 or not all(map(is_size, view[1:])):
        raise odd("a view of a storage")
    if view[1] + view[2] > whole.elements:
        raise odd("a view of a storage")
    return Storage(whole.key, whole.dtype, view[2])


def is_size(value: Made) -> bool:
    """Tell whether a value can be a number of elements."""
    return type(value) is int and 0 <= value < 1 << 62


def named(module: str, name: str) -> Named:
    """Return what a pickle asks for.

    Raises:
        UnpicklingError: it is nothing that a file of plain values needs.
    """
    full = f"{module.replace('__builtin__', 'builtins')}.{name}"
    if full in _FORMS or full in STORAGES or full in _TENSOR_TYPES or _dtype_width(full) or _is_scheme(full):
        return Named(full)
    raise pickle.UnpicklingError(
        f"GLOBAL {full.removeprefix('builtins.')} was not an allowed global by default."
    )


def _dtype_width(full: str) -> int | None:
    module, _, name = full.rpartition(".")
    found = vars(torch).get(name) if module == "torch" else None
    return found.itemsize if isinstance(found, torch.dtype) else None


def _is_scheme(full: str) -> bool:
    module, _, name = full.rpartition(".")
    return module == "torch" and isinstance(vars(torch).get(name), torch.qscheme)


def called(function: Made, arguments: Made) -> Made:
    """Return what torch would make of a call.

    Raises:
        UnpicklingError: no torch.save writes such a call.
    """
    name = function.name if isinstance(function, Named) else ""
    if name not in _FORMS or not isinstance(arguments, tuple):
        raise odd("a call")
    try:
        return _FORMS[name](*arguments)
    except TypeError:
        raise odd(f"a call of '{name}'") from None


def _sizes(value: Made) -> tuple[int, ...]:
    sizes = value.sizes if isinstance(value, Sizes) else value
    if not isinstance(sizes, tuple) or len(sizes) > _MAX_SIZES or not all(map(is_size, sizes)):
        raise odd("the shape of a tensor")
    return sizes


def _tensor(memory: Made, offset: Made, shape: Made, strides: Made, *_: Made) -> Tensor:
    if not isinstance(memory, Storage):
        raise odd("a tensor")
    return _inside(memory, memory.dtype.name, memory.itemsize, offset, shape, strides)


def _tensor_v2(
    memory: Made, offset: Made, shape: Made, strides: Made, grad: Made, hooks: Made, metadata: Made = None
) -> Tensor:
    return _tensor(memory, offset, shape, strides, grad, hooks, metadata)


def _tensor_v3(
    memory: Made,
    offset: Made,
    shape: Made,
    strides: Made,
    _grad: Made,
    _hooks: Made,
    dtype: Made,
    _metadata: Made = None,
) -> Tensor:
    width = _dtype_width(dtype.name) if isinstance(dtype, Named) else None
    if not isinstance(memory, Storage) or not isinstance(dtype, Named) or width is None:
        raise odd("a tensor")
    return _inside(memory, dtype.name.removeprefix("torch."), width, offset, shape, strides)


def _inside(memory: Storage, dtype: str, width: int, offset: Made, shape: Made, strides: Made) -> Tensor:
    sizes, steps = _sizes(shape), _sizes(strides)
    if not is_size(offset) or len(sizes) != len(steps):
        raise odd("a tensor")
    reach = 1 + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
    end = (offset + reach) * width  # type: ignore[operator]  # a size is a number
    if all(sizes) and end > memory.elements * memory.itemsize:
        raise odd("a tensor larger than its storage")
    dense = math.prod(sizes) * width <= memory.elements * memory.itemsize
    rows = [*accumulate(reversed(sizes[1:]), operator.mul, initial=1)][::-1]
    if not all(step == row or size == 1 for size, step, row in zip(sizes, steps, rows, strict=False)):
        return Tensor(dense=dense)
    return Tensor("", dense, memory, dtype, sizes, offset * width)  # type: ignore[operator]  # as above


def _parameter(data: Made, _grad: Made, _hooks: Made, _state: Made = None) -> Tensor:
    if not isinstance(data, Tensor):
        raise odd("a parameter")
    return data


def _copied(data: Made, _dtype: Made, _device: Made, _grad: Made) -> Tensor:
    # One that is expanded would take its whole size in another type.
    if not isinstance(data, Tensor) or not data.dense:
        raise odd("a tensor of another device")
    return data


def _subclassed(function: Made, kind: Made, arguments: Made, _state: Made) -> Tensor:
    if not isinstance(kind, Named) or kind.name not in _TENSOR_TYPES:
        raise odd("a tensor")
    made = called(function, arguments)
    if not isinstance(made, Tensor):
        raise odd("a tensor")
    return made


def _meta(_dtype: Made, shape: Made, strides: Made, _grad: Made) -> Tensor:
    _sizes(shape), _sizes(strides)
    return Tensor()


def _sparse(_layout: Made, data: Made) -> Tensor:
    # Each of its numbers is looked at, also where one is expanded to many.
    if not isinstance(data, tuple) or any(isinstance(part, Tensor) and not part.dense for part in data):
        raise odd("a sparse tensor")
    return Tensor()


def _nested(*parts: Made) -> Tensor:
    if len(parts) != 4 or not all(isinstance(part, Tensor) and part.dense for part in parts):
        raise odd("a nested tensor")
    return Tensor()


def _quantized(*_: Made) -> Tensor:
    return Tensor(strange="quantized")


def _size(sizes: Made) -> Sizes:
    if not isinstance(sizes, tuple):
        raise odd("a torch.Size")
    return Sizes(sizes)


def _constant(*arguments: Made) -> Made:
    if not all(isinstance(argument, str | int | bytes) for argument in arguments):
        raise odd("a constant of torch")
    return None


def _encoded(text: Made, encoding: Made = None) -> Encoded:
    # Other encodings take a time that grows with the square of the length.
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise odd("a run of bytes")
    return Encoded(text)


def _bytearray(content: Made = b"", encoding: Made = None) -> Items:
    # Of a number it would make as many bytes.
    if not isinstance(content, str if encoding in _TEXT else bytes | Encoded):
        raise odd("a bytearray")
    return Items(Kind.BYTES, [content])


def _complex(real: Made, imaginary: Made) -> complex:
    if type(real) is not float or type(imaginary) is not float:
        raise odd("a complex number")
    return complex(real, imaginary)


def _set(members: Made = ()) -> Items:
    if isinstance(members, Items) and members.kind in (Kind.LIST, Kind.SET):
        return Items(Kind.SET, members.items)
    if not isinstance(members, tuple):
        raise odd("a set")
    return Items(Kind.SET, list(members))


def _mapping(content: Made = None) -> Items:
    if content is None:
        return Items(Kind.MAPPING)
    if not isinstance(content, Items) or content.kind not in (Kind.LIST, Kind.MAPPING):
        raise odd("a mapping")
    return Items(Kind.MAPPING if content.kind is Kind.MAPPING else Kind.PAIRS, content.items)


_FORMS: dict[str, Callable[..., Made]] = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor_v2,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._utils._rebuild_meta_tensor_no_storage": _meta,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch._utils._rebuild_nested_tensor": _nested,
    "torch._utils._rebuild_qtensor": _quantized,
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": _copied,
    "torch._tensor._rebuild_from_type_v2": _subclassed,
    "torch.serialization._get_layout": _constant,
    "torch.Size": _size,
    "torch.device": _constant,
    "collections.OrderedDict": _mapping,
    "collections.Counter": _mapping,
    "_codecs.encode": _encoded,
    "builtins.bytearray": _bytearray,
    "builtins.complex": _complex,
    "builtins.set": _set,
}
