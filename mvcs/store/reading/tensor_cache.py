"""Decoded tensors in memory: what a commit asks of its parent's tensor it asks several times."""

from collections.abc import Callable
from threading import Lock

from mvcs.memory import Budget, Use
from mvcs.objects import ExactTensor, ObjectId, QuantizedTensor

Tensor = ExactTensor | QuantizedTensor

MOST = 1 << 15  # tensors: those of two commits
TENSOR_BYTES = 2048  # of one in memory, at most
_CHUNKS = 4  # of a tensor that takes no more than that


class TensorCache:
    """Tensors by id, those that were asked for since the commit before last. Threads may share it."""

    def __init__(self, memory: Budget) -> None:
        """Hold what the budget has for caches, and `MOST` tensors at most."""
        self._hold = memory.hold(Use.CACHES)
        self._tensors: dict[ObjectId, Tensor] = {}
        self._before: dict[ObjectId, Tensor] = {}
        self._lock = Lock()

    def get(self, identifier: ObjectId, read: Callable[[], Tensor]) -> Tensor:
        """Return a tensor: the one that is held, or what `read` gives, which is held then."""
        found = self._tensors.get(identifier)
        if found is None:
            found = self._before.get(identifier) or read()
            self._add(identifier, found)
        return found

    def _add(self, identifier: ObjectId, tensor: Tensor) -> None:
        if _chunks(tensor) > _CHUNKS:
            return
        with self._lock:
            self._before.pop(identifier, None)
            more = 0 if identifier in self._tensors else 1
            if not self._fits(more):
                self._tensors, self._before = {}, {}
                self._fits(0)
            if self._fits(more):
                self._tensors[identifier] = tensor

    def age(self) -> None:
        """Let go of what nobody asked for since this was called last."""
        with self._lock:
            self._tensors, self._before = {}, self._tensors
            self._fits(0)

    def clear(self) -> None:
        """Let go of everything."""
        self.age()
        self.age()

    def _fits(self, more: int) -> bool:
        """Tell whether there is room for more tensors; it is held then."""
        count = len(self._tensors) + len(self._before) + more
        return count <= MOST and self._hold.resize(TENSOR_BYTES * count)


def _chunks(tensor: Tensor) -> int:
    return len(tensor.chunks if isinstance(tensor, ExactTensor) else tensor.codes)
