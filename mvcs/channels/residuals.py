"""What a client of federated learning sends of its changes, and keeps (QD-Compressor, algorithm 2)."""

from dataclasses import replace

import numpy as np

from mvcs.channels.message_store import Floats, MessageStore
from mvcs.channels.quantizer import Quantizer
from mvcs.errors import UsageError

_EDGE = 0
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

    def encode(self, client: int, changes: Floats) -> tuple[bytes, Floats]:
        """Return what a client sends, and keep the rest.

        Args:
            client: its number, the id of its residual in the store.
            changes: float32 [n], of all its weights; n stays the same.

        Returns:
            the payload, and what decoding it gives, float32 [n].

        Raises:
            UsageError: the changes are of another number, or not finite.
            NotFoundError, CorruptionError, StorageError: see `MessageStore`.
        """
        count, padding = changes.size, -changes.size % _WIDTH
        if self._store.seen(_EDGE, [client])[0]:
            rest = self._store.read(_EDGE, [client]).reshape(-1)
            if rest.size != count + padding:
                raise UsageError(f"client {client} has {count} changes, and had others before")
            changes = changes + rest[:count]
        payload, sent = self._quantizer.encode(changes.reshape(1, count))
        unsent = np.pad(changes - sent[0], (0, padding)).reshape(1, -1, _WIDTH)
        self._store.write(_EDGE, [client], unsent)
        return payload, sent[0]

    def decode(self, payload: bytes, count: int) -> Floats:
        """Restore the changes [count] that a client sent, float32.

        Raises:
            CorruptionError: they are no payload of so many changes.
        """
        return self._quantizer.decode(payload, 1, count).reshape(count)
