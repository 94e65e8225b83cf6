"""Actors that do real work on one store, stepped through what they ask of it in every order that matters.

Each actor runs in a thread of its own and stops before each request, until it is its turn. All orders are
gone through one after the other, each from the beginning, but for those that differ from another one only in
requests which do not touch the same names (sleep sets, as in stateless model checking).
"""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mvcs.store.backend import Backend
from tests.store.in_memory import MemoryBackend

QUIET = ("tmp", "mvcs.json")
BULK = ("packs", "exact")
WRITES = frozenset({"create", "put", "replace", "adopt", "delete"})


class Died(BaseException):
    """The actor's process is gone."""


@dataclass(frozen=True)
class Request:
    """What an actor asks of the store next."""

    verb: str
    name: str

    @property
    def writes(self) -> bool:
        return self.verb in WRITES

    def touches(self, other: "Request") -> bool:
        """Tell whether it matters which of two requests comes first."""
        if not (self.writes or other.writes):
            return False
        return f"{self.name}/".startswith(f"{other.name}/") or f"{other.name}/".startswith(f"{self.name}/")


@dataclass
class Actor:
    """One process: its work, and how far it is.

    Attributes:
        work: is given the store.
        dies_after: how many changes it makes before it dies; None for never. Reads change nothing, so
            where between them it dies does not matter.
        bulk_is_quiet: whether what it asks of packs, but for deleting, goes with its request before.
        outcome: what the work returned, or the error by which it ended.
    """

    work: Callable[[Backend], Any]
    dies_after: int | None = None
    bulk_is_quiet: bool = False
    outcome: Any = None
    asked: list[Request] = field(default_factory=list)
    next: Request | None = None
    done: bool = False
    _go: threading.Event = field(default_factory=threading.Event)
    _idle: threading.Event = field(default_factory=threading.Event)
    _lock: Any = field(default_factory=threading.RLock)
    _in_bulk: bool = False

    def start(self, store: MemoryBackend) -> None:
        threading.Thread(target=self._run, args=(store,), daemon=True).start()
        self._idle.wait()

    def _run(self, store: MemoryBackend) -> None:
        try:
            self.outcome = self.work(Stepped(store, self))
        except BaseException as error:  # noqa: BLE001 - a test looks at it
            self.outcome = error
        self.done, self.next = True, None
        self._idle.set()

    def step(self) -> None:
        """Let it do what it asks for, up to its next request."""
        self._idle.clear()
        self._go.set()
        self._idle.wait()

    def ask(self, request: Request, answer: Callable[[], Any]) -> Any:
        """Wait for one's turn; reading several packs in a row is one turn."""
        with self._lock:
            bulk = not request.writes and request.name.split("/")[0] in BULK
            quiet = bulk and self._in_bulk
            if self.bulk_is_quiet and request.verb != "delete":
                quiet = request.name.split("/")[0] in BULK
            if request.name.split("/")[0] not in QUIET and not quiet:
                self._wait(Request("read", "packs") if bulk else request)
                self._in_bulk = bulk
            return answer()

    def _wait(self, request: Request) -> None:
        if self.dies_after == sum(asked.writes for asked in self.asked):
            raise Died
        self.next = request
        self._go.clear()
        self._idle.set()
        self._go.wait()
        self.asked.append(request)


class Stepped(Backend):
    """The store as one actor sees it."""

    def __init__(self, store: MemoryBackend, actor: Actor) -> None:
        self.store, self.actor = store, actor
        self.url, self.near = store.url, store.near


def _stepped(verb: str) -> Callable[..., Any]:
    def request(self: Stepped, name: str, *arguments: Any, **named: Any) -> Any:
        return self.actor.ask(
            Request(verb, name), lambda: getattr(self.store, verb)(name, *arguments, **named)
        )

    return request


HASTE = 0.05  # how often the actors change their pace, a request
VERBS = ("read", "head", "create", "put", "size", "list", "children", "newest", "delete", "modified")
for _verb in VERBS:
    setattr(Stepped, _verb, _stepped(_verb))
Stepped.__abstractmethods__ = frozenset()


@dataclass
class _Node:
    open: dict[int, Request]
    asleep: set[int]
    tried: set[int] = field(default_factory=set)
    chosen: int = -1

    def choose(self) -> bool:
        left = sorted(set(self.open) - self.asleep - self.tried)
        self.chosen = left[0] if left else -1
        return bool(left)

    def asleep_after(self) -> set[int]:
        now = self.open[self.chosen]
        return {actor for actor in self.asleep | self.tried if not self.open[actor].touches(now)}


@dataclass
class Run:
    """One order: the store as it is in the end, and the actors."""

    store: MemoryBackend
    actors: Sequence[Actor]
    order: list[tuple[int, Request]]


def orders(store: MemoryBackend, cast: Callable[[], Sequence[Actor]], most: int = 100_000) -> Iterator[Run]:
    """Yield every order in which the actors that `cast` makes anew can go, each on a copy of `store`."""
    path: list[_Node] = []
    for _ in range(most):
        run, cut = _run(store.copy(), cast(), path)
        if not cut:
            yield run
        while path:
            path[-1].tried.add(path[-1].chosen)
            if path[-1].choose():
                break
            path.pop()
        if not path:
            return
    raise AssertionError(f"there are more than {most} orders")


def some_orders(
    store: MemoryBackend, cast: Callable[[], Sequence[Actor]], count: int, seed: int = 0
) -> Iterator[Run]:
    """Yield some orders, drawn at random; some actors are quicker than others for a while."""
    drawn = random.Random(seed)
    for _ in range(count):
        run = Run(store.copy(), cast(), [])
        paces = [drawn.random() ** 4 for _ in run.actors]
        for actor in run.actors:
            actor.start(run.store)
        while waiting := {number: actor.next for number, actor in enumerate(run.actors) if actor.next}:
            if drawn.random() < HASTE:
                paces = [drawn.random() ** 4 for _ in run.actors]
            chosen = drawn.choices(sorted(waiting), [paces[actor] for actor in sorted(waiting)])[0]
            run.order.append((chosen, waiting[chosen]))
            run.actors[chosen].step()
        yield run


def _run(store: MemoryBackend, actors: Sequence[Actor], path: list[_Node]) -> tuple[Run, bool]:
    for actor in actors:
        actor.start(store)
    order: list[tuple[int, Request]] = []
    cut = False
    while waiting := {number: actor.next for number, actor in enumerate(actors) if actor.next}:
        depth = len(order)
        if depth == len(path) and not cut:
            node = _Node(waiting, path[-1].asleep_after() if path else set())
            cut = not node.choose()
            if not cut:
                path.append(node)
        # An order that others cover already is only brought to its end.
        chosen = min(waiting) if cut else path[depth].chosen
        order.append((chosen, waiting[chosen]))
        actors[chosen].step()
    return Run(store, actors, order), cut
