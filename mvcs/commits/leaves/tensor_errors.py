"""How far off each tensor of a bounded commit is: sums by class, the worst, and what the limit asked for."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from mvcs.config import MAX_TENSOR_ERROR
from mvcs.objects import Absent, Form, Lattice, LogLattice, Path, RootLattice
from mvcs.quantize import ErrorSums

LIMIT_CLASS, WORST_CLASS, WORST_MOMENT_CLASS = "tensor limit", "worst tensor", "worst moment"

NAMED_CLASSES = frozenset({WORST_CLASS, WORST_MOMENT_CLASS})
FIRST_MOMENT, SECOND_MOMENT = "first moment", "second moment"

GRID_REASON = "steps finer than the grid of 16 bits take more than exact values"  # in notes

_MOMENTS = frozenset({FIRST_MOMENT, SECOND_MOMENT})
_FOR_MOMENTS = 2.0  # of the limit: of moments resuming needs no more than the sign and the size
_LARGEST = 65504.0  # what eleven bits reach
_NEARLY_ZEROS = 0.95  # of a tensor of which next to nothing is left
_CALM = 0.75  # of the limit, for a tensor that was refined to be so no longer

Pairs = tuple[tuple[str, float], ...]


@dataclass
class TensorErrors:
    """What was measured of one commit's tensors. Safe to use from several threads.

    Attributes:
        most: the largest error of a tensor, over the root mean square of its values.
        pruned: the share of the squares of weights that becomes zero on purpose.
        sums: what was measured, tensor by tensor, by class.
        worst: the largest error by class and the tensor that has it; what is left out on purpose not counted.
        refined: tensors that got a finer coding, since they would have been off by more.
        exact: tensors that are kept exactly, since no coding was fine enough.
        on_grid: tensors that are kept exactly, since their codes would take more.
    """

    most: float = MAX_TENSOR_ERROR
    pruned: float = 0.0
    sums: dict[str, list[ErrorSums]] = field(default_factory=lambda: defaultdict(list))
    worst: dict[str, tuple[float, str]] = field(default_factory=dict)
    refined: list[str] = field(default_factory=list)
    exact: list[str] = field(default_factory=list)
    on_grid: list[str] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def excess(self, sums: ErrorSums, form: bytes | Form, refined: int | None, kind: str = "") -> float:
        """Return how far off a tensor is, over what it may be: above 1 it cannot stay so.

        Args:
            sums: its errors.
            form: how it is restored; what is left out on purpose may be.
            refined: the step byte that it had in the parent, if that was finer than its type's. So that it
                does not go to and fro, it has to be well within on a coarser one.
            kind: the class that its errors count for.
        """
        if isinstance(form, Absent):
            return 0.0
        is_coarser = refined is not None and isinstance(form, Lattice) and form.step > refined
        return sums.relative / (self._most(form, kind) * (_CALM if is_coarser else 1.0))

    def _most(self, form: bytes | Form, kind: str) -> float:
        """Return the limit of a form; what is a moment may be in any, such as a momentum on a lattice."""
        if kind in _MOMENTS or isinstance(form, LogLattice | RootLattice):
            return self.most_of_moments
        pruned = self.pruned if isinstance(form, bytes) else 0.0
        return max(min(math.sqrt(self.most**2 + pruned), _NEARLY_ZEROS), self.most)

    @property
    def most_of_moments(self) -> float:
        """The limit for moments."""
        return max(min(_FOR_MOMENTS * self.most, _NEARLY_ZEROS), self.most)

    def add(self, kind: str, path: Path, sums: ErrorSums, *, left_out: bool = False) -> None:
        """Take down a tensor as it is stored."""
        with self._lock:
            self.sums[kind].append(sums)
            if not left_out:
                found = sums.relative, dotted(path)
                self.worst[kind] = min(self.worst.get(kind, found), found, key=_order)

    def note(self, tensors: list[str], path: Path) -> None:
        """Take down a tensor that is kept otherwise than asked for, in one of the lists of such."""
        with self._lock:
            tensors.append(dotted(path))

    def to_fields(self) -> Iterator[tuple[str, Pairs]]:
        """Yield what the commit records beside the sums."""
        if self.refined or self.exact:
            counts = {"most": self.most, "refined": float(len(self.refined)), "exact": float(len(self.exact))}
            yield LIMIT_CLASS, tuple(counts.items())
        for name, of_moments in ((WORST_CLASS, False), (WORST_MOMENT_CLASS, True)):
            found = [one for kind, one in self.worst.items() if (kind in _MOMENTS) == of_moments]
            if found:
                relative, path = min(found, key=_order)
                # Eleven bits: the manifests of up to 20 later commits repeat it.
                yield name, ((path, float(np.float16(min(relative, _LARGEST)))),)

    def said(self, *, evaluated: bool) -> tuple[str, ...]:
        """Tell what is kept otherwise than asked for; what an evaluation has accepted is no news."""
        on_grid = (f"{_kept_exact(self.on_grid)}: {GRID_REASON}",) if self.on_grid else ()
        return *self._limited(evaluated=evaluated), *on_grid

    def _limited(self, *, evaluated: bool) -> tuple[str, ...]:
        told = []
        if self.refined and not evaluated:
            told.append(f"{_named(self.refined)} got a finer coding than asked for")
        if self.exact:
            told.append(_kept_exact(self.exact))
        limit = f"no tensor may be off by more than {self.most:g} of its root mean square, and no moment by"
        return (f"{' and '.join(told)}: {limit} more than {self.most_of_moments:g}",) if told else ()


def dotted(path: Path) -> str:
    """Return a path as people read it."""
    return ".".join(map(str, path))


def _order(found: tuple[float, str]) -> tuple[float, str]:
    """Sort by error, the largest first; of equal ones by name, so that threads do not decide."""
    return -found[0], found[1]


def _kept_exact(paths: list[str]) -> str:
    return f"{_named(paths)} {'is' if len(paths) == 1 else 'are'} kept exact"


def _named(paths: list[str]) -> str:
    """Return how many tensors there are, and the first of them by name."""
    first = f"'{min(paths)}'"
    return f"tensor {first}" if len(paths) == 1 else f"{len(paths)} tensors, such as {first},"
