"""A backend at whose n-th operation something goes wrong: what it is, is told by its kind."""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mvcs.errors import ConflictError, StorageError
from mvcs.store.backend import Backend
from mvcs.store.backend.base import Names
from tests.store.in_memory import MemoryBackend
from tests.store.interleaved import WRITES, Died

# What reads may meet; a lost reply is a refusal to them, and it does not matter to others when they die.
OF_READS = ("refused", "outage", "dies before", "delayed")
OF_WRITES = (*OF_READS, "reply lost", "dies after", "delivered twice", "delivered late")
KINDS = (*OF_WRITES, "torn")


@dataclass(frozen=True)
class Operation:
    """One operation of a verb, as it was seen in a run in which nothing went wrong."""

    store: str
    verb: str
    name: str

    def __str__(self) -> str:
        return f"{self.verb} {self.name} of {self.store}"

    @property
    def writes(self) -> bool:
        return self.verb in WRITES

    @property
    def kinds(self) -> tuple[str, ...]:
        """What may go wrong with it."""
        if self.verb == "put" and self.name.endswith(".pack"):
            return KINDS
        return OF_WRITES if self.writes else OF_READS


@dataclass
class Strike:
    """What happens, and at which operation; without a kind operations are listed only.

    Attributes:
        at: which operation, from 0 on, of all stores together.
        kind: what happens.
        other: another writer's work, for what is delayed.
        at_death: is called once, when the process dies.
        asked: the operations so far.
        met: whether it happened.
        torn: which file was left half written.
    """

    at: int = -1
    kind: str = ""
    other: Callable[[], None] = lambda: None
    at_death: Callable[[], None] = lambda: None
    asked: list[Operation] = field(default_factory=list)
    met: bool = False
    torn: str = ""
    _dead: bool = False
    _late: list[Callable[[], Any]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def request(self, backend: MemoryBackend, operation: Operation, rest: tuple[Any, ...]) -> Any:
        """Do what was asked for, or what happens instead."""

        def do() -> Any:
            return getattr(backend, operation.verb)(operation.name, *rest)

        with self._lock:
            number = len(self.asked)
            self.asked.append(operation)
            self._check_alive(operation)
            if number != self.at:
                return do()
            self.met = True
            return self._strike(backend, operation, rest, do)

    def _check_alive(self, operation: Operation) -> None:
        if self._dead:
            raise Died
        if self.met and self.kind == "outage":
            raise _gone(operation)

    def _strike(
        self, backend: MemoryBackend, operation: Operation, rest: tuple[Any, ...], do: Callable[[], Any]
    ) -> Any:
        match self.kind:
            case "refused" | "outage":
                raise _gone(operation)
            case "delayed":
                self.other()
            case "reply lost":
                do()
                raise _gone(operation)
            case "delivered twice":
                do()
            case "delivered late":
                self._late.append(do)
            case "dies before":
                raise self._death()
            case "dies after":
                do()
                raise self._death()
            case "torn":
                _tear(backend, operation, rest[0])
                self.torn = operation.name
                raise self._death()
        return do()

    def deliver_late(self) -> None:
        """Let the second copy of a request arrive."""
        for do in self._late:
            with contextlib.suppress(ConflictError):  # nobody waits for the reply
                do()

    def _death(self) -> Died:
        self._dead = True
        self.at_death()
        return Died()


def _gone(operation: Operation) -> StorageError:
    return StorageError(f"cannot {operation.verb} '{operation.name}': the network is gone", hint="try again")


def _tear(backend: MemoryBackend, operation: Operation, data: bytes) -> None:
    """Leave half a pack that was not there, as a plain upload does; storage owes whole files elsewhere."""
    if operation.name not in backend.files:
        backend.put(operation.name, data[: len(data) // 2])


class Struck(Backend):
    """Asks another backend, by way of a strike."""

    near = True

    def __init__(self, inner: MemoryBackend, store: str, strike: Strike) -> None:
        self.inner, self.store, self.strike = inner, store, strike
        self.url, self.exclusive = store, True

    def _asked(self, verb: str, name: str, *rest: Any) -> Any:
        return self.strike.request(self.inner, Operation(self.store, verb, name), rest)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._asked("read", name, offset, length)

    def head(self, name: str, length: int) -> bytes:
        return self._asked("head", name, length)

    def create(self, name: str, data: bytes) -> None:
        self._asked("create", name, data)

    def put(self, name: str, data: bytes) -> None:
        self._asked("put", name, data)

    def replace(self, name: str, data: bytes) -> None:
        self._asked("replace", name, data)

    def adopt(self, file: Path, name: str) -> None:
        self.replace(name, file.read_bytes())

    def size(self, name: str) -> int | None:
        return self._asked("size", name)

    def list(self, folder: str) -> Names:
        return self._asked("list", folder)

    def sizes(self, folder: str) -> dict[str, int]:
        return self._asked("sizes", folder)

    def children(self, folder: str) -> Names:
        return self._asked("children", folder)

    def newest(self, folder: str) -> str | None:
        return self._asked("newest", folder)

    def delete(self, name: str) -> None:
        self._asked("delete", name)

    def modified(self, name: str) -> float | None:
        return self._asked("modified", name)
