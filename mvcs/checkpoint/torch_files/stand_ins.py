"""What stands for the values of a pickle of torch.save: it says what torch would make, and no more."""

import pickle
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from mvcs.objects import DType

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
