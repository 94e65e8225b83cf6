"""What a client of federated learning sends of its changes, and keeps (QD-Compressor, algorithm 2)."""

import zlib
from dataclasses import replace

import numpy as np

from mvcs.channels.message_store import Floats, MessageStore
from mvcs.channels.quantizer import Quantizer
from mvcs.errors import StorageError, UsageError

_WIDTH = 512  # values of a residual that have one scale


class Residuals:
    """Sends the largest changes of each client, and adds what was not sent to its next ones.

    Algorithm 2 of QD-Compressor (TPDS 2023). What the quantizer rounds off is kept for the next time as well,
    and the residual itself is rounded to the bits of the store.

    Args:
        store: holds a residual of each client, and nothing else. 8 bits a value
            were as good as float32. 2 bits take 1/15 of it, and cost accuracy.
        quantizer: of what is sent.
        top: the share of the changes, largest in magnitude, that is sent.

    Raises:
        UsageError: the share is none.
    """

    def __init__(self, store: MessageStore, quantizer: Quantizer, top: float = 0.01) -> None:
        self._store, self._quantizer = store, replace(quantizer, share=top)
        self._count: int | None = None

    def encode(self, client: int, changes: Floats) -> tuple[bytes, Floats]:
        """Return what a client sends, and keep the rest. After an error the former residual is still there.

        Args:
            client: its number, the id of its residual in the store.
            changes: float32 [n], of all its weights; n is the same for all clients and calls.

        Returns:
            the payload, and what decoding it gives, float32 [n].

        Raises:
            UsageError: the changes are of another number, or not finite.
            StorageError: the disk takes no more residuals, or cannot be read.
            CorruptionError: see `MessageStore`.
        """
        count, padding = changes.size, -changes.size % _WIDTH
        expected = count if self._count is None else self._count
        if changes.shape != (expected,):
            raise UsageError(f"client {client} has changes {list(changes.shape)}, not [{expected}]")
        # A residual stays in its edge of the store until the next one is kept in the other.
        held, kept = (0, 1) if self._store.seen(0, [client])[0] else (1, 0)
        if self._store.seen(held, [client])[0]:
            rest = self._store.read(held, [client]).reshape(-1)
            if rest.size != count + padding:
                raise UsageError(f"client {client} has {count} changes, and had others before")
            changes = changes + rest[:count]
        # Decoding needs no seed. This one differs by client and round, and is the same in a resumed run.
        seed = zlib.crc32(changes.tobytes(), client & 0xFFFFFFFF)
        payload, sent = self._quantizer.encode(changes[None], seed=seed)
        unsent = np.pad(changes - sent[0], (0, padding)).reshape(1, -1, _WIDTH)
        self._store.write(kept, [client], unsent)
        self._store.flush()
        if not self._store.seen(kept, [client])[0]:
            raise StorageError(
                f"the disk takes no more residuals, as that of client {client}",
                hint="make room on it, and encode the same changes again",
            )
        self._store.forget(held, [client])
        self._count = count
        return payload, sent[0]

    def decode(self, payload: bytes, count: int) -> Floats:
        """Restore the changes [count] that a client sent, float32.

        Raises:
            CorruptionError: they are no payload of so many changes.
        """
        return self._quantizer.decode(payload, 1, count).reshape(count)
