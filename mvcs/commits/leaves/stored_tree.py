"""All leaves and blobs of a state stored, group by group, and named in a tree."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

from mvcs.checkpoint import Captured
from mvcs.commits.leaves.exact import Stored
from mvcs.commits.plan.treatments import Planned
from mvcs.errors import ConflictError
from mvcs.objects import BLOB_CHUNK_BYTES, Leaf, ObjectId, Tree, blob_reference
from mvcs.progress import Progress
from mvcs.store import ObjectWriter

_LARGE = 1 << 22  # bytes of a group of leaves that is worth a thread of its own


def store_tree(
    captured: Captured,
    groups: Iterable[list[Planned]],
    store: Callable[[list[Planned]], Stored],
    writer: ObjectWriter,
    threads: int,
    progress: Progress,
) -> Tree:
    """Store all leaves and blobs of what was captured.

    Args:
        captured: the state or files.
        groups: every leaf once.
        store: stores a group; called from several threads.
        writer: takes blobs.
        threads: how many large groups are stored at a time.
        progress: is told the bytes done.

    Raises:
        ConflictError: a file was written meanwhile; the error names it.
    """
    progress.start("storing", captured.raw_bytes, "bytes")
    leaves: dict[int, Leaf] = {}
    # An error must not leave threads that still write.
    with closing(_each(groups, store, captured, threads)) as each:
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
    threads: int,
) -> Generator[Stored, None, None]:
    """Store large groups side by side, and small ones in order, so that they share entries in order."""
    with ThreadPoolExecutor(threads) as pool:
        running: deque[Future[Stored]] = deque()
        for group in groups:
            size = sum(captured.leaves[item.index].raw_bytes for item in group)
            if threads < 2 or size < _LARGE:
                yield store(group)
                continue
            running.append(pool.submit(store, group))
            if len(running) > threads:
                yield running.popleft().result()
        for future in running:
            yield future.result()


def _changed(captured: Captured, identifier: ObjectId) -> ConflictError:
    """Return the error for a blob that is not what was hashed when it was captured."""
    references = ((entry.path, blob_reference(entry.node)) for entry in captured.files or ())
    found = next((path for path, blob in references if blob and blob[0] == identifier), "a value")
    return ConflictError(f"'{found}' changed while it was read", hint="try again when nobody writes to it")
