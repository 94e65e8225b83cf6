"""The pickle of a file of torch.save, followed with what stands for each value instead of the value.

torch's restricted loader calls no function but a few, and these make of a few bytes as many gigabytes as they
are told; a key of nested tuples keeps it for ever. What it would refuse is refused here as well.
"""

import pickle
import struct
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import BinaryIO, ClassVar, cast

from mvcs.checkpoint.state.captured import refuse
from mvcs.checkpoint.torch_files.stand_ins import (
    Items,
    Made,
    Named,
    Sizes,
    Storage,
    Tensor,
    called,
    named,
    odd,
    storage,
)
from mvcs.objects import MAX_ALIKE, Path

# What is named twice stands in a commit twice. Real states share settings alone.
_FREE_NODES, _NODES_A_BYTE = 1 << 18, 16
_TEXT_A_NODE = 16
_LONGEST_NAME = 1 << 10
_SHORT = frozenset({type(None), bool, int, float, Tensor, Storage})
_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})


class TorchPickle:
    """Follows pickles that stand one behind the other in a stream.

    Attributes:
        storages: the memory that was asked for, by key.
    """

    def __init__(self, stream: BinaryIO, size: int, path: Path) -> None:
        """Follow pickles in a stream of `size` bytes, from where it stands, of a file that is `path`."""
        self.storages: dict[str, Storage] = {}
        self._stream = stream
        self._size = size
        self._path = path
        self._copied = 0
        self._alike: dict[int, set[int]] = defaultdict(set)
        self._clear()

    def _clear(self) -> None:
        self._stack: list[Made] = []
        self._marks: list[list[Made]] = []
        self._memo: dict[int, Made] = {}

    def follow(self) -> Made:
        """Follow one pickle and return what stands for its result.

        Raises:
            UnpicklingError: torch would not load it, or no torch.save writes it.
            StateError: it hashes what is no plain value, or makes copies beyond belief.
        """
        self._clear()
        read, steps = self._stream.read, self._STEPS
        while (code := read(1)) != pickle.STOP:
            step = steps.get(code)
            if step is None:
                raise pickle.UnpicklingError(f"Unsupported operand {code[0]}") if code else EOFError
            step(self)
        return self._stack.pop()

    def _take(self, count: int) -> bytes:
        # What a length claims is not asked of the stream: it would be made room for.
        if count > self._size:
            raise EOFError
        found = self._stream.read(count)
        if len(found) != count:
            raise EOFError
        return found

    def _number(self, count: int, *, signed: bool = False) -> int:
        return int.from_bytes(self._take(count), "little", signed=signed)

    def _protocol(self) -> None:
        self._take(1)

    def _push(self, value: Made) -> None:
        self._stack.append(value)

    def _line(self) -> str:
        line = self._stream.readline(_LONGEST_NAME)
        if not line.endswith(b"\n"):
            raise EOFError
        return line[:-1].decode("utf-8")

    def _named(self) -> None:
        module = self._line()
        self._push(named(module, self._line()))

    def _text(self, length: int = 4) -> None:
        self._push(str(self._take(self._number(length)), "utf-8", "surrogatepass"))

    def _short_text(self) -> None:
        self._push(str(self._take(self._take(1)[0]), "utf-8"))

    def _mark(self) -> None:
        self._marks.append(self._stack)
        self._stack = []

    def _marked(self) -> list[Made]:
        found = self._stack
        self._stack = self._marks.pop()
        return found

    def _tuple(self, count: int | None = None) -> None:
        if count is None:
            self._push(tuple(self._marked()))
            return
        found = tuple(self._stack[-count:])
        if len(found) != count:
            raise odd("a tuple")
        self._stack[-count:] = [found]

    def _target(self, *, mapping: bool) -> list[Made]:
        target = self._stack[-1]
        if not isinstance(target, Items) or not (target.is_mapping if mapping else target.kind is list):
            raise odd("a container")
        return target.items

    def _append(self) -> None:
        item = self._stack.pop()
        self._target(mapping=False).append(item)

    def _appends(self) -> None:
        items = self._marked()
        self._target(mapping=False).extend(items)

    def _set_item(self) -> None:
        item = self._stack.pop()
        key = self._stack.pop()
        self._hash([key])
        self._target(mapping=True).extend((key, item))

    def _set_items(self) -> None:
        items = self._marked()
        if len(items) % 2:
            raise odd("a mapping")
        self._hash(items[::2])
        self._target(mapping=True).extend(items)

    def _build(self) -> None:
        state = self._stack.pop()
        target = self._stack[-1]
        if not isinstance(target, Items) or target.kind is not OrderedDict:
            raise pickle.UnpicklingError("Can only build Tensor, Parameter, OrderedDict")
        target.attributes.append(state)

    def _reduce(self) -> None:
        arguments = self._stack.pop()
        made = self._called(self._stack[-1], arguments)
        self._copied += sum(map(_length, arguments if isinstance(arguments, tuple) else ()))
        if self._copied > _most(self._stream.tell()):
            raise refuse(self._path, "a container that is copied beyond belief")
        if isinstance(made, Items):
            self._hash(made.keys())
        self._stack[-1] = made

    def _called(self, function: Made, arguments: Made) -> Made:
        return called(function, arguments)

    def _hash(self, keys: Iterable[Made]) -> None:
        for key in keys:
            if type(key) not in _PLAIN:
                raise refuse(self._path, "a key or a member of a set that is no plain value")
            if isinstance(key, int) and abs(key) > sys.hash_info.modulus:
                alike = self._alike[hash(key)]
                alike.add(key)
                if len(alike) > MAX_ALIKE:
                    raise odd(f"a mapping with more than {MAX_ALIKE} keys of one hash")

    def _persistent(self) -> None:
        whole, part = storage(self._stack.pop())
        if self.storages.setdefault(whole.key, whole) != whole:
            raise odd("a storage")
        self._push(part)

    def _get(self) -> None:
        self._stack.append(self._memo[self._take(1)[0]])

    def _far_get(self) -> None:
        self._stack.append(self._memo[self._number(4)])

    def _put(self) -> None:
        self._memo[self._take(1)[0]] = self._stack[-1]

    def _far_put(self) -> None:
        self._memo[self._number(4)] = self._stack[-1]

    _STEPS: ClassVar[dict[bytes, Callable[["TorchPickle"], None]]] = {
        pickle.PROTO: _protocol,
        pickle.GLOBAL: _named,
        pickle.REDUCE: _reduce,
        pickle.BUILD: _build,
        pickle.BINPERSID: _persistent,
        pickle.APPEND: _append,
        pickle.APPENDS: _appends,
        pickle.SETITEM: _set_item,
        pickle.SETITEMS: _set_items,
        pickle.MARK: _mark,
        pickle.TUPLE: _tuple,
        pickle.TUPLE1: lambda self: self._tuple(1),
        pickle.TUPLE2: lambda self: self._tuple(2),
        pickle.TUPLE3: lambda self: self._tuple(3),
        pickle.EMPTY_TUPLE: lambda self: self._push(()),
        pickle.EMPTY_LIST: lambda self: self._push(Items()),
        pickle.EMPTY_DICT: lambda self: self._push(Items(dict)),
        pickle.EMPTY_SET: lambda self: self._push(Items(set)),
        pickle.NONE: lambda self: self._push(None),
        pickle.NEWFALSE: lambda self: self._push(value=False),
        pickle.NEWTRUE: lambda self: self._push(value=True),
        pickle.BININT: lambda self: self._push(self._number(4, signed=True)),
        pickle.BININT1: lambda self: self._stack.append(self._take(1)[0]),
        pickle.BININT2: lambda self: self._push(self._number(2)),
        pickle.LONG1: lambda self: self._push(self._number(self._take(1)[0], signed=True)),
        pickle.BINFLOAT: lambda self: self._push(struct.unpack(">d", self._take(8))[0]),
        pickle.BINUNICODE: _text,
        pickle.SHORT_BINSTRING: _short_text,
        pickle.BINGET: _get,
        pickle.LONG_BINGET: _far_get,
        pickle.BINPUT: _put,
        pickle.LONG_BINPUT: _far_put,
    }


class AnyPickle(TorchPickle):
    """Follows a pickle whatever it asks for: what that would give is a container of what it is given.

    Nothing is loaded from it, so that keys are not hashed and containers may contain themselves.

    Attributes:
        asked: the names that were asked for.
    """

    def __init__(self, stream: BinaryIO, size: int, path: Path) -> None:
        """Do as `TorchPickle` does."""
        super().__init__(stream, size, path)
        self.asked: list[str] = []

    def _called(self, function: Made, arguments: Made) -> Made:
        try:
            return called(function, arguments)
        except pickle.UnpicklingError:
            return Items(items=[arguments])

    def _hash(self, keys: Iterable[Made]) -> None:
        pass

    def _ask(self, module: Made, name: Made) -> None:
        if not isinstance(module, str) or not isinstance(name, str) or len(module + name) > 2 * _LONGEST_NAME:
            raise odd("a name")
        full = f"{module.replace('__builtin__', 'builtins')}.{name}"
        self.asked.append(full)
        self._push(Named(full))

    def _any_named(self) -> None:
        module = self._line()
        self._ask(module, self._line())

    def _stack_named(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._ask(module, name)

    def _new(self, parts: int = 1) -> None:
        arguments = [self._stack.pop() for _ in range(parts)]
        self._stack[-1] = Items(items=arguments)

    def _given(self, items: list[Made], *, mapping: bool = False) -> None:
        target = self._stack[-1]
        if not isinstance(target, Items):
            target = self._stack[-1] = Items(items=[target])
        if mapping and not target.is_mapping:
            target.attributes.append(Items(dict, items))
        else:
            target.items.extend(items)

    def _built(self) -> None:
        state = self._stack.pop()
        self._given([])
        cast("Items", self._stack[-1]).attributes.append(state)

    def _bytes(self, count: int) -> None:
        self._push(self._take(self._number(count)))

    _STEPS: ClassVar[dict[bytes, Callable[..., None]]] = {
        **TorchPickle._STEPS,  # noqa: SLF001 - its own base
        pickle.GLOBAL: _any_named,
        pickle.INST: _any_named,
        pickle.STACK_GLOBAL: _stack_named,
        pickle.BUILD: _built,
        pickle.NEWOBJ: _new,
        pickle.NEWOBJ_EX: lambda self: self._new(2),
        pickle.APPEND: lambda self: self._given([self._stack.pop()]),
        pickle.APPENDS: lambda self: self._given(self._marked()),
        pickle.ADDITEMS: lambda self: self._given(self._marked()),
        pickle.SETITEM: lambda self: self._given([self._stack.pop(), self._stack.pop()][::-1], mapping=True),
        pickle.SETITEMS: lambda self: self._given(self._marked(), mapping=True),
        pickle.FROZENSET: lambda self: self._push(Items(set, self._marked())),
        pickle.FRAME: lambda self: self._take(8) and None,
        pickle.MEMOIZE: lambda self: self._memo.__setitem__(len(self._memo), self._stack[-1]),
        pickle.SHORT_BINUNICODE: lambda self: self._short_text(),
        pickle.BINUNICODE8: lambda self: self._text(8),
        pickle.SHORT_BINBYTES: lambda self: self._bytes(1),
        pickle.BINBYTES: lambda self: self._bytes(4),
        pickle.BINBYTES8: lambda self: self._bytes(8),
        pickle.BYTEARRAY8: lambda self: self._bytes(8),
        pickle.LONG4: lambda self: self._bytes(4),
    }


def tensors_made(made: Made) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors in what was followed, each container once, with their keys joined with dots."""
    seen: set[int] = set()
    waiting: list[tuple[str, Made]] = [("", made)]
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, Tensor):
            yield path, item
        elif isinstance(item, tuple | Items) and id(item) not in seen and len(path) <= _LONGEST_NAME:
            seen.add(id(item))
            waiting.extend(reversed([*_named_parts(path, item)]))


def _named_parts(path: str, item: Made) -> Iterator[tuple[str, Made]]:
    before = f"{path}." if path else ""
    parts = item.items if isinstance(item, Items) else cast("tuple[Made, ...]", item)
    if isinstance(item, Items) and item.is_mapping:
        for place, (key, value) in enumerate(zip(parts[::2], parts[1::2], strict=False)):
            named = str(key)[:_LONGEST_NAME] if type(key) in (str, int, bool) else f"({place})"
            yield before + named, value
    else:
        yield from ((f"{before}{place}", part) for place, part in enumerate(parts))
    yield from ((path, part) for part in (item.attributes if isinstance(item, Items) else ()))


def check_made(made: Made, path: Path, length: int) -> None:
    """Check that a commit can hold what was followed, before anything of it is made.

    Args:
        made: what stands for the result.
        path: of the file in the commit, for messages.
        length: bytes that the pickle takes.

    Raises:
        StateError: it contains itself, or names containers within each other beyond belief.
    """
    nodes: dict[int, int] = {}
    top = (made,)
    waiting: list[tuple[Made, bool]] = [(top, False)]
    while waiting:
        item, is_known = waiting.pop()
        if is_known:
            nodes[id(item)] = 1 + sum(nodes.get(id(part)) or 1 + _length(part) for part in _parts(item))
            if nodes[id(item)] > _most(length):
                raise refuse(path, "a container that stands within others beyond belief")
        elif id(item) not in nodes:
            nodes[id(item)] = 0
            waiting.append((item, True))
            waiting.extend((part, False) for part in _parts(item) if isinstance(part, tuple | Items))
        elif not nodes[id(item)]:
            raise refuse(path, "a container that contains itself")


def _parts(item: Made) -> Iterable[Made]:
    return chain(item.items, item.attributes) if isinstance(item, Items) else cast("tuple[Made, ...]", item)


def _length(part: Made) -> int:
    if type(part) in _SHORT:
        return 0
    if isinstance(part, str | bytes | bytearray):
        return len(part) // _TEXT_A_NODE
    part = part.sizes if isinstance(part, Sizes) else part.items if isinstance(part, Items) else part
    return len(part) if isinstance(part, list | tuple) else 0


def _most(length: int) -> int:
    return _FREE_NODES + _NODES_A_BYTE * length
