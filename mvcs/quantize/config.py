"""How a bounded commit is quantized, as given by hand."""

from collections.abc import Sequence
from dataclasses import dataclass

from mvcs.errors import CorruptionError, UnsupportedFormatError, UsageError

Field = str | int | float | None

MAX_BINS = 253  # a zero level and the mark of an exception still fit one byte


@dataclass(frozen=True)
class QuantizerConfig:
    """A quantizer's settings (Inshrinkerator, section 4).

    Attributes:
        bins: most values in a tensor's table, the zero of pruning not counted: 2 to 253.
        prune: share of the values of a layer type, smallest magnitudes first, that becomes zero.
        protect: share of the values of a layer type, largest magnitudes first, that is kept exactly.
        sigma: None weights a sketch bucket by its count; a number in [0, 1] by
            sigma * normalized count + (1 - sigma) * normalized magnitude.
        method: "kmeans" is the only one.
    """

    bins: int
    prune: float = 0.0
    protect: float = 0.0
    sigma: float | None = None
    method: str = "kmeans"

    def __post_init__(self) -> None:
        """Refuse settings that no quantizer can follow."""
        if self.method != "kmeans":
            raise UsageError(f"unknown quantization method '{self.method}'", hint="use kmeans")
        if type(self.bins) is not int or not 2 <= self.bins <= MAX_BINS:
            raise UsageError(f"bins cannot be {self.bins}", hint=f"use a whole number from 2 to {MAX_BINS}")
        if not 0 <= self.prune < 1:
            raise UsageError(
                f"prune cannot be {self.prune}", hint="use a share from 0 up to, not including, 1"
            )
        if not 0 <= self.protect < 0.5:
            raise UsageError(
                f"protect cannot be {self.protect}", hint="use a share from 0 up to, not including, 0.5"
            )
        if self.sigma is not None and not 0 <= self.sigma <= 1:
            raise UsageError(
                f"sigma cannot be {self.sigma}", hint="use a number from 0 to 1, or leave it out"
            )

    def to_fields(self) -> list[tuple[str, Field]]:
        """Return names and values in the order of format 1, for a commit."""
        shares = [("prune", float(self.prune)), ("protect", float(self.protect))]
        sigma = None if self.sigma is None else float(self.sigma)
        return [("method", self.method), ("bins", self.bins), *shares, ("sigma", sigma)]

    @classmethod
    def from_fields(cls, fields: Sequence[tuple[str, object]]) -> "QuantizerConfig":
        """Read what `to_fields` returned, from a commit that may be hostile.

        Raises:
            UnsupportedFormatError: the method or the fields are those of another version.
            CorruptionError: a value is of the wrong type or out of its range.
        """
        values = dict(fields)
        if [name for name, _ in fields] != list(_FIELDS) or values["method"] != "kmeans":
            raise UnsupportedFormatError("a commit was quantized in a way this version does not know")
        for name, types in _FIELDS.items():
            if type(values[name]) not in types:
                raise CorruptionError(f"a quantizer's {name} is {values[name]!r}")
        try:
            return cls(**values)  # type: ignore[arg-type]  # the types were just checked
        except UsageError as error:
            raise CorruptionError(f"a commit has impossible quantizer settings: {error.message}") from error


_FIELDS: dict[str, tuple[type, ...]] = {
    "method": (str,),
    "bins": (int,),
    "prune": (float,),
    "protect": (float,),
    "sigma": (float, type(None)),
}
