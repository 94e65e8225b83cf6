"""Inshrinkerator as published: codes by layer type, and their cyclic differences by each of its three coders.

"Inshrinkerator" (SoCC 2024), sections 4 and 6, by `mvcs.inshrinkerator`; half of what is protected is so for
each metric as in "DynaQuant" (its preprint), section 4.2.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mvcs.bench.methods.method import (
    Floats,
    Method,
    Needs,
    Restored,
    Setting,
    Shapes,
    State,
    Tensors,
    before,
    joined,
    pack,
    shapes_of,
    split,
    unpack,
)
from mvcs.checkpoint import layer_type
from mvcs.inshrinkerator import (
    CODERS,
    EMBEDDING_AXES,
    METRICS,
    PublishedCodes,
    config_of,
    decode_delta,
    delta_size,
    encode_delta,
    layer_config,
    published_codes,
)
from mvcs.quantize import KMeansConfig, MomentsConfig

Codes = NDArray[np.uint8]


class Inshrinkerator(Method):
    """The whole pipeline; each payload by the coder that makes it smallest."""

    name = "inshrinkerator"
    version = 2
    package = "bitarray"
    paper = "Inshrinkerator (SoCC 2024), sections 4-6; DynaQuant (preprint), section 4.2"
    differs = (
        "one codebook a layer type; k-means++ draws the same random numbers at every checkpoint; distances"
        " are squared, as in A.3; nothing of embeddings is pruned; before the first checkpoint all codes are"
        " 0; algorithm 6 is read as (before - D) mod n"
    )
    axes: ClassVar = EMBEDDING_AXES
    metrics: ClassVar = METRICS
    needs: ClassVar = frozenset({"scores", "seed"})
    coders: ClassVar[Sequence[str]] = CODERS

    def code(self, tensors: Tensors, state: State | None, setting: Setting, needs: Needs) -> Sequence[bytes]:
        """Return the coder, then for each layer type its table, its protected weights and its differences.

        Where a tensor of a layer type has no scores, magnitudes count for all of that type.
        """
        seed = needs.get("seed", 0)
        config = replace(config_of(setting, METRICS[-1], MomentsConfig()), init="++", seed=seed)
        types = types_of(shapes_of(tensors), state)
        found = [_coded(names, tensors, needs["scores"], config) for names, _, _ in types]
        deltas = [
            (own.codes, codes, max(own.levels, levels))
            for own, (_, codes, levels) in zip(found, types, strict=True)
        ]
        sizes = {coder: sum(delta_size(*delta, coder) for delta in deltas) for coder in self.coders}
        coder = min(sizes, key=lambda coder: sizes[coder])
        return [
            coder.encode(),
            *(
                pack([own.table.astype("<f4").tobytes(), own.protected, *encode_delta(*delta, coder)])
                for own, delta in zip(found, deltas, strict=True)
            ),
        ]

    def restore(self, sections: Sequence[bytes], shapes: Shapes, state: State | None) -> Restored:
        """Return the values of codes, the protected weights, and zeros."""
        coder, *rest = sections
        codes, restored, levels = dict[str, Codes](), dict[str, Floats](), dict[str, int]()
        for (names, had, of), section in zip(types_of(shapes, state), rest, strict=True):
            table, protected, *delta = unpack(section)
            found = PublishedCodes(had, np.frombuffer(table, "<f4"), protected)
            own = decode_delta(delta, had, max(found.levels, of), coder.decode())
            found = replace(found, codes=own)
            kind = {name: shapes[name] for name in names}
            codes |= split(own, kind)
            restored |= split(found.restored(), kind)
            levels |= dict.fromkeys(names, found.levels)
        return {name: restored[name] for name in shapes}, {"codes": codes, "levels": levels}


class HE(Inshrinkerator):
    """A Huffman code of the differences."""

    name = "inshrinkerator-he"
    coders: ClassVar = ("he",)


class RLE(Inshrinkerator):
    """A Huffman code of their run lengths."""

    name = "inshrinkerator-rle"
    coders: ClassVar = ("rle",)


class PE(Inshrinkerator):
    """A Huffman code of their run lengths for each code before."""

    name = "inshrinkerator-pe"
    coders: ClassVar = ("pe",)


def types_of(shapes: Shapes, state: State | None) -> list[tuple[list[str], Codes, int]]:
    """Return the names of each layer type, the codes before, 0 where there were none, and their levels."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for name, shape in shapes.items():
        kinds[layer_type((name,), shape)].append(name)
    had = {name: one for name, one in before(state, "codes", shapes) if one is not None}
    levels = {} if state is None else state.known["levels"]
    found = []
    for names in kinds.values():
        codes = [had.get(name, np.zeros(shapes[name], np.uint8)).ravel() for name in names]
        of = max((levels[name] for name in names if name in had), default=0)
        found.append((names, np.concatenate(codes), of))
    return found


def _coded(
    names: Sequence[str], tensors: Tensors, scores: Mapping[str, Floats], config: KMeansConfig
) -> PublishedCodes:
    """Quantize the tensors of one layer type."""
    scored = joined({name: scores[name] for name in names}) if scores.keys() >= set(names) else None
    own = layer_config(config, (names[0],), tensors[names[0]].shape)
    return published_codes(joined({name: tensors[name] for name in names}), scored, own)
