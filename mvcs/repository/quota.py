"""How much a store may hold: a commit that would pass it lets old ones go first, and else is refused."""

from dataclasses import dataclass
from typing import NamedTuple

from mvcs.config import MAX_BYTES, Config
from mvcs.errors import StorageError
from mvcs.history import Graph, Revision
from mvcs.memory import parse_size
from mvcs.refs import HEADS, RefStore
from mvcs.reports import as_size
from mvcs.store import EXACT_FOLDER, VALUE_FOLDER, Backend, Manifests, pack_name

LISTED_EVERY = 64
EXACT_LAYERS = "retention.exact_layers"
_MUCH = 0.05
_AT_ONCE = "where nobody else writes, 'mvcs gc --execute --grace 0 --wait 0' deletes them at once"
_TURNS = "an exact layer goes once the next one is there, so there has to be room for one more than are kept"
RAISE = f"'mvcs config {MAX_BYTES} SIZE' allows more"


class Wish(NamedTuple):
    """What there is no room for: what was not done with it, and what it is called."""

    done: str
    what: str


COMMIT = Wish("committed", "this commit")
FETCH = Wish("fetched", "what is missing here")


class NoRoomError(StorageError):
    """What was to be written would pass the quota of a store; nothing of it is there.

    Attributes:
        more: bytes that it would have added.
    """

    more = 0


def taken_by(revision: Revision | None) -> int:
    """Return the bytes of both layers that a commit added."""
    return 0 if revision is None else revision.written.stored_bytes + revision.written.exact_bytes


@dataclass
class Quota:
    """Counts what packs take; others who write are noticed by a listing now and then.

    Attributes:
        backend: the store.
        limit: bytes of packs that it may hold; None for no limit.
    """

    backend: Backend
    limit: int | None
    _taken: int | None = None
    _commits: int = 0

    @classmethod
    def of(cls, backend: Backend, config: Config) -> "Quota":
        """Return the quota that settings give."""
        size = config.get(MAX_BYTES)
        return cls(backend, None if size is None else parse_size(str(size)))

    def note(self, more: int) -> None:
        """Note that a commit of so many bytes was written."""
        if self._taken is not None:
            self._taken += more
            self._commits += 1

    def is_passed(self) -> bool:
        """Tell whether packs take more than they may; they are counted first where that is due."""
        return self.is_near(0)

    def is_near(self, more: int) -> bool:
        """Tell whether packs would take more than they may, once so many bytes more are there."""
        if self.limit is None:
            return False
        if self._taken is None or self._commits >= LISTED_EVERY or self._taken > self.limit:
            self.look()
        return (self._taken or 0) + more > self.limit

    def look(self) -> None:
        """Count anew."""
        self._taken, self._commits = sum(self.sizes().values()), 0

    @property
    def room(self) -> tuple[int, int] | None:
        """How many bytes packs take, and how many they may; None without a limit."""
        if self.limit is None:
            return None
        self.look()
        return self._taken or 0, self.limit

    @property
    def told(self) -> str | None:
        """What whoever sets the limit should know: that it is passed already."""
        room = self.room
        if room is None or room[0] <= room[1]:
            return None
        taken, limit = map(as_size, room)
        return (
            f"the store takes {taken} already, and {limit} are allowed: nothing is committed before "
            f"'mvcs retention apply' and 'mvcs gc' made room"
        )

    def sizes(self) -> dict[str, int]:
        """Return the bytes of every pack by its path."""
        return self.backend.sizes(VALUE_FOLDER) | self.backend.sizes(EXACT_FOLDER)

    def no_room(self, more: int) -> NoRoomError:
        """Return the error for so many bytes, before anything was done to have room for them."""
        found = NoRoomError(f"{as_size(more)} more have no room under {MAX_BYTES}", hint=RAISE)
        found.more = more
        return found

    def refusal(
        self, graph: Graph, refs: RefStore, more: int = 0, waiting: int = 0, wish: Wish = COMMIT
    ) -> NoRoomError:
        """Return the error for what there is no room for.

        Args:
            graph: the history.
            refs: its branches.
            more: bytes that it would have added.
            waiting: bytes that nothing needs any more, and that are not deleted yet.
            wish: what that was.
        """
        sizes = {name: size for path, size in self.sizes().items() if (name := pack_name(path))}
        limit, taken = self.limit or 0, sum(sizes.values())
        self._taken = taken
        adds, left = (f", {wish.what} {as_size(more)} more", "") if more else ("", ": nothing is left")
        said = (
            f"the store takes {as_size(taken)}{self._layers()}{adds}, "
            f"and {MAX_BYTES} allows {as_size(limit)}{left}"
        )
        tips = sum(sizes.get(name, 0) for name in self._needed_now(graph, refs))
        if tips > limit:
            alone = f"what the tips of branches need takes {as_size(tips)} alone"
            found = NoRoomError(f"nothing was {wish.done}: {said}; {alone}", hint=RAISE)
        else:
            hint = "'mvcs retention set' says which old commits may go"
            if waiting:
                hint += f"; {as_size(waiting)} go once they have waited: 'mvcs gc' shows them, and {_AT_ONCE}"
            room = self._room_for(taken + more) if more and wish is COMMIT else ""
            found = NoRoomError(f"nothing was {wish.done}: {said}", hint=f"{hint}; {RAISE}{room}")
        found.more = more
        return found

    def _room_for(self, needed: int) -> str:
        """Say how much is needed, and why more than what is kept in the end, where layers take turns."""
        turns = f": {_TURNS}" if self._layers() else ""
        return f", and this commit needs about {as_size(needed)}{turns}"

    def _layers(self) -> str:
        """Say how much of it are exact layers, where that is much: fewer of them may be kept."""
        exact = sum(self.backend.sizes(EXACT_FOLDER).values())
        if not self._taken or exact < _MUCH * self._taken:
            return ""
        share = f"{100 * exact / self._taken:.0f} % of it exact layers"
        return f" ({share}: 'mvcs config {EXACT_LAYERS} 1' keeps one)"

    def _needed_now(self, graph: Graph, refs: RefStore) -> set[str]:
        needed: set[str] = set()
        for tip in graph.tips(refs.survey(HEADS).whole.values()):
            needed |= {*Manifests(self.backend).placement(tip.id).packs, *tip.written.exact_packs}
        return needed
