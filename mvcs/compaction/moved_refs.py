"""Refs get records with the same commits and the packs that end these now; who was first is followed."""

from collections.abc import Callable
from dataclasses import dataclass

from mvcs.errors import ConflictError
from mvcs.history import Revision
from mvcs.refs import HEADS, REMOTES, TAGS, GoingError, RefChange, RefRecord, RefStore

ACTION = "compact"
KINDS = (HEADS, TAGS, REMOTES)


@dataclass(frozen=True)
class NamedCommit:
    """A ref: its kind and name, and its newest record."""

    kind: str
    name: str
    record: RefRecord


def named_commits(refs: RefStore) -> list[NamedCommit]:
    """Return every branch, tag, and what is known of remotes.

    A name without a record is passed over: another writer may just begin it. Nothing is deleted here.

    Raises:
        CorruptionError: one is damaged, so that nobody knows what it needs.
        UnsupportedFormatError: another version wrote it.
    """
    return [
        NamedCommit(kind, name, record)
        for kind in KINDS
        for name, record in refs.survey(kind).readable().items()
    ]


@dataclass(frozen=True)
class MovedRefs:
    """Moves refs to the packs that end their commits now.

    Attributes:
        refs: the refs.
        ending: tells what is to end the commit of a ref; None where it may stay.
        author: who moves them.
        catch_up: stores anew what a ref leads to that moved on meanwhile.
    """

    refs: RefStore
    ending: Callable[[RefRecord], Revision | None]
    author: str
    catch_up: Callable[[RefRecord], None]

    def move(self, named: NamedCommit) -> bool:
        """Write the next record of a ref; tell whether that was needed, and nobody else had done it.

        Raises:
            StorageError: it could not be written.
        """
        record: RefRecord | None = named.record
        while record is not None and record.target is not None:
            ended = self.ending(record)
            if ended is None:
                return False
            try:
                self.refs.update(named.kind, named.name, record, self._change(record, ended))
            except GoingError:
                raise
            except ConflictError:
                newest = self.refs.newest(named.kind, named.name)
                if newest is not None and newest.target == record.target:
                    return False  # another compaction was first
                record = newest
                if record is not None and record.target is not None:
                    self.catch_up(record)
                continue
            return True
        return False

    def _change(self, record: RefRecord, ended: Revision) -> RefChange:
        return RefChange(record.target, ended.written.pack, self.author, ACTION, record.content)
