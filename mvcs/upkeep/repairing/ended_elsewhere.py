"""Commits whose packs no store has by their names: another one may have stored them anew, in other packs."""

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from mvcs.errors import CorruptionError, MvcsError, NotFoundError, StorageError, UnsupportedFormatError
from mvcs.local import INCOMING_FOLDER
from mvcs.local_files import scratch_folder
from mvcs.progress import Progress
from mvcs.remotes import BrokenCommits, Brought, Drops, OtherEndings, TransferSide
from mvcs.reports import Mended
from mvcs.retention import DataDrops, carry_drops
from mvcs.store import ObjectStore, pack_path, read_footer
from mvcs.upkeep.repairing.set_aside import SetAside
from mvcs.upkeep.repairing.sources import Source
from mvcs.upkeep.repairing.wanted_packs import PackKey, WantedPacks

IN_OTHERS = "taken out: what commits needed of it lies in other packs"


@dataclass
class EndedElsewhere:
    """Takes commits as other stores end them, and takes out damaged packs that nothing needs then.

    Attributes:
        wanted: tells which commits the store has to have.
        sources: stores of the same project, the likeliest first.
        local: `.mvcs`.
        aside: keeps what is taken out; None in a rehearsal.
        author: who repairs.
        progress: is told the packs done.
        allow: is told what a pack unpacks to, and raises where that is too much.
        note: is told what does not come, and why.
        mended: what came and what was taken out.
        needless: lost packs that no commit needs any more.
    """

    wanted: WantedPacks
    sources: Sequence[Source]
    local: pathlib.Path
    aside: SetAside | None
    author: str
    progress: Progress
    allow: Callable[[int], None]
    note: Callable[[str], None]
    mended: list[Mended] = field(default_factory=list)
    needless: set[PackKey] = field(default_factory=set)

    def run(self, lost: set[PackKey]) -> None:
        """Bring what lost packs held that no store has by their names."""
        values = {key for key in lost if not key.exact}
        named = values & self.wanted.names()
        if not named:
            return
        endings = self._endings(values)
        for source, there in self._theirs:
            if not endings.broken().named:
                break
            self._bring(endings, source, there)
        # What no longer tells what it is may be what nothing named for that very reason.
        self._take_out(named | set(filter(self._is_mute, values)), endings.broken())

    def _endings(self, lost: set[PackKey]) -> OtherEndings:
        return OtherEndings(
            TransferSide.of(self.wanted.store.apart()),
            [target for target, _ in self.wanted.tips()],
            {revision.id: revision for revision in self.wanted.revisions()},
            {key.name for key in lost},
            self.author,
            self.progress,
            self.allow,
        )

    def _bring(self, endings: OtherEndings, source: Source, there: TransferSide) -> None:
        try:
            brought = self._brought(endings, there)
        except MvcsError as error:  # others may have it
            self.note(f"what was rewritten in {source.name} was not taken: {error.message}")
            return
        for message in dict.fromkeys(error.message for error in brought.refused.values()):
            self.note(f"what was rewritten in {source.name} is unused: {message}")
        how = f"copied from {source.name}, where commits are rewritten"
        self.mended += [Mended(pack_path(name), how, size) for name, size in sorted(brought.copied.items())]

    def _brought(self, endings: OtherEndings, there: TransferSide) -> Brought:
        near, far = self.wanted.store.backend, there.store.backend
        dropped = DataDrops.of(far).found.keys()
        drops = Drops(dropped, dropped - DataDrops.of(near).found.keys())
        with self._folder() as folder:
            brought = endings.bring(there, drops, folder)
        carry_drops(far, near, brought.without, self.author)
        return brought

    def _take_out(self, lost: set[PackKey], broken: BrokenCommits) -> None:
        """Take out damaged packs that hide what lies in others; those that are gone are gone for good."""
        for key in sorted(key for key in lost if not broken.need(key.name)):
            with contextlib.suppress(StorageError):  # of what the disk does not give nothing is decided
                self._take_one_out(key)
                self.needless.add(key)

    def _take_one_out(self, key: PackKey) -> None:
        backend = self.wanted.store.backend
        try:
            backend.head(key.path, 1)
        except NotFoundError:
            return
        if self.aside is not None:
            self.aside.keep(key.path)
        backend.delete(key.path)
        self.mended.append(Mended(key.path, IN_OTHERS, 0))

    def _is_mute(self, key: PackKey) -> bool:
        """Tell whether a pack lies there whose footer is damaged."""
        try:
            read_footer(self.wanted.store.backend, key.name)
        except CorruptionError:
            return True
        except (NotFoundError, StorageError, UnsupportedFormatError):
            return False
        return False

    @cached_property
    def _theirs(self) -> list[tuple[Source, TransferSide]]:
        memory = self.wanted.store.memory
        return [(one, TransferSide.of(ObjectStore(one.backend, memory))) for one in self.sources]

    @contextlib.contextmanager
    def _folder(self) -> Iterator[pathlib.Path]:
        """Give a place for packs that are not believed yet; in a rehearsal, one that goes."""
        if self.aside is not None:
            yield self.local / INCOMING_FOLDER
            return
        with scratch_folder(self.local) as folder:
            yield folder
