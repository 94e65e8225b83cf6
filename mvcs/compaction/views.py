"""Two views of one store: where objects lie now, and where those may lie that others lean on afterwards."""

from collections import OrderedDict
from collections.abc import Iterable

from mvcs.store import Footer, ObjectStore, read_footer

HELD = 512


class Views:
    """The packs that both views know, which change from commit to commit.

    Attributes:
        source: knows the packs that a commit needs as it is, and reads what was moved where it lies now.
        target: knows the packs that it may need.
    """

    def __init__(self, source: ObjectStore, target: ObjectStore) -> None:
        """Know no packs yet; `source` may show more packs than `target`, where new ones go."""
        self.source, self.target = source.apart(), target.apart()
        self._footers: OrderedDict[str, Footer] = OrderedDict()

    def footer(self, pack: str) -> Footer:
        """Return the footer of a pack.

        Raises:
            NotFoundError: it is not there.
            CorruptionError: its end is damaged.
        """
        found = self._footers.get(pack)
        if found is None:
            found = self._footers[pack] = read_footer(self.source.backend, pack)
            while len(self._footers) > HELD:
                self._footers.popitem(last=False)
        return found

    def stand(self, pack: str, leant_on: Iterable[str], beside: Iterable[str] | None = None) -> None:
        """Look at one commit.

        Args:
            pack: ends it as it is.
            leant_on: the packs that it may lean on.
            beside: the packs that the source knows beside its own; by default those that it may lean on.
        """
        names = list(dict.fromkeys(leant_on))
        self.target.keep(names)
        for name in names:
            self.target.catalog.add(name, self.footer(name))
        footer = self.footer(pack)
        now = [*(names if beside is None else beside), *footer.needed, pack]
        self.source.begin_anew(now)  # what was moved comes first, so that chains do not grow on the way
        for name in now:
            self.source.catalog.add(name, self.footer(name))

    def length(self, pack: str) -> int:
        """Return the bytes of a pack."""
        tail = self.footer(pack).tail
        return tail.pack_length if tail else 0
