"""The quantized tensors of the parent, and their codes, as far as they can be read."""

from dataclasses import dataclass

import numpy as np

from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects import Lattice, Leaf, LogLattice, QuantizedTensor, RootLattice
from mvcs.quantize import Codes, Coding, LogGrid, Restorer
from mvcs.store import ObjectStore


@dataclass(frozen=True)
class ParentCodes:
    """What the parent's leaves are restored from. What cannot be read counts as not there: no method raises.

    Attributes:
        store: where it lies.
    """

    store: ObjectStore

    def tensor(self, base: Leaf | None) -> QuantizedTensor | None:
        """Return the quantized tensor of a leaf; None where there is none."""
        tensor = None if base is None else base.tensor
        return tensor if isinstance(tensor, QuantizedTensor) else None

    def step(self, base: Leaf | None) -> int | None:
        """Return the step byte of a leaf; None where it is not on a lattice."""
        old = self.tensor(base)
        return old.parameters.step if old is not None and isinstance(old.parameters, Lattice) else None

    def comparable(self, base: Leaf | None, coding: Coding) -> QuantizedTensor | None:
        """Return the tensor where its codes are a base for a coding's: the same rule on a similar scale."""
        old, form = self.tensor(base), coding.parameters
        if old is None or not old.codes or isinstance(form, RootLattice):
            return None
        return old if type(old.parameters) is type(form) else None

    def codes(self, old: QuantizedTensor, index: int) -> Codes | None:
        """Return the codes of a chunk of a lattice's tensor; None where they cannot be read."""
        try:
            codes = np.frombuffer(self.store.codes(old.codes[index]), "<i2")
        except (CorruptionError, NotFoundError):
            return None
        return codes if codes.size == old.chunk_elements(index) else None

    def all_codes(self, old: QuantizedTensor) -> bytes | None:
        """Return the codes of a whole tensor, chunk behind chunk; None where they cannot be read."""
        try:
            return b"".join(bytes(self.store.codes(identifier)) for identifier in old.codes)
        except (CorruptionError, NotFoundError):
            return None

    def log_grid(self, base: Leaf | None, scale: int) -> tuple[LogLattice, LogGrid] | None:
        """Return the form and the offsets of a leaf on a log lattice of that scale; None for any other."""
        old = self.tensor(base)
        if old is None or not isinstance(old.parameters, LogLattice) or old.parameters.scale != scale:
            return None
        try:
            restorer: Restorer = self.store.restorer
            return old.parameters, restorer.log_grid(old)
        except (CorruptionError, NotFoundError):
            return None
