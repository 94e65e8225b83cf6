"""What this process was given of commits, and which commits it made: where its states may come from.

It stands beside the values, by the memory they lie in, so that no state gets a key of ours. It is of the
process and not of one open repository: a state may be restored through one and committed through another.
"""

import weakref
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np


@dataclass
class GivenStates:
    """What the process knows of one project.

    Attributes:
        exact: ids of commits whose whole state was given out as it had been handed over, and of those that
            were made behind them.
        lossy: how many states were given out that differ from that.
        made: ids of the commits that were made.
    """

    exact: set[bytes] = field(default_factory=set)
    lossy: int = 0
    made: set[bytes] = field(default_factory=set)


class HandedOut:
    """Tensors of value layers by where they lie, while they live, and what was given out by project."""

    def __init__(self) -> None:
        """Know of nothing."""
        self.projects: defaultdict[str, GivenStates] = defaultdict(GivenStates)
        self._marks: dict[int, tuple[weakref.ref[object], str]] = {}

    def mark(self, tensor: object, commit: str) -> None:
        """Remember that a tensor or array holds restored values, which differ from those handed over."""
        address = _address(tensor)
        if address is not None:
            self._marks[address] = (weakref.ref(tensor, lambda dead: self._forget(address, dead)), commit)

    def find(self, state: object) -> str | None:
        """Return the commit that something in a state was lossily restored from, changed since or not."""
        for tensor in _tensors(state):
            address = _address(tensor)
            mark = None if address is None else self._marks.get(address)
            if mark is not None and mark[0]() is not None:
                return mark[1]
        return None

    def _forget(self, address: int, dead: weakref.ref[object]) -> None:
        # By now another tensor may lie there.
        if address in self._marks and self._marks[address][0] is dead:
            del self._marks[address]


HANDED_OUT = HandedOut()


def _tensors(state: object) -> Iterator[object]:
    left = [state]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)
        elif hasattr(value, "data_ptr") or isinstance(value, np.ndarray):
            yield value


def _address(tensor: object) -> int | None:
    """Return where the elements of a tensor of torch or an array begin; None where there are none."""
    if isinstance(tensor, np.ndarray):
        return int(tensor.ctypes.data) if tensor.size else None
    return int(tensor.data_ptr()) or None  # type: ignore[attr-defined]  # torch is not imported for this
