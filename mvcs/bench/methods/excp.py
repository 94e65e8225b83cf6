"""ExCP: differences of weights and both moments of Adam, pruned together, then k-means centres and LZMA.

"ExCP: Extreme LLM Checkpoint Compression via Weight-Momentum Joint Shrinking" (ICML 2024), section 3, and
its published code (compress_pythia.py). With w, m and v a tensor's weights, first and second moment, and d
what w moved from the restored weights before:

- d stays where |d| > min(2.5, A / sqrt(mean(v))) * median|d|;
- m and v stay where |m| > B * mean|m| and d stays;
- what stays of each goes to 2^bits - 1 centres by k-means, in float16, where second moments below 3e-8 are 0;
- code 0 is what was pruned; codes of 4 bits lie two in a byte, in LZMA.

A tensor whose d is 0 everywhere, as a constant one is, keeps nothing but its old weights.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mvcs.bench.methods.coding import compressed, decompressed
from mvcs.bench.methods.method import (
    Floats,
    Method,
    Needs,
    NotApplicableError,
    Restored,
    Setting,
    Shapes,
    State,
    Tensors,
    before,
    floats_of,
    joined,
    narrowed,
    read_shapes,
    shapes_of,
    unpack,
    write_shapes,
)

KINDS = ("exp_avg", "exp_avg_sq")
_A, _B = 5e-5, 2.0
_MOST_MEDIANS = 2.5
_ROUNDS = 25  # of the library that the published code calls, faiss
_LARGEST = float(np.finfo(np.float16).max)
_BITS = (4, 8)
_RAW, _ALONE, _JOINT = range(3)
_OF_WEIGHTS = 7  # sections of a payload, those of `Method` in: what comes after them is for moments
Moments = Mapping[str, Tensors]


class ExCP(Method):
    """Weights as pruned differences, moments pruned where they are; Adam's moments alone."""

    name = "excp"
    paper = "ExCP (ICML 2024), section 3, and its published code"
    differs = (
        "tensors that the checkpoint before does not have are raw with their moments, so the first checkpoint"
        " is; where a tensor has no finite moments, its v counts as 0; k-means begins with equally full parts"
        " and sees all values, not with random ones of a sample; centres beyond float16 are its largest"
        " number; where at most 2^bits - 1 values stay, they are centres and not float32"
    )
    axes: ClassVar = {"A": (2 * _A, _A, 0.5 * _A, 0.2 * _A), "B": (3, 2, 1), "bits": _BITS}
    fixed: ClassVar = {"published": {"A": _A, "B": _B, "bits": 4}}
    needs: ClassVar = frozenset({"moments"})
    restores: ClassVar = frozenset(KINDS)

    def code(self, tensors: Tensors, state: State | None, setting: Setting, needs: Needs) -> Sequence[bytes]:
        """Return forms, raw weights, and centres and codes of d; then the moments, exact ones first.

        Raises:
            NotApplicableError: there are no moments of Adam, and this is not the first checkpoint.
        """
        exact = {kind: dict(needs.get("moments", {}).get(kind, {})) for kind in KINDS}
        if state is not None and not all(exact.values()):
            raise NotApplicableError(
                f"excp needs Adam's moments {' and '.join(KINDS)}, and this checkpoint has none"
            )
        bits = int(setting["bits"])
        forms, raw = [], dict[str, Floats]()
        pruned, pruned_moments = list[Floats](), list[Floats]()
        for name, base in before(state, "restored", shapes_of(tensors)):
            if base is None:
                forms.append(_RAW)
                raw[name] = tensors[name]
                continue
            pair = [exact[kind][name] for kind in KINDS if _usable(exact[kind].get(name), base.shape)]
            joint = len(pair) == len(KINDS)
            forms.append(_JOINT if joint else _ALONE)
            moved = narrowed(tensors[name] - base.astype(np.float64))
            moved[np.abs(moved) <= _threshold(moved, pair[1] if joint else None, float(setting["A"]))] = 0
            pruned.append(moved)
            if joint:
                size = np.abs(pair[0])
                stays = (moved != 0) & (size > float(setting["B"]) * size.mean(dtype=np.float64))
                pruned_moments += [np.where(stays, exact[kind].pop(name), np.float32(0)) for kind in KINDS]
        sections = [bytes([bits, *forms]), _bytes(raw), *_coded(pruned, bits)]
        for kept in exact.values():
            sections += [write_shapes({name: one.shape for name, one in kept.items()}), _bytes(kept)]
        return [*sections, *_coded(pruned_moments, bits)]

    def restore(self, sections: Sequence[bytes], shapes: Shapes, state: State | None) -> Restored:
        """Return the sums of the weights before and of the centres of d; the moments are in what is known."""
        (bits, *forms), raw, table, packed, *kept, moments_table, moments_packed = sections
        if bits not in _BITS or len(forms) != len(shapes) or len(kept) != 2 * len(KINDS):
            raise ValueError("its forms are not those of these tensors")
        form_of = dict(zip(shapes, forms, strict=True))
        bases = dict(before(state, "restored", shapes))
        fresh = {name: shape for name, shape in shapes.items() if form_of[name] == _RAW}
        moved = {name: shape for name, shape in shapes.items() if name not in fresh}
        joint = [name for name in moved if form_of[name] == _JOINT]
        found = floats_of(raw, fresh)
        for name, part in zip(moved, _uncoded(table, packed, bits, moved.values()), strict=True):
            if (base := bases[name]) is None:
                raise ValueError(f"'{name}' has no weights before")
            found[name] = narrowed(base + part.astype(np.float64))
        moments = dict[str, dict[str, Floats]]()
        for kind, layout, values in zip(KINDS, kept[::2], kept[1::2], strict=True):
            moments[kind] = floats_of(values, read_shapes(layout))
        wanted = [moved[name] for name in joint for _ in KINDS]
        parts = iter(_uncoded(moments_table, moments_packed, bits, wanted))
        for name in joint:
            for kind in KINDS:
                moments[kind][name] = next(parts)
        return found, {"restored": found, "moments": moments}

    def weight_bytes(self, payload: bytes) -> int:
        """Return how many bytes of a payload are not for moments."""
        return len(payload) - sum(map(len, unpack(payload)[_OF_WEIGHTS:]))


def _usable(moment: Floats | None, shape: tuple[int, ...]) -> bool:
    return moment is not None and moment.shape == shape and bool(np.isfinite(moment).all())


def _threshold(moved: Floats, second: Floats | None, share: float) -> float:
    """Return the largest |d| that is pruned."""
    mean = 0.0 if second is None else float(second.mean(dtype=np.float64))
    medians = min(_MOST_MEDIANS, share / mean**0.5) if mean > 0 else _MOST_MEDIANS
    return medians * float(np.median(np.abs(moved))) if moved.size else 0.0


def _centres(kept: Floats, most: int) -> NDArray[np.float64]:
    """Return at most so many centres of values, ascending: of all rounds, or until none moves."""
    values = np.sort(kept)
    if values.size <= most:
        return values.astype(np.float64)
    sums = np.r_[0.0, np.cumsum(values, dtype=np.float64)]
    ends = np.linspace(0, values.size, most + 1).astype(np.int64)
    centres = np.zeros(most)
    for _ in range(_ROUNDS + 1):
        counts = np.diff(ends)
        means = np.where(counts > 0, np.diff(sums[ends]) / np.maximum(counts, 1), centres)
        if np.array_equal(means, centres):
            break
        centres = means
        middles = (centres[1:] + centres[:-1]) / 2
        ends = np.r_[0, np.searchsorted(values, middles.astype(np.float32)), values.size]
    return centres


def _coded(pruned: Sequence[Floats], bits: int) -> tuple[bytes, bytes]:
    """Return the centres of each array in float16, and LZMA of all codes: 0 where a value is 0."""
    most = 2**bits - 1
    tables = np.zeros((len(pruned), most), "<f2")
    codes = []
    for table, values in zip(tables, pruned, strict=True):
        flat = values.ravel()
        places = np.flatnonzero(flat)
        kept = flat[places]
        centres = _centres(kept, most)
        middles = ((centres[1:] + centres[:-1]) / 2).astype(np.float32)
        own = np.zeros(flat.size, np.uint8)
        own[places] = np.searchsorted(middles, kept, side="right") + 1
        table[: centres.size] = centres.clip(-_LARGEST, _LARGEST)
        codes.append(own)
    together = np.concatenate([*codes, np.zeros(0, np.uint8)])
    if bits == 4:
        together = np.r_[together, np.zeros(together.size % 2, np.uint8)]
        together = together[::2] << 4 | together[1::2]
    return tables.tobytes(), compressed(together.tobytes())


def _uncoded(table: bytes, packed: bytes, bits: int, shapes: Collection[tuple[int, ...]]) -> list[Floats]:
    """Return the arrays of `_coded`, each value its centre."""
    sizes = [prod(shape) for shape in shapes]
    codes = np.frombuffer(decompressed(packed, -(-sum(sizes) * bits // 8)), np.uint8)
    if bits == 4:
        codes = np.stack([codes >> 4, codes & 15], axis=1).ravel()[: sum(sizes)]
    tables = np.frombuffer(table, "<f2").reshape(len(sizes), 2**bits - 1).astype(np.float32)
    if not np.isfinite(tables).all():
        raise ValueError("a centre is no number")
    starts = accumulate(sizes, initial=0)
    return [
        np.r_[np.float32(0), centres][codes[start : start + size]].reshape(shape)
        for centres, start, size, shape in zip(tables, starts, sizes, shapes, strict=False)
    ]


def _bytes(tensors: Tensors) -> bytes:
    return joined(tensors).astype("<f4").tobytes()
