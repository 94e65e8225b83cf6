"""Find out whether a backend's exclusive create holds when writers race; some only look as if it did."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from mvcs.errors import ConflictError
from mvcs.local_files import temporary_name
from mvcs.store.backend.base import TEMPORARY_FOLDER, Backend

ROUNDS = 3
WRITERS = 4


def probe_exclusive_create(backend: Backend, rounds: int = ROUNDS, writers: int = WRITERS) -> bool:
    """Let `writers` threads create one fresh file, `rounds` times, and count the winners.

    Returns:
        True when every round had exactly one winner whose bytes are the ones that stayed.

    Raises:
        StorageError: the backend cannot be written at all.
    """
    with ThreadPoolExecutor(writers) as pool:
        return all(_one_winner(backend, pool, writers) for _ in range(rounds))


def _one_winner(backend: Backend, pool: ThreadPoolExecutor, writers: int) -> bool:
    name = f"{TEMPORARY_FOLDER}/{temporary_name()}"
    payloads = [secrets.token_bytes(16) for _ in range(writers)]
    barrier = Barrier(writers)
    try:
        won = list(pool.map(lambda payload: _try(backend, name, payload, barrier), payloads))
        winners = [payload for payload, success in zip(payloads, won, strict=True) if success]
        return len(winners) == 1 and backend.read(name) == winners[0] and not _overwrites(backend, name)
    finally:
        backend.delete(name)


def _try(backend: Backend, name: str, payload: bytes, barrier: Barrier) -> bool:
    barrier.wait()
    try:
        backend.create(name, payload)
    except ConflictError:
        return False
    return True


def _overwrites(backend: Backend, name: str) -> bool:
    before = backend.read(name)
    try:
        backend.create(name, secrets.token_bytes(16))
    except ConflictError:
        return backend.read(name) != before
    return True
