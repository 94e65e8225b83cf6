"""What the native kernels are timed on."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import mvcs_native

CHUNK = 1 << 22
LEVELS = 16
MIGRATION = 0.085


@dataclass(frozen=True)
class Data:
    """What kernels work on: normal values, codes of 16 levels, and base codes of which 8.5 % differ."""

    values: np.ndarray
    codes: np.ndarray
    base: np.ndarray

    @classmethod
    def of(cls, count: int) -> "Data":
        """Make so many values; the codes cut the values at 15 equal steps."""
        generator = np.random.default_rng(0)
        values = generator.standard_normal(count, np.float32)
        codes = np.clip(np.rint(values * 2.5 + 8), 0, LEVELS - 1).astype(np.uint8)
        moved = generator.random(count, np.float32) < MIGRATION
        base = np.clip(codes + moved * generator.choice(np.array([-1, 1]), count), 0, LEVELS - 1)
        return cls(values, codes, base.astype(np.uint8))

    def chunks(self, array: np.ndarray) -> list[np.ndarray]:
        """Cut an array of as many elements as there are values."""
        return [array[start : start + CHUNK] for start in range(0, array.size, CHUNK)]

    def chunks_of_bytes(self, array: np.ndarray) -> list[np.ndarray]:
        """Cut an array, each chunk as its bytes."""
        return [part.view(np.uint8) for part in self.chunks(array)]

    @cached_property
    def beside(self) -> np.ndarray:
        """Values about one percent away, as one checkpoint is from the next."""
        noise = np.random.default_rng(2).standard_normal(self.values.size, np.float32) * np.float32(0.01)
        return self.values + noise

    @cached_property
    def squares(self) -> np.ndarray:
        """Positive values, as second moments are."""
        return np.square(self.values)

    @cached_property
    def lattice_base(self) -> np.ndarray:
        """Codes on a lattice of half the values' root mean square, from before."""
        return np.rint(self.before * 2).astype(np.int16)

    @cached_property
    def before(self) -> np.ndarray:
        """The values before they moved a little."""
        return self.values + np.random.default_rng(1).standard_normal(self.values.size, np.float32) / 20

    @cached_property
    def moved(self) -> np.ndarray:
        """Those codes, of which 8.5 % moved by one."""
        generator = np.random.default_rng(3)
        moves = (generator.random(self.values.size, np.float32) < MIGRATION) * (2 * (self.values > 0) - 1)
        return (self.lattice_base + moves).astype(np.int16)

    @cached_property
    def signs(self) -> np.ndarray:
        """Which values are positive, as codes of two letters."""
        return (self.values > 0).astype(np.uint8)

    @cached_property
    def old_signs(self) -> np.ndarray:
        """Those codes from before an eighth of them changed."""
        return self.signs ^ (np.random.default_rng(4).random(self.values.size, np.float32) < 1 / 8)

    @cached_property
    def alone(self) -> list[np.ndarray]:
        """Payloads of the codes alone."""
        found = (mvcs_native.encode_codes(part, LEVELS) for part in self.chunks(self.codes))
        return [np.frombuffer(payload, np.uint8) for payload in found]

    @cached_property
    def near(self) -> list[np.ndarray]:
        """Payloads of the codes near the base."""
        pairs = zip(self.chunks(self.codes), self.chunks(self.base), strict=True)
        found = (mvcs_native.encode_delta(part, old, LEVELS) for part, old in pairs)
        return [np.frombuffer(payload, np.uint8) for payload in found]
