"""Groups of values to codes of a few bits and a scale, packed (docs/format/channels.md).

The uniform quantizer of AQ-SGD (Wang et al. 2022, arXiv:2206.01299), section 4.1,
as its published code has it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mvcs.delta import decode_codes, encode_codes
from mvcs.errors import CorruptionError, UsageError, whole

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 16)
LEAST_SCALE = 0x0D80
"""2^-100 as bfloat16: nothing that is computed with a scale from here on is subnormal."""
_LARGEST_SCALE = 0x7F7F
_PART_GROUPS, _PART_SYMBOLS = 4093, 1 << 22  # of one run of the entropy coder


@dataclass(frozen=True)
class Quantizer:
    """Codes of `bits` bits for groups of values.

    Args:
        bits: 1 to 8, or 16. One bit is the sign, whose scale is the mean magnitude.
        stochastic: round up or down at random, so that the expectation is the value. Not with one bit.
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
        if self.bits not in WIDTHS:
            raise UsageError(f"codes cannot have {self.bits!r} bits", hint="use 1 to 8 bits, or 16")
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
        values = _checked(values)
        groups, width = values.shape
        marks = self._marks(values)
        sent = values if marks is None else values[marks].reshape(groups, self._shape(width)[0])
        scales, codes = _quantize(sent, self.bits, seed if self.stochastic else None)
        flags = b"" if marks is None else np.packbits(marks, axis=1, bitorder="little").tobytes()
        payload = scales.tobytes() + flags + _pack(codes, self.bits).tobytes()
        if self.entropy:
            payload = self._smaller(payload, groups, width)
        return payload, _spread(_restore(scales, codes, self.bits), marks)

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
        sent = self._shape(width)[0]
        if (scales > _LARGEST_SCALE).any() or ((scales != 0) & (scales < LEAST_SCALE)).any():
            raise CorruptionError("a scale is none that a quantizer writes")
        marks = None
        if sent < width:
            marks = np.unpackbits(flags, axis=1, bitorder="little").view(np.bool_)
            if marks[:, width:].any() or (marks.sum(axis=1) != sent).any():
                raise CorruptionError("a group marks another number of values than were sent")
            marks = marks[:, :width]
        codes = _unpack(packed, sent, self.bits)
        return _spread(_restore(scales, codes, self.bits), marks)

    def _shape(self, width: int) -> tuple[int, int, int]:
        """Return how many values of a group are sent, and the bytes of its marks and of its codes."""
        sent = max(min(width, 1), round(self.share * width))
        return sent, -(-width // 8) if sent < width else 0, -(-sent * self.bits // 8)

    def _marks(self, values: Floats) -> NDArray[np.bool_] | None:
        """Mark the largest magnitudes of each group; of equal ones the first."""
        groups, width = values.shape
        if (sent := self._shape(width)[0]) == width:
            return None
        order = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :sent]
        marks = np.zeros((groups, width), np.bool_)
        np.put_along_axis(marks, order, values=True, axis=1)
        return marks

    def _split(self, data: Bytes, groups: int, width: int) -> tuple[NDArray[np.uint16], Bytes, Bytes]:
        """Return the scales, the flags and the packed codes of a payload, each by group."""
        _, flags, codes = self._shape(width)
        ends = 2 * groups, (2 + flags) * groups
        scales, marks, packed = data[: ends[0]], data[ends[0] : ends[1]], data[ends[1] :]
        return scales.view("<u2"), marks.reshape(groups, flags), packed.reshape(groups, codes)

    def _parts(self, groups: int, width: int) -> list[tuple[slice, list[int]]]:
        """Return the runs of groups that are entropy-coded together, each with its members."""
        sent, flags, _ = self._shape(width)
        run = min(_PART_GROUPS, _PART_SYMBOLS // (2 + flags + sent))
        starts = range(0, groups, run) if run else ()
        runs = [slice(start, min(start + run, groups)) for start in starts]
        counts = [part.stop - part.start for part in runs]
        return [(p, [n, n, n * flags, *[sent] * n]) for p, n in zip(runs, counts, strict=True)]

    def _smaller(self, payload: bytes, groups: int, width: int) -> bytes:
        """Return the payload entropy-coded, or as it is where that is no larger."""
        scales, flags, packed = self._split(np.frombuffer(payload, np.uint8), groups, width)
        codes = _unpack(packed, self._shape(width)[0], self.bits).astype(np.uint8)
        coded = []
        for part, counts in self._parts(groups, width):
            halves = scales[part].view(np.uint8).reshape(-1, 2).T
            symbols = np.concatenate((halves, flags[part], codes[part]), axis=None)
            body = encode_codes(symbols, 1, counts)
            coded += [len(body).to_bytes(4, "little"), body]
        return min(payload, b"".join(coded) or payload, key=len)

    def _expanded(self, data: Bytes, groups: int, width: int) -> Bytes:
        """Return the payload that was entropy-coded."""
        scales, flags, packed = [], [], []
        for part, counts in self._parts(groups, width):
            end = 4 + int.from_bytes(data[:4].tobytes(), "little")
            if data.size < end:
                raise CorruptionError("entropy-coded codes are cut off")
            symbols, data = decode_codes(data[4:end], 1, counts), data[end:]
            count = part.stop - part.start
            scales.append(symbols[: 2 * count].reshape(2, -1).T)
            flags.append(symbols[2 * count : 2 * count + counts[2]])
            codes = symbols[2 * count + counts[2] :].reshape(count, -1).view(np.int8)
            if not np.isin(codes >> (self.bits - 1), (0, -1)).all():
                raise CorruptionError(f"a code has more than {self.bits} bits")
            packed.append(_pack(codes.astype(np.int16), self.bits))
        if data.size:
            raise CorruptionError("bytes follow entropy-coded codes")
        return np.concatenate([part.reshape(-1) for part in scales + flags + packed] or [data])


def _checked(values: Floats) -> Floats:
    if values.ndim != 2 or values.dtype != np.float32:
        raise UsageError("values have to be float32 [groups, width]")
    if not np.isfinite(values).all():
        group, place = np.argwhere(~np.isfinite(values))[0]
        raise UsageError(f"value {place} of group {group} is {values[group, place]}")
    return np.ascontiguousarray(values)


def _rounded_up(magnitudes: Floats) -> NDArray[np.uint16]:
    """Return magnitudes as bfloat16 that are not less, or the largest; 0 below 2^-100."""
    upper = np.minimum((magnitudes.view(np.uint32) + np.uint32(0xFFFF)) >> 16, _LARGEST_SCALE)
    return np.where(upper < LEAST_SCALE, 0, upper).astype("<u2")


def _steps(scales: NDArray[np.uint16], bits: int) -> Floats:
    """Return what a code of 1 stands for in each group, float32 [groups, 1]: exact."""
    wide = (scales.astype(np.uint32) << 16).view(np.float32)
    return (wide * np.float32(math.ldexp(1, 1 - bits)))[:, np.newaxis]


def _quantize(values: Floats, bits: int, seed: int | None) -> tuple[NDArray[np.uint16], NDArray[np.int16]]:
    """Return a scale for each group, and codes [groups, width]."""
    scales = _rounded_up(np.abs(values).max(axis=1, initial=0))
    if bits == 1:
        scales = _mean_scales(values, scales)
        return scales, np.where((values < 0) & (scales > 0)[:, np.newaxis], np.int16(-1), np.int16(0))
    steps = _steps(scales, bits)
    ratios = np.divide(values, steps, out=np.zeros_like(values), where=steps > 0)
    rounded = np.rint(ratios) if seed is None else np.floor(ratios + _uniform(values.shape, seed))
    half = 1 << (bits - 1)
    codes = np.clip(rounded, -half, half - 1).astype(np.int16)
    return scales, np.where(steps > 0, codes, np.int16(0))


def _mean_scales(values: Floats, scales: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Return the mean magnitudes, each taken to 2^-15 of the largest: sums of integers have no order."""
    steps = _steps(scales, 16)
    units = np.divide(np.abs(values), steps, out=np.zeros_like(values), where=steps > 0)
    sums = np.rint(units).astype(np.int64).sum(axis=1)
    means = steps[:, 0].astype(np.float64) * sums / max(values.shape[1], 1)
    return _rounded_up(means.astype(np.float32))


def _restore(scales: NDArray[np.uint16], codes: NDArray[np.int16], bits: int) -> Floats:
    """Return codes times their group's step, exactly; a sign is plus or minus the scale."""
    factors = 2 * codes + 1 if bits == 1 else codes
    return factors.astype(np.float32) * _steps(scales, bits)


def _spread(sent: Floats, marks: NDArray[np.bool_] | None) -> Floats:
    """Return what was sent where it was marked, and 0 elsewhere."""
    if marks is None:
        return sent
    values = np.zeros(marks.shape, np.float32)
    values[marks] = sent.reshape(-1)
    return values


def _uniform(shape: tuple[int, int], seed: int) -> Floats:
    """Return numbers from 0 to below 1 in steps of 2^-24: a hash of their place and the seed."""
    places = np.arange(shape[0] * shape[1], dtype=np.uint32).reshape(shape)
    return (_mixed(places ^ _mixed(np.array([seed & 0xFFFFFFFF], np.uint32))) >> 8) * np.float32(2.0**-24)


def _mixed(numbers: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return a permutation of 32-bit numbers in which every bit depends on every bit."""
    numbers = (numbers ^ (numbers >> np.uint32(16))) * np.uint32(0x7FEB352D)
    numbers = (numbers ^ (numbers >> np.uint32(15))) * np.uint32(0x846CA68B)
    return numbers ^ (numbers >> np.uint32(16))


def _pack(codes: NDArray[np.int16], bits: int) -> Bytes:
    """Return the codes of each group one after another in so many bits, low ones first."""
    groups, width = codes.shape
    each = np.unpackbits(codes.astype("<i2").view(np.uint8).reshape(-1, 2), axis=1, bitorder="little")
    return np.packbits(each[:, :bits].reshape(groups, width * bits), axis=1, bitorder="little")


def _unpack(packed: Bytes, width: int, bits: int) -> NDArray[np.int16]:
    """Return codes [groups, width], each in two's complement."""
    flags = np.unpackbits(packed, axis=1, bitorder="little")
    if flags[:, width * bits :].any():
        raise CorruptionError("bits behind the codes of a group are set")
    each = flags[:, : width * bits].reshape(-1, bits)
    wide = np.packbits(np.pad(each, ((0, 0), (0, 16 - bits))), axis=1, bitorder="little").view("<i2")
    sign = 1 << (bits - 1)
    return ((wide.astype(np.int32) ^ sign) - sign).astype(np.int16).reshape(len(packed), width)
