"""Where good copies may lie."""

from dataclasses import dataclass

from mvcs.store import Backend


@dataclass(frozen=True)
class Source:
    """A store of the same project that may have good copies.

    Attributes:
        name: what messages call it.
        backend: the store.
    """

    name: str
    backend: Backend
