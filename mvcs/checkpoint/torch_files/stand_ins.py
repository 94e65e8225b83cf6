"""What stands for the values of a pickle of torch.save: it says what torch would make, and no more."""

import operator
import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import Any, TypeAlias, cast

from mvcs.objects import DTYPES, DType, TensorFlag

Made: TypeAlias = object
ODD = "is not as torch.save writes it"
_PARAMETER = "torch.nn.parameter.Parameter"
_TENSOR_TYPES = frozenset({"torch.Tensor", _PARAMETER})
_SCHEMES = frozenset(
    f"torch.per_{kind}"
    for kind in (
        *("tensor_affine", "tensor_symmetric", "channel_affine", "channel_symmetric"),
        "channel_affine_float_qparams",
    )
)
_SPARSE = frozenset(f"torch.sparse_{kind}" for kind in ("coo", "csr", "csc", "bsr", "bsc"))
# As torch.device has them.
_DEVICES = frozenset(
    {"cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla"}
    | {"lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"}
)
_MOST_DEVICES = 128
# Attributes that change what a tensor is.
_OWN = frozenset({"__class__", "data", "imag", "real", "requires_grad"})
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
        begin: bytes of what has the key in front of it.
        quantized: whether its elements are numbers that stand for others.
    """

    key: str
    dtype: DType
    elements: int
    begin: int = 0
    quantized: bool = False

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return self.elements * self.dtype.itemsize

    @property
    def number_bytes(self) -> int:
        """Bytes of each number whose order matters; 0 where none does. A complex element is two."""
        size = self.dtype.itemsize // (2 if self.dtype.kind == "complex" else 1)
        return size if size > 1 else 0


@dataclass(eq=False)
class Items:
    """A container.

    Attributes:
        kind: a list, a set, or a mapping: its type.
        items: what is in it; of a mapping, keys and values in turn.
        attributes: what it is given beside them.
    """

    kind: type = list
    items: list[Made] = field(default_factory=list)
    attributes: list[Made] = field(default_factory=list)

    @property
    def is_mapping(self) -> bool:
        """Whether its items are keys and values."""
        return issubclass(self.kind, dict)

    def keys(self) -> Iterable[Made]:
        """Return what is hashed."""
        return self.items[::2] if self.is_mapping else self.items if self.kind is set else ()

    def container(self) -> object:
        """Return it as what torch would make; what is in it stays what stands for that.

        Raises:
            UnpicklingError: it has attributes of a kind that no torch.save writes.
        """
        made: object = self.kind(_mapped(self) if self.is_mapping else self.items)
        for one in self.attributes:
            if not isinstance(one, Items) or not one.is_mapping or not isinstance(made, OrderedDict):
                raise odd("what a container is given")
            vars(made).update(_mapped(one))
        return made


def _mapped(mapping: Items) -> dict[Any, Made]:
    return dict(zip(mapping.items[::2], mapping.items[1::2], strict=True))


@dataclass(frozen=True)
class Device:
    """A torch.device."""

    name: str


@dataclass(frozen=True)
class Sizes:
    """A torch.Size."""

    sizes: tuple[Made, ...]


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor or parameter.

    Attributes:
        strange: of which kind it is, where that is one that no commit holds.
        memory: its memory, of such as a commit holds.
        dtype: the name of its element type there.
        shape: its sizes.
        strides: elements from one to the next, along each dimension.
        offset: bytes of its memory in front of it.
        flags: how it is handed back.
        conjugated: whether the imaginary part of each element stands with the other sign.
        negated: whether each element stands with the other sign.
    """

    strange: str = ""
    memory: Storage | None = None
    dtype: str = ""
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    offset: int = 0
    flags: TensorFlag = TensorFlag(0)  # noqa: RUF009 - an enum member, immutable
    conjugated: bool = False
    negated: bool = False

    @cached_property
    def order(self) -> tuple[int, ...] | None:
        """Its dimensions as they vary in memory, slowest first; None where its elements lie apart."""
        plain = tuple(range(len(self.shape)))
        if not all(self.shape):
            return plain
        for order in (plain, tuple(sorted(plain, key=lambda way: (-self.strides[way], way)))):
            rows = [*accumulate((self.shape[way] for way in order[:0:-1]), operator.mul, initial=1)][::-1]
            if all(
                self.strides[way] == row or self.shape[way] == 1
                for way, row in zip(order, rows, strict=False)
            ):
                return order
        return None


WIDTHS = {
    **{dtype.name: dtype.itemsize for dtype in DTYPES.values()},
    **dict.fromkeys(("qint8", "quint8", "quint4x2", "quint2x4", "bits8", "bits1x8", "bits2x4", "bits4x2"), 1),
    **{f"{sign}int{bits}": 1 for sign in ("", "u") for bits in range(1, 8)},
    "bits16": 2,
    "qint32": 4,
}


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
    whole = Storage(key, dtype, elements, quantized=kind.name.startswith("torch.Q"))
    if view in ([], [None]):
        return whole, whole
    return whole, _view(whole, view[0])


def _view(whole: Storage, view: Made) -> Storage:
    if not isinstance(view, tuple) or len(view) != 3 or not all(map(is_size, view[1:])):
        raise odd("a view of a storage")
    if view[1] + view[2] > whole.elements:
        raise odd("a view of a storage")
    return replace(whole, elements=view[2], begin=view[1] * whole.dtype.itemsize)


def is_size(value: Made) -> bool:
    """Tell whether a value can be a number of elements."""
    return type(value) is int and 0 <= value < 1 << 62


def named(module: str, name: str) -> Named:
    """Return what a pickle asks for.

    Raises:
        UnpicklingError: it is nothing that a file of plain values needs.
    """
    full = f"{module.replace('__builtin__', 'builtins')}.{name}"
    if is_plain(full):
        return Named(full)
    raise pickle.UnpicklingError(
        f"GLOBAL {full.removeprefix('builtins.')} was not an allowed global by default."
    )


def is_plain(full: str) -> bool:
    """Tell whether a file of plain values may ask for something, by its module and name."""
    known = full in _FORMS or full in STORAGES or full in _TENSOR_TYPES or full in _SCHEMES
    return known or dtype_named(full) is not None


def dtype_named(full: str) -> str | None:
    """Return the name of an element type, given as a pickle asks for it; None where it is none."""
    module, _, name = full.rpartition(".")
    return name if module == "torch" and name in WIDTHS else None


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


def _tensor(
    memory: Made,
    offset: Made,
    shape: Made,
    strides: Made,
    grad: Made,
    _hooks: Made,
    metadata: Made = None,
) -> Tensor:
    if not isinstance(memory, Storage) or memory.quantized:
        raise odd("a tensor")
    return _inside(memory, memory.dtype.name, offset, (shape, strides), grad, metadata)


def _tensor_v3(
    memory: Made,
    offset: Made,
    shape: Made,
    strides: Made,
    grad: Made,
    _hooks: Made,
    dtype: Made,
    metadata: Made = None,
) -> Tensor:
    name = dtype_named(dtype.name) if isinstance(dtype, Named) else None
    if not isinstance(memory, Storage) or memory.dtype.name != "uint8" or name is None:
        raise odd("a tensor")
    return _inside(memory, name, offset, (shape, strides), grad, metadata)


def _inside(
    memory: Storage, dtype: str, offset: Made, layout: tuple[Made, Made], grad: Made, metadata: Made
) -> Tensor:
    sizes, steps = map(_sizes, layout)
    if not is_size(offset) or len(sizes) != len(steps):
        raise odd("a tensor")
    width, before = WIDTHS[dtype], cast("int", offset)
    reach = 1 + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
    if all(sizes) and (before + reach) * width > memory.nbytes:
        raise odd("a tensor larger than its storage")
    metadata = Items(dict) if metadata is None else metadata
    bits = metadata.container() if isinstance(metadata, Items) else None
    if not isinstance(bits, dict) or not bits.items() <= _bits_of(DTYPES.get(dtype)).items():
        raise odd("a tensor")
    made = Tensor("", memory, dtype, sizes, steps, memory.begin + before * width)
    return _flagged(replace(made, conjugated="conj" in bits, negated="neg" in bits), grad)


def _bits_of(dtype: DType | None) -> dict[str, bool]:
    """Return what a tensor of an element type may stand for other than its memory holds."""
    if dtype is not None and dtype.kind == "complex":
        return {"conj": True, "neg": True}
    return {"neg": True} if dtype is not None and dtype.quantizable else {}


def _flagged(made: Tensor, grad: Made, *, parameter: bool = False) -> Tensor:
    dtype = DTYPES.get(made.dtype)
    has_gradients = made.strange or (dtype is not None and dtype.kind in ("float", "complex"))
    if type(grad) is not bool or (grad and not has_gradients):
        raise odd("a gradient")
    flags = TensorFlag.PARAMETER if parameter else TensorFlag(0)
    return replace(made, flags=flags | TensorFlag.REQUIRES_GRAD if grad else flags)


def _parameter(data: Made, grad: Made, _hooks: Made, state: Made = None) -> Tensor:
    if not isinstance(data, Tensor):
        raise odd("a parameter")
    _check_attributes(state)
    return _flagged(data, grad, parameter=True)


def _check_attributes(state: Made) -> None:
    for part in state if isinstance(state, tuple) else (state,):
        if isinstance(part, Items) and not _OWN.isdisjoint(part.items[::2]):
            raise odd("an attribute of a tensor")


def _copied(data: Made, dtype: Made, _device: Made, grad: Made) -> Tensor:
    # Of another type it would be a copy.
    if not isinstance(data, Tensor) or dtype != Named(f"torch.{data.dtype}"):
        raise odd("a tensor of another device")
    return _flagged(data, grad)


def _subclassed(function: Made, kind: Made, arguments: Made, state: Made) -> Tensor:
    if not isinstance(kind, Named) or kind.name not in _TENSOR_TYPES:
        raise odd("a tensor")
    made = called(function, arguments)
    if not isinstance(made, Tensor):
        raise odd("a tensor")
    _check_attributes(state)
    return _flagged(made, TensorFlag.REQUIRES_GRAD in made.flags, parameter=kind.name == _PARAMETER)


def _meta(_dtype: Made, shape: Made, strides: Made, _grad: Made) -> Tensor:
    _sizes(shape), _sizes(strides)
    return Tensor("meta")


def _sparse(layout: Made, data: Made) -> Tensor:
    if not isinstance(layout, Named) or layout.name not in _SPARSE or not isinstance(data, tuple):
        raise odd("a sparse tensor")
    return Tensor(layout.name.removeprefix("torch."))


def _nested(*_: Made) -> Tensor:
    return Tensor("nested")


def _quantized(*_: Made) -> Tensor:
    return Tensor("quantized")


def _size(sizes: Made) -> Sizes:
    if not isinstance(sizes, tuple) or not all(type(one) is int and abs(one) < 1 << 63 for one in sizes):
        raise odd("a torch.Size")
    return Sizes(sizes)


def _layout(name: Made) -> Named:
    if name not in _SPARSE and name != "torch.strided":
        raise odd("a layout")
    return Named(f"{name}")


def _device(kind: Made, index: Made = None) -> Device:
    if kind not in _DEVICES or not (index is None or (is_size(index) and cast("int", index) < _MOST_DEVICES)):
        raise odd("a torch.device")
    return Device(f"{kind}" if index is None else f"{kind}:{index}")


def _encoded(text: Made, encoding: Made = None) -> bytes:
    # Other encodings take a time that grows with the square of the length.
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise odd("a run of bytes")
    return text.encode("latin-1")


def _bytearray(content: Made = b"", encoding: Made = None) -> bytearray:
    # Of a number it would make as many bytes.
    if isinstance(content, str) and encoding in _TEXT:
        return bytearray(content, encoding)
    if not isinstance(content, bytes) or encoding is not None:
        raise odd("a bytearray")
    return bytearray(content)


def _complex(real: Made, imaginary: Made) -> complex:
    if type(real) is not float or type(imaginary) is not float:
        raise odd("a complex number")
    return complex(real, imaginary)


def _set(members: Made = ()) -> Items:
    if isinstance(members, Items) and not members.is_mapping:
        return Items(set, [*members.items])
    if not isinstance(members, tuple):
        raise odd("a set")
    return Items(set, [*members])


def _counter(content: Made = None) -> Items:
    if content is None:
        return Items(Counter)
    if not isinstance(content, Items) or not content.is_mapping:
        raise odd("a counter")
    return Items(Counter, [*content.items])


def _ordered(content: Made = None) -> Items:
    if not isinstance(content, Items) or content.kind is not list:
        return replace(_counter(content), kind=OrderedDict)
    items: list[Made] = []
    for pair in content.items:
        parts = pair.items if isinstance(pair, Items) and pair.kind is list else pair
        if not isinstance(parts, list | tuple) or len(parts) != 2:
            raise odd("a mapping")
        items.extend(parts)
    return Items(OrderedDict, items)


_FORMS: dict[str, Callable[..., Made]] = {
    "torch._utils._rebuild_tensor": partial(_tensor, grad=False, _hooks=None),
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._utils._rebuild_meta_tensor_no_storage": _meta,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch._utils._rebuild_nested_tensor": _nested,
    "torch._utils._rebuild_qtensor": _quantized,
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": _copied,
    "torch._tensor._rebuild_from_type_v2": _subclassed,
    "torch.serialization._get_layout": _layout,
    "torch.Size": _size,
    "torch.device": _device,
    "collections.OrderedDict": _ordered,
    "collections.Counter": _counter,
    "_codecs.encode": _encoded,
    "builtins.bytearray": _bytearray,
    "builtins.complex": _complex,
    "builtins.set": _set,
}
