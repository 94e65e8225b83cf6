"""All leaves and blobs of a commit are stored: large groups side by side, small ones in order."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from mvcs.checkpoint import Captured, CapturedLeaf
from mvcs.commits.leaves.stored_leaf import Stored
from mvcs.commits.plan.treatments import Planned
from mvcs.delta import IDLE_BYTES, release_idle
from mvcs.errors import ConflictError
from mvcs.memory import Budget, Use
from mvcs.objects import BLOB_CHUNK_BYTES, Leaf, ObjectId, Tree, blob_reference, chunk_elements
from mvcs.progress import Progress
from mvcs.store import ObjectWriter

_LARGE = 1 << 22  # bytes of a group of leaves that is worth a thread of its own
# Bytes: each thread takes about as many, and a commit of a small state is to take no more than is promised.
_STATE_OF_A_THREAD = 50_000_000
_COPIES = 8  # of a chunk at most, while it is stored: itself, as floats, restored, codes, bases, payloads


@dataclass(frozen=True)
class Workers:
    """What groups of leaves are stored with.

    Attributes:
        threads: how many large groups are stored at a time, fewer where a state is small.
        memory: what these may take together; a group that takes more is stored alone.
    """

    threads: int
    memory: Budget


def store_tree(
    captured: Captured,
    waves: Iterable[Iterable[list[Planned]]],
    store: Callable[[list[Planned]], Stored],
    writer: ObjectWriter,
    workers: Workers,
    progress: Progress,
) -> Tree:
    """Store all leaves and blobs of what was captured.

    Args:
        captured: the state or files.
        waves: every leaf once, in groups. What one wave stored, the next may be stored near.
        store: stores a group; called from several threads.
        writer: takes blobs, and places what waits for company after each wave but the last.
        workers: how many groups are stored at a time.
        progress: is told the bytes done.

    Raises:
        ConflictError: a file was written meanwhile; the error names it.
    """
    progress.start("storing", captured.raw_bytes, "bytes")
    leaves: dict[int, Leaf] = {}
    for number, groups in enumerate(waves):
        if number:
            writer.gather()
        # An error must not leave threads that still write.
        with closing(_each(groups, store, captured, workers)) as each:
            for stored in each:
                leaves |= dict(stored)
                progress.advance(sum(leaf.raw_bytes for _, leaf in stored))
    for identifier, blob in captured.blobs.items():
        if writer.put_blob(blob.parts(BLOB_CHUNK_BYTES)) != identifier:
            raise _changed(captured, identifier)
        progress.advance(blob.length)
    captured.check()
    progress.finish()
    ordered = tuple(leaves[index] for index in range(len(captured.leaves)))
    return Tree(ordered, root=captured.root, files=captured.files)


def _each(
    groups: Iterable[list[Planned]],
    store: Callable[[list[Planned]], Stored],
    captured: Captured,
    workers: Workers,
) -> Generator[Stored, None, None]:
    """Store large groups side by side, and small ones in order, so that they share entries in order."""
    lean = workers.memory.limit(Use.POOL) < IDLE_BYTES
    threads = min(workers.threads, max(2, captured.raw_bytes // _STATE_OF_A_THREAD))
    with ThreadPoolExecutor(threads) as pool:
        running = _Running(pool, threads, workers.memory)
        for group in groups:
            if lean:
                release_idle()
            leaves = [captured.leaves[item.index] for item in group]
            if threads < 2 or sum(leaf.raw_bytes for leaf in leaves) < _LARGE:
                yield store(group)
            else:
                yield from running.begin(partial(store, group), _working_bytes(leaves))
        yield from running.end()


class _Running:
    """Groups on other threads; they are handed out in order."""

    def __init__(self, pool: ThreadPoolExecutor, threads: int, memory: Budget) -> None:
        self._pool, self._threads = pool, threads
        self._room = memory.hold(Use.WORK)
        self._groups: deque[tuple[Future[Stored], int]] = deque()

    def begin(self, work: Callable[[], Stored], needed: int) -> Iterator[Stored]:
        """Begin to store a group once there is room for it; hand out those that had to be waited for."""
        fits = self._room.resize(self._room.bytes + needed)
        while self._groups and not fits:
            yield self._oldest()
            fits = self._room.resize(self._room.bytes + needed)
        self._groups.append((self._pool.submit(work), needed if fits else 0))
        while len(self._groups) > (self._threads if fits else 0):
            yield self._oldest()

    def end(self) -> Iterator[Stored]:
        """Hand out the rest."""
        while self._groups:
            yield self._oldest()

    def _oldest(self) -> Stored:
        group, needed = self._groups.popleft()
        stored = group.result()
        self._room.resize(self._room.bytes - needed)
        return stored


def _working_bytes(leaves: Iterable[CapturedLeaf]) -> int:
    """Return about how many bytes it takes to store a group: copies of a chunk, and all codes and moves."""
    found = list(leaves)
    largest = max(min(leaf.raw_bytes, chunk_elements(leaf.dtype) * leaf.dtype.itemsize) for leaf in found)
    return _COPIES * largest + sum(leaf.raw_bytes for leaf in found)


def _changed(captured: Captured, identifier: ObjectId) -> ConflictError:
    """Return the error for a blob that is not what was hashed when it was captured."""
    references = ((entry.path, blob_reference(entry.node)) for entry in captured.files or ())
    found = next((path for path, blob in references if blob and blob[0] == identifier), "a value")
    return ConflictError(f"'{found}' changed while it was read", hint="try again when nobody writes to it")
