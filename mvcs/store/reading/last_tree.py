"""The tree that was read or written last, decoded: what follows a commit asks for it again."""

from collections.abc import Callable

from mvcs.delta import Content
from mvcs.memory import Hold
from mvcs.objects import ObjectId, Tree

_DECODED = 16  # times the bytes of a tree that it takes in memory


class LastTree:
    """One tree, where there is room for it. Threads may share it."""

    def __init__(self, hold: Hold) -> None:
        """Hold nothing yet; `hold` has the room."""
        self._hold = hold
        self._kept: tuple[ObjectId, Tree] | None = None

    def get(self, identifier: ObjectId, read: Callable[[], Content]) -> Tree:
        """Return a tree: the one that is kept, or what `read` gives, decoded, which is kept then."""
        kept = self._kept
        if kept is not None and kept[0] == identifier:
            return kept[1]
        content = read()
        tree = Tree.decode(content)
        self.note(identifier, tree, len(content))
        return tree

    def note(self, identifier: ObjectId, tree: Tree, length: int) -> None:
        """Keep a tree of so many bytes instead of the one before."""
        self._kept = (identifier, tree)
        if not self._hold.resize(_DECODED * length):
            self.clear()

    def clear(self) -> None:
        """Let go of it."""
        self._kept = None
        self._hold.resize(0)
