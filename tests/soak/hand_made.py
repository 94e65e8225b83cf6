"""Trees made by hand: any structure over any leaves, which name chunks that are there or nowhere."""

import random
from typing import Any

from mvcs.errors import MvcsError
from mvcs.objects import cbor
from mvcs.objects.ids import Kind

TYPES = ("float32", "float16", "bfloat16", "float64", "int64", "bool", "complex128", "float4_e2m1fn_x2", "x")
SIZES = (0, 1, 2, 3, 4, 48, 1 << 22, (1 << 22) + 1, 1 << 36, 1 << 40, (1 << 56) - 1)
DEEPEST = 4


class TreeMaker:
    """Makes trees over the chunks and blobs of a store."""

    def __init__(self, drawn: random.Random, objects: dict[Any, tuple[Kind, bytes]]) -> None:
        self.drawn = drawn
        self.chunks = [(name, data) for name, (kind, data) in sorted(objects.items()) if kind is Kind.CHUNK]
        self.blobs = [name for name, (kind, _) in sorted(objects.items()) if kind is Kind.BLOB]
        self.met = 0

    def tree(self) -> bytes:
        """Return the bytes of a tree."""
        while True:
            self.met = 0
            structure = self._structure(0)
            leaves = [self._leaf() for _ in range(self.met)]
            try:
                return cbor.dumps(["state", structure, leaves])
            except MvcsError:
                continue

    def _chunk(self, wanted: int | None = None) -> bytes:
        fitting = [name for name, data in self.chunks if len(data) == wanted]
        if fitting and self.drawn.random() < 0.8:
            return bytes(self.drawn.choice(fitting))
        return bytes(self.drawn.choice(self.chunks)[0]) if self.drawn.random() < 0.9 else bytes(32)

    def _shape(self) -> list[int]:
        drawn = self.drawn
        if drawn.random() < 0.7:
            return drawn.choice(([48, 16], [16], [], [4], [2, 3], [0, 3], [4, 16]))
        return [drawn.choice(SIZES) for _ in range(drawn.choice((0, 1, 1, 2, 3, 65)))]

    def _leaf(self) -> Any:
        described = self._tensor(0)
        if self.drawn.random() < 0.3:
            return [*described[:2], [self._chunk() for _ in range(self.drawn.choice((0, 1, 1, 1, 2)))]]
        return [*described, [self._chunk() for _ in range(self.drawn.choice((0, 1, 1, 1, 2)))]]

    def _tensor(self, depth: int) -> list[Any]:
        drawn, shape = self.drawn, self._shape()
        count = 1
        for size in shape:
            count *= size
        form = drawn.randrange(9)
        width = {0: 1, 1: 2, 2: 2, 3: 2}.get(form, 0)
        chunks = -(-count // (1 << 22)) if drawn.random() < 0.9 else drawn.randrange(3)
        chunks = min(chunks, 3)
        codes = [self._chunk(count * width) for _ in range(chunks)] if width else []
        exceptions: list[Any] = [None if drawn.random() < 0.8 else self._chunk() for _ in codes]
        digests = drawn.randbytes(16 * chunks) if form not in (5, 7) else b""
        return [drawn.choice(TYPES), shape, form, self._fields(form, depth), exceptions, digests, codes]

    def _fields(self, form: int, depth: int) -> list[Any]:
        drawn = self.drawn
        other: Any = drawn.randrange(self.met + 1)
        if depth < DEEPEST and drawn.random() < 0.3:
            other = self._tensor(depth + 1)
        fields: dict[int, list[Any]] = {
            0: [1, drawn.randbytes(drawn.choice((0, 4, 8, 12, 254 * 4, 255 * 4)))],
            1: [drawn.choice((0, 100, 217, 255, 256))],
            2: [drawn.choice((15, 16, 23, 24, 25)), *(self._offsets() for _ in range(2))],
            3: [drawn.choice((0, 217, 255)), other],
            4: [other, drawn.choice(("nearest-even", "up"))],
            5: [drawn.randbytes(drawn.choice((1, 2, 4, 8)))],
        }
        return fields.get(form, [])

    def _offsets(self) -> bytes | None:
        return None if self.drawn.random() < 0.5 else self._chunk(96)

    def _structure(self, depth: int) -> Any:
        drawn = self.drawn
        tag = drawn.randrange(17) if depth < DEEPEST else 9
        children = [self._structure(depth + 1) for _ in range(drawn.randrange(4))] if tag in (0, 1) else []
        ways: dict[int, Any] = {
            4: [0.5, float("nan")],
            5: ["float32"],
            6: ["cuda:0"],
            7: [1, 2],
            8: [drawn.choice(TYPES), drawn.randbytes(drawn.choice((1, 2, 4, 8)))],
            13: [1, 2, "a"],
            14: [None],
            15: [drawn.randbytes(3)],
        }
        if tag in (2, 3, 12):
            keys = drawn.sample(("a", "b", 1, True, 7, "state", "param_groups", "__proto__"), 3)
            pairs = [[key, self._structure(depth + 1)] for key in keys]
            return [tag, pairs, *([None] if tag == 3 else [])]
        if tag in (10, 11):
            return [tag, bytes(drawn.choice(self.blobs or [bytes(32)])), drawn.choice((0, 3, 1 << 40))]
        return self._tensor_reference() if tag == 9 else [tag, *children, *ways.get(tag, [])]

    def _tensor_reference(self) -> Any:
        index = self.drawn.randrange(self.met + 1)
        self.met = max(self.met, index + 1)
        return [9, index, self.drawn.randrange(8)]
