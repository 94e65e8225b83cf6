"""What stands for the values of a pickle of torch.save: it says what torch would make, and no more."""

import pickle
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from mvcs.objects import DTYPES, DType

Made: TypeAlias = object
ODD = "is not as torch.save writes it"


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
