"""What one commit finds damaged while it is at work: told to who commits, and a reason to begin again.

Nothing of it is remembered here. `store_watch` remembers damaged entries for the next commits, and
`damaged_packs` damaged packs for the next fetch, both in the room `local`.
"""

from mvcs.errors import CorruptionError, some_of
from mvcs.store import ObjectStore, pack_path

_NAMED = 3  # packs in a note


class Damage:
    """The damage that was found since this was made."""

    def __init__(self, store: ObjectStore) -> None:
        """Begin with what is known by now."""
        self._found = store.catalog.damaged
        self._known = frozenset(self._found)

    @property
    def grew(self) -> bool:
        """Whether some was found."""
        return len(self._found) > len(self._known)

    @property
    def packs(self) -> list[str]:
        """The packs it lies in."""
        places = self._found - self._known
        return sorted({pack_path(name, exact=exact) for name, exact, _ in places})

    def notes(self) -> list[str]:
        """Tell of it, for the one who commits."""
        packs = self.packs
        if not packs:
            return []
        named = some_of([f"'{path}'" for path in packs], _NAMED)
        told = (
            f"{named}: damaged; what this commit needs of it is written again. "
            "'mvcs fsck' shows which older commits it touches"
        )
        return [told]

    def unending(self) -> CorruptionError:
        """Return what to raise where every look finds more of it."""
        many = "s" if len(self.packs) > 1 else ""
        return CorruptionError(
            f"the store is damaged in {len(self.packs)} pack{many}, and more is found at each look",
            hint="check the disk, and run 'mvcs fsck'; clone the repository to another one",
        )
