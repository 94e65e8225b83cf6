"""The smallest encoding for a chunk, found without trying everything on all of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np

from mvcs.delta import exact, frames
from mvcs.delta.buffers import Buffer, Bytes, as_array
from mvcs.delta.element import ElementFormat
from mvcs.delta.encoding import Encoding, Steps, encode

_SLICES = 3
_SLICE_ELEMENTS = 1 << 13
_SLICE_CODES = 1 << 14
_CLOSE = 1.05
_TELLING = 1 << 11
_CODE = ElementFormat(1, floating=False)

Chosen = tuple[Encoding, Buffer]
CodeCoder = Literal["auto", "huffman"]
"""The coder of codes of one byte.

"auto" takes whichever is smallest. "huffman" takes run lengths and Huffman codes for each source bucket
(Inshrinkerator, section 6), and no rANS. Codes of two bytes, those of lattices, have no such coder and
keep theirs.
"""


def choose_exact(content: Buffer, element: ElementFormat, base: Buffer | None) -> Chosen:
    """Encode chunks exactly: alone, or near a base of the same length; never larger than raw.

    A large content is tried on slices first and then encoded once.
    """
    data = as_array(content)
    if data.size // element.lane > exact.MAX_WORDS:
        return _unless_larger(data, Encoding.ZSTD, encode(Encoding.ZSTD, data, element=element))
    best, size = _best_alone(data, element)
    near = None if base is None or as_array(base).size != data.size else as_array(base)
    if near is not None and exact.estimate_residual(data, near, element) < size:
        return _unless_larger(data, Encoding.RANS_RESIDUAL, exact.encode_residual(data, near, element))
    return _unless_larger(data, best, encode(best, data, element=element))


def pays_near_base(content: Buffer, element: ElementFormat, base: Buffer) -> bool:
    """Tell whether chunks like this one are smaller near bases like this one, where others share the tables.

    A chunk that is too small to tell has as few bytes to lose.
    """
    data = as_array(content)
    if data.size < _TELLING * element.width:
        return True
    return exact.estimate_residual(data, base, element) < exact.estimate_planes(data, element)


def _best_alone(data: Bytes, element: ElementFormat) -> tuple[Encoding, int]:
    """Return the encoding for a chunk alone and about its size: long repeats are what zstd is for."""
    size = exact.estimate_planes(data, element)
    part = _sample(data, element.width)
    frame = len(frames.compress(part, 1)) * data.size // max(part.size, 1)
    return (Encoding.ZSTD, frame) if frame < size else (Encoding.RANS_PLANES, size)


@dataclass(frozen=True)
class CodeChunks:
    """The codes of one chunk, or of several that share an entry.

    Attributes:
        content: the codes, little-endian, one chunk behind the other.
        width: bytes of a code, 1 or 2.
        lengths: bytes of each chunk.
        levels: for codes of one byte: more than any of them, 1 to 256.
        base: codes of the same widths and lengths that these may be stored near, or None.
        steps: for codes of a lattice near others: the step bytes of each base and chunk.
    """

    content: Buffer
    width: int
    lengths: Sequence[int]
    levels: int = 256
    base: Buffer | None = None
    steps: Sequence[Steps] | None = None

    def sample(self) -> "CodeChunks":
        """Return slices of large contents, as chunks of their own; smaller ones as they are."""
        spans = _spans(sum(self.lengths) // self.width, _SLICE_CODES)
        if len(spans) == 1:
            return self
        ends = [0, *accumulate(self.lengths)]
        parts = [
            (place, max(start * self.width, ends[place]), min(stop * self.width, ends[place + 1]))
            for start, stop in spans
            for place in range(len(self.lengths))
            if max(start * self.width, ends[place]) < min(stop * self.width, ends[place + 1])
        ]
        cuts = [slice(start, stop) for _, start, stop in parts]
        return CodeChunks(
            _cut(self.content, cuts),
            self.width,
            [stop - start for _, start, stop in parts],
            self.levels,
            None if self.base is None else _cut(self.base, cuts),
            None if self.steps is None else [self.steps[place] for place, _, _ in parts],
        )

    def encode(self, encoding: Encoding) -> Buffer:
        """Return the payload of the codes."""
        return encode(
            encoding,
            self.content,
            element=ElementFormat(self.width, floating=False),
            lengths=self.lengths,
            base=self.base,
            levels=self._levels(encoding),
            steps=self.steps,
        )

    def _levels(self, encoding: Encoding) -> int:
        if encoding is Encoding.DELTA and self.base is not None:
            return max(self.levels, int(as_array(self.base).max(initial=0)) + 1)
        return self.levels


def choose_codes(codes: CodeChunks, coder: CodeCoder = "auto") -> Chosen:
    """Encode codes near base codes or alone, by rANS or as published, or RAW; whichever is smallest.

    Large contents are tried on slices first; what comes close there is tried on all of them.
    """
    part = codes.sample()
    tried = {encoding: part.encode(encoding) for encoding in _encodings(codes, coder)}
    limit = min(map(len, tried.values())) * _CLOSE
    last = [encoding for encoding, payload in tried.items() if len(payload) <= limit]
    payloads = {encoding: tried[encoding] if part is codes else codes.encode(encoding) for encoding in last}
    best = min(payloads, key=lambda encoding: (len(payloads[encoding]), encoding))
    return _unless_larger(as_array(codes.content), best, payloads[best])


def _encodings(codes: CodeChunks, coder: CodeCoder) -> Iterator[Encoding]:
    published = codes.width == 1
    if not (published and coder == "huffman"):
        yield Encoding.RANS_CODES
        if codes.base is not None:
            yield Encoding.RANS_DELTA
    if published:
        yield Encoding.CODES
        if codes.base is not None:
            yield Encoding.DELTA


def choose_opaque(content: Buffer) -> Chosen:
    """Encode a structured object or a piece of a blob: ZSTD, or RAW where that gains nothing."""
    data = as_array(content)
    return _unless_larger(data, Encoding.ZSTD, encode(Encoding.ZSTD, data, element=_CODE))


def _unless_larger(data: Bytes, encoding: Encoding, payload: Buffer) -> Chosen:
    return (encoding, payload) if len(payload) < data.size else (Encoding.RAW, data.tobytes())


def _sample(data: Bytes, width: int) -> Bytes:
    """The start, the middle and the end of a large chunk, in whole elements; a small chunk as it is."""
    spans = _spans(data.size // width, _SLICE_ELEMENTS)
    return (
        data if len(spans) == 1 else _cut(data, [slice(start * width, stop * width) for start, stop in spans])
    )


def _spans(count: int, run: int) -> list[tuple[int, int]]:
    if count <= _SLICES * run:
        return [(0, count)]
    return [(start, start + run) for start in (0, (count - run) // 2, count - run)]


def _cut(content: Buffer, cuts: Sequence[slice]) -> Bytes:
    data = as_array(content)
    return np.concatenate([data[cut] for cut in cuts])
