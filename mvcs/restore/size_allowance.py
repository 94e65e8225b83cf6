"""How much may be restored: a few bytes of a store can name any size, so that is checked first."""

import mmap
import pathlib
import shutil
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from mvcs.errors import LimitError
from mvcs.machine import machine_memory
from mvcs.objects import FileEntry, FileFormat, Tree, Value, blob_reference, tensor_reference, walk_nodes

_ALWAYS_THERE = 1 << 20  # bytes: asking for so few takes longer than filling them
_AT_ONCE = 1 << 26  # bytes that are compared within a second, wherever they come from
_MOST_FOLD = 1000  # bounded commits of whole states reach 150; constants and repeated chunks have no limit


@dataclass(frozen=True)
class Allowance:
    """What a restore may fill.

    Attributes:
        max_bytes: at most so many bytes; None for what memory, or the disk, holds.
    """

    max_bytes: int | None = None

    def check_memory(self, size: int) -> None:
        """Check bytes that are about to be held in memory.

        Raises:
            LimitError: they are more than is allowed or than this machine has.
        """
        if size <= _ALWAYS_THERE and self.max_bytes is None:
            return
        self._check(size, machine_memory(), "this machine's memory")
        try:
            mmap.mmap(-1, max(size, 1)).close()
        except (OSError, OverflowError) as error:
            raise _too_much(size, "this machine's memory") from error

    def check_disk(self, size: int, folder: pathlib.Path) -> None:
        """Check bytes that are about to be written below a folder, which may be still to be made.

        Raises:
            LimitError: they are more than is allowed or than its file system has room for.
        """
        free = _free(folder)
        if self.max_bytes is None and size > free:
            raise LimitError(
                f"what is to be restored takes {size} bytes, and the disk of '{folder}' has {free} free",
                hint="free some space, write to another disk with 'checkout REV -o FILE', or restore some "
                "tensors with '--tensor GLOB'",
            )
        self._check(size, free, "")

    def check_passing(self, size: int, stored: Callable[[], int], folder: pathlib.Path) -> None:
        """Check bytes that are read and let go of again, as when states are compared.

        Args:
            size: how many they are.
            stored: gives how many stored bytes they come from; called where they are many.
            folder: a place on the disk.

        Raises:
            LimitError: they are more than is allowed, than memory and the disk of a folder could hold, or
                than so few stored bytes restore to in a real state.
        """
        self._check(size, machine_memory() + _free(folder), "memory and disk together")
        if self.max_bytes is None and size > _AT_ONCE and size > _MOST_FOLD * (found := stored()):
            raise LimitError(
                f"what differs takes {size} bytes, restored from {found} stored ones: more than "
                f"{_MOST_FOLD} times as many",
                hint=f"if you trust who made it, allow so much with --max-bytes {size}",
            )

    def check_pack(self, size: int, folder: pathlib.Path) -> None:
        """Check what a pack from outside unpacks to, before it is unpacked to be hashed.

        Raises:
            LimitError: it is more than is allowed, or than memory and the disk of a folder could hold.
        """
        most = machine_memory() + _free(folder) if self.max_bytes is None else self.max_bytes
        if size > most:
            raise LimitError(
                f"a pack over there unpacks to {size} bytes, more than the {most} allowed",
                hint="allow more with --max-bytes if you trust who made it",
            )

    def _check(self, size: int, held: int, where: str) -> None:
        if self.max_bytes is None:
            if size > held:
                raise _too_much(size, f"{where} ({held} bytes)")
        elif size > self.max_bytes:
            raise _too_much(size, f"the {self.max_bytes} bytes allowed")


UNLIMITED = Allowance()


def _too_much(size: int, where: str) -> LimitError:
    return LimitError(
        f"what is to be restored takes {size} bytes, more than {where}",
        hint="'mvcs show REV --all' lists the tensors: restore some with 'checkout -o FILE --tensor GLOB', "
        "or allow more with --max-bytes",
    )


def _free(folder: pathlib.Path) -> int:
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def state_bytes(tree: Tree, chosen: Collection[int] | None = None) -> int:
    """Return the bytes of a state in memory: leaves once, blobs as often as they are met."""
    if chosen is not None:
        return sum(tree.leaves[index].raw_bytes for index in chosen)
    return sum(leaf.raw_bytes for leaf in tree.leaves) + sum(length for _, length in tree.blobs())


def file_bytes(tree: Tree, entries: Iterable[FileEntry]) -> int:
    """Return about the bytes of files: a tensor as often as a file names it, once in a torch file."""
    return sum(_content_bytes(tree, entry) for entry in entries)


def _content_bytes(tree: Tree, entry: FileEntry) -> int:
    nodes: list[Value] = [node for _, node in walk_nodes(entry.node)]
    nodes += [] if entry.header is None else [entry.header]
    met = [reference[0] for node in nodes if (reference := tensor_reference(node)) is not None]
    leaves = set(met) if entry.format is FileFormat.TORCH else met
    blobs = (found[1] for node in nodes if (found := blob_reference(node)) is not None)
    return sum(tree.leaves[index].raw_bytes for index in leaves) + sum(blobs)
