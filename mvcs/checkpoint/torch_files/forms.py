"""What a pickle of torch.save may ask for: the few functions, each with the arguments that torch.save writes.

What is made here only says what torch would make. None of it is larger than what the pickle holds.
"""

import math
import operator
import pickle
from collections.abc import Callable
from itertools import accumulate

import torch

from mvcs.checkpoint.torch_files.stand_ins import (
    STORAGES,
    Encoded,
    Items,
    Kind,
    Made,
    Named,
    Sizes,
    Storage,
    Tensor,
    is_size,
    odd,
)

_TYPES = frozenset({"torch.Tensor", "torch.nn.parameter.Parameter"})
_TEXT = ("latin1", "latin-1", "ascii", "utf-8")
_MAX_SIZES = 1 << 10


def named(module: str, name: str) -> Named:
    """Return what a pickle asks for.

    Raises:
        UnpicklingError: it is nothing that a file of plain values needs.
    """
    full = f"{module.replace('__builtin__', 'builtins')}.{name}"
    if full in _FORMS or full in STORAGES or full in _TYPES or _dtype_width(full) or _is_scheme(full):
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
    if not isinstance(kind, Named) or kind.name not in _TYPES:
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
