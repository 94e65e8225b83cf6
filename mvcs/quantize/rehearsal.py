"""The chunks that a quantized tensor is restored from, asked for as `Restorer` does, with nothing computed.

What contents are is not looked at, but how long they are: a `range` of that length stands for them.
"""

from dataclasses import dataclass
from typing import cast

from mvcs.objects import Absent, Constant, Derived, LogLattice, ObjectId, QuantizedTensor, RootLattice
from mvcs.quantize.restore import Content, Restorer


@dataclass(frozen=True)
class Rehearsal(Restorer):
    """Asks for chunks, and gives back what has the length of the values."""

    def restore(self, tensor: QuantizedTensor, index: int) -> Content:
        """Ask for all that one chunk of the tensor's grid is made of."""
        kept = self._root.pop((tensor, index), None) if self._root else None
        if kept is None:
            self._ask(tensor, index)
        return cast("Content", range(tensor.chunk_elements(index) * tensor.dtype.itemsize))

    def _ask(self, tensor: QuantizedTensor, index: int) -> None:
        form = tensor.parameters
        if isinstance(form, Derived):
            self.restore(form.source, index)
        if isinstance(form, Absent | Constant | Derived):
            return
        mark = tensor.exceptions[index] if tensor.exceptions else None
        for chunk in (tensor.codes[index] if tensor.codes else None, mark):
            self._chunk(chunk)
        if isinstance(form, RootLattice):
            self._keep(form.root, index)
        elif isinstance(form, LogLattice):
            self._chunk(form.rows)
            self._chunk(form.cols)

    def _chunk(self, identifier: ObjectId | None) -> None:
        if identifier is not None:
            self.chunk(identifier)

    def _keep(self, root: QuantizedTensor, index: int) -> None:
        content = self.restore(root, index)
        self._root.clear()
        if self.has_room(len(content)):
            self._root[root, index] = content
