"""What a clone remembers of the packs that end commits, and of records of refs, between two collections.

What such a pack says never changes, since its name is the hash of it; and a record of a ref counts only where
the one above it holds its hash. So nothing here grows old: not when refs move back, branches are deleted,
commits are ended anew or other clones write. A marking walks over it from the refs that are there now.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from random import SystemRandom

from mvcs.history import Revision
from mvcs.objects import ObjectId
from mvcs.refs import RefRecord
from mvcs.store import PARALLEL_READERS, UNREADABLE_ERRORS, Backend, Footer, read_footer

Node = tuple[ObjectId, str | None]
"""A commit, and the name of the pack that is said to end it."""
PROVEN = 64
"""Lines that are compared with the store before something is deleted."""


@dataclass(frozen=True, slots=True)
class Line:
    """What a pack says of the commit that it ends.

    Attributes:
        commit: the commit.
        parents: its parents, each with the pack that ends it.
        needed: names of all other packs that its value layer needs.
        exact: names of the packs of its exact layer.
    """

    commit: ObjectId
    parents: tuple[Node, ...]
    needed: tuple[str, ...]
    exact: tuple[str, ...]

    @classmethod
    def of(cls, footer: Footer) -> "Line | None":
        """Return what a footer says; None where it ends no commit, or does not tell of all its parents."""
        if not footer.commits:
            return None
        told = {written.id: written.pack for written in footer.commits[1:]}
        written = footer.commits[0]
        parents = Revision(written).commit.parents
        if not told.keys() >= set(parents):
            return None
        nodes = tuple((parent, told[parent]) for parent in parents)
        return cls(written.id, nodes, footer.needed, written.exact_packs)


@dataclass
class KnownHistory:
    """What is known without asking the store again.

    Attributes:
        lines: by the packs that end commits, what they say.
        records: records of refs by their hashes.
        met: packs whose lines counted in this process.
        read: packs whose lines were read from the store in this process.
    """

    lines: dict[str, Line] = field(default_factory=dict)
    records: dict[bytes, RefRecord] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    _packs: dict[ObjectId, set[str]] | None = None

    def of(self, commit: ObjectId) -> Iterator[tuple[str, Line]]:
        """Yield the packs that are known to end a commit, and what they say."""
        if self._packs is None:
            self._packs = {}
            for pack, line in self.lines.items():
                self._packs.setdefault(line.commit, set()).add(pack)
        for pack in sorted(self._packs.get(commit, ())):
            yield pack, self.lines[pack]

    def learn(self, backend: Backend, pool: Executor, packs: Iterable[str]) -> None:
        """Read what is not known yet; what cannot be read stays unknown."""
        unknown = [pack for pack in packs if pack not in self.lines]
        for pack, line in zip(unknown, pool.map(partial(_read, backend), unknown), strict=True):
            if line is not None:
                self.lines[pack] = line
                self.read.add(pack)
                if self._packs is not None:
                    self._packs.setdefault(line.commit, set()).add(pack)

    def prove(self, backend: Backend) -> None:
        """Compare lines that counted with the store, up to 64 at random; forget all where one differs.

        Raises:
            MvcsError: a pack cannot be read.
        """
        told = sorted(self.met & (self.lines.keys() - self.read))
        chosen = SystemRandom().sample(told, min(PROVEN, len(told)))
        with ThreadPoolExecutor(PARALLEL_READERS) as pool:
            found = list(pool.map(partial(read_footer, backend), chosen))
        if any(Line.of(footer) != self.lines[pack] for pack, footer in zip(chosen, found, strict=True)):
            self.forget()
        self.read.update(chosen)

    def forget(self) -> None:
        """Know only what was read from the store in this process."""
        self.lines = {pack: line for pack, line in self.lines.items() if pack in self.read}
        self._packs = None


def _read(backend: Backend, pack: str) -> Line | None:
    try:
        return Line.of(read_footer(backend, pack))
    except UNREADABLE_ERRORS:
        return None
