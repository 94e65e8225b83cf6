"""Groups of values to codes of a few bits and a scale, packed (docs/format/channels.md).

The uniform quantizer of AQ-SGD (Wang et al. 2022, arXiv:2206.01299), section 4.1,
as its published code has it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import mvcs_native
from mvcs.delta import decode_codes, encode_codes
from mvcs.errors import CorruptionError, UsageError, whole

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 16)
_BITS = "use 1 to 8 bits, or 16"
_PART_GROUPS, _PART_SYMBOLS = 4093, 1 << 22  # of one run of the entropy coder


@dataclass(frozen=True)
class Quantizer:
    """Codes of `bits` bits for groups of values.

    Args:
        bits: 1 to 8, or 16. One bit is the sign, whose scale is the mean magnitude.
        stochastic: round up or down at random, so that the expectation is the value. Above the top code,
            (1 - 2^(1-bits)) of the scale, it is that code; at 16 bits it is up to 0.001 codes too high.
            Not with one bit.
        entropy: codes go through the entropy coder where that takes fewer bytes. Not with 16 bits.
        share: of the values of a group, those largest in magnitude, that are sent; others restore as 0.

    Raises:
        UsageError: there is no such quantizer.
    """

    bits: int
    stochastic: bool = False
    entropy: bool = False
    share: float = 1.0

    def __post_init__(self) -> None:
        """Refuse settings that mean nothing."""
        if whole("bits", self.bits, _BITS) not in WIDTHS:
            raise UsageError(f"codes cannot have {self.bits!r} bits", hint=_BITS)
        if self.stochastic and self.bits == 1:
            raise UsageError(
                "a code of one bit is a sign, which cannot be rounded", hint="use 2 bits or more"
            )
        if self.entropy and self.bits == 16:
            raise UsageError("codes of 16 bits are not entropy-coded", hint="use 8 bits or fewer")
        if not 0 < self.share <= 1:
            raise UsageError(f"a share cannot be {self.share!r}", hint="give more than 0, and at most 1")

    def size(self, groups: int, width: int) -> int:
        """Return how many bytes a payload has; with `entropy` it may have fewer."""
        _, flags, codes = self._shape(width)
        return groups * (2 + flags + codes)

    def encode(self, values: Floats, *, seed: int = 0) -> tuple[bytes, Floats]:
        """Quantize groups of values.

        Args:
            values: finite float32 [groups, width].
            seed: of stochastic rounding; its lowest 32 bits count.

        Returns:
            the payload, and what decoding it gives, float32 [groups, width].

        Raises:
            UsageError: the values are others, or one is a NaN or an infinity.
        """
        if values.ndim != 2 or values.dtype != np.float32:
            raise UsageError("values have to be float32 [groups, width]")
        groups, width = values.shape
        values = np.ascontiguousarray(values)
        payload = np.empty(self.size(groups, width), np.uint8)
        scales, flags, packed = self._split(payload, groups, width)
        sent, marks = values.reshape(-1), None
        if (count := self._shape(width)[0]) < width:
            marks = np.empty((groups, width), np.bool_)
            mvcs_native.mark_largest(sent, width, count, marks.reshape(-1))
            flags[:] = np.packbits(marks, axis=1, bitorder="little")
            sent = values[marks]
        restored = mvcs_native.empty(sent.size, np.float32)
        try:
            mvcs_native.quantize_groups(
                sent, count, self.bits, self.stochastic, seed & 0xFFFFFFFF, scales, packed, restored
            )
        except ValueError as error:
            group, place = np.argwhere(~np.isfinite(values))[0]
            raise UsageError(f"value {place} of group {group} is {values[group, place]}") from error
        if self.entropy:
            payload = self._smaller(payload, groups, width)
        return payload.tobytes(), _spread(restored, marks, (groups, width))

    def decode(self, payload: bytes | bytearray | memoryview, groups: int, width: int) -> Floats:
        """Restore the values [groups, width] that a payload stands for, float32.

        Raises:
            CorruptionError: no quantizer of these settings wrote it for so many values.
        """
        whole("groups", groups, "give their number", least=0)
        whole("width", width, "give the values of a group", least=0)
        data = np.frombuffer(payload, np.uint8)
        if self.entropy and data.size < self.size(groups, width):
            data = self._expanded(data, groups, width)
        if data.size != self.size(groups, width):
            raise CorruptionError(
                f"{data.size} bytes are no {groups} groups of {width} values in {self.bits} bits"
            )
        scales, flags, packed = self._split(data, groups, width)
        marks = None
        if (sent := self._shape(width)[0]) < width:
            marks = np.unpackbits(flags, axis=1, bitorder="little").view(np.bool_)
            if marks[:, width:].any() or (marks.sum(axis=1) != sent).any():
                raise CorruptionError("a group marks another number of values than were sent")
            marks = marks[:, :width]
        values = mvcs_native.empty(groups * sent, np.float32)
        try:
            mvcs_native.restore_groups(scales, packed, sent, self.bits, values)
        except ValueError as error:
            raise CorruptionError(f"groups cannot be restored: {error}") from error
        return _spread(values, marks, (groups, width))

    def _shape(self, width: int) -> tuple[int, int, int]:
        """Return how many values of a group are sent, and the bytes of its marks and of its codes."""
        sent = max(min(width, 1), round(self.share * width))
        return sent, -(-width // 8) if sent < width else 0, -(-sent * self.bits // 8)

    def _split(self, data: Bytes, groups: int, width: int) -> tuple[NDArray[np.uint16], Bytes, Bytes]:
        """Return the scales, the marks [groups, bytes] and the packed codes of a payload."""
        flags = self._shape(width)[1]
        ends = 2 * groups, (2 + flags) * groups
        scales, marks, packed = data[: ends[0]], data[ends[0] : ends[1]], data[ends[1] :]
        return scales.view("<u2"), marks.reshape(groups, flags), packed

    def _parts(self, groups: int, width: int) -> list[tuple[slice, list[int]]]:
        """Return the runs of groups that are entropy-coded together, each with its members."""
        sent, flags, _ = self._shape(width)
        run = min(_PART_GROUPS, _PART_SYMBOLS // (2 + flags + sent))
        starts = range(0, groups, run) if run else ()
        runs = [slice(start, min(start + run, groups)) for start in starts]
        counts = [part.stop - part.start for part in runs]
        return [(p, [n, n, n * flags, *[sent] * n]) for p, n in zip(runs, counts, strict=True)]

    def _smaller(self, payload: Bytes, groups: int, width: int) -> Bytes:
        """Return the payload entropy-coded, or as it is where that is no larger."""
        scales, flags, packed = self._split(payload, groups, width)
        sent = self._shape(width)[0]
        codes = mvcs_native.empty(groups * sent, np.uint8).reshape(groups, sent)
        mvcs_native.unpack_groups(packed, groups, sent, self.bits, codes.reshape(-1).view(np.int8))
        coded = []
        for part, counts in self._parts(groups, width):
            halves = scales[part].view(np.uint8).reshape(-1, 2).T
            symbols = np.concatenate((halves, flags[part], codes[part]), axis=None)
            body = encode_codes(symbols, 1, counts)
            coded += [len(body).to_bytes(4, "little"), body]
        smaller = np.frombuffer(b"".join(coded), np.uint8)
        return smaller if 0 < smaller.size < payload.size else payload

    def _expanded(self, data: Bytes, groups: int, width: int) -> Bytes:
        """Return the payload that was entropy-coded."""
        expanded = np.empty(self.size(groups, width), np.uint8)
        scales, flags, packed = self._split(expanded, groups, width)
        sent, _, size = self._shape(width)
        for part, counts in self._parts(groups, width):
            end = 4 + int.from_bytes(data[:4].tobytes(), "little")
            if data.size < end:
                raise CorruptionError("entropy-coded codes are cut off")
            symbols, data = decode_codes(data[4:end], 1, counts), data[end:]
            count = part.stop - part.start
            halves, marks, codes = np.split(symbols, [2 * count, 2 * count + counts[2]])
            scales[part].view(np.uint8).reshape(-1, 2).T[:] = halves.reshape(2, -1)
            flags[part] = marks.reshape(count, -1)
            try:
                mvcs_native.pack_groups(
                    codes.view(np.int8), count, sent, self.bits, packed[part.start * size : part.stop * size]
                )
            except ValueError as error:
                raise CorruptionError(f"entropy-coded codes cannot be read: {error}") from error
        if data.size:
            raise CorruptionError("bytes follow entropy-coded codes")
        return expanded


def _spread(sent: Floats, marks: NDArray[np.bool_] | None, shape: tuple[int, int]) -> Floats:
    """Return what was sent where it was marked, and 0 elsewhere."""
    if marks is None:
        return sent.reshape(shape)
    values = np.zeros(shape, np.float32)
    values[marks] = sent
    return values
