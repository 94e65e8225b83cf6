"""A collector beside writers that need what it wants gone: every order of their requests, in real code."""

from collections import Counter

import numpy as np
import pytest

from mvcs import Repository
from mvcs.config import Config
from mvcs.errors import ConflictError, LostError, NotFoundError
from mvcs.history import GraphNeeds
from mvcs.history.commit_graph import Graph
from mvcs.local import Place, Trust
from mvcs.local.store_description import Description
from mvcs.progress import SILENT
from mvcs.refs import HEADS, GoingError, Marked, RefChange, RefStore
from mvcs.remotes import RefToPush, TransferSide, TransferTerms, push_refs
from mvcs.store.reading.objects import ObjectStore
from mvcs.upkeep.collecting.garbage import collect_garbage, named
from tests.store.in_memory import MemoryBackend
from tests.store.interleaved import Actor, Died, orders, some_orders

DESCRIPTION = Description("00" * 16, "11" * 16)
DAY = 24 * 3600


def place(backend):
    return Place(None, None, backend, DESCRIPTION, Config(None), Trust(None, frozenset()))


def state(number):
    return {"weight": np.full((8, 8), number, np.float32), "step": number}


class World:
    """A store with a branch, and a commit, long ago, of which nothing leads to any more."""

    def __init__(self):
        self.store = MemoryBackend()
        self.store.put("mvcs.json", DESCRIPTION.encode())
        with Repository(place(self.store)) as repo:
            repo.commit(state(0))
            info = repo.commit(state(1), branch="lost")
        record = RefStore(self.store).newest(HEADS, "lost")
        self.lost = RefChange(record.target, "Ada", f"branch: {info.id[:8]}")
        for name in self.store.list("refs/heads/lost"):
            self.store.delete(name)
        self.store.grow_old(30)

    @staticmethod
    def kept(store):
        """The packs of the branch."""
        objects = ObjectStore(store)
        needs = GraphNeeds(objects, Graph(objects))
        names = needs(RefStore(store).newest(HEADS, "main").target, Marked())
        return {path for path in store.files if named(path) in names}

    def condemned(self):
        """The same a day after its garbage was condemned."""
        collect_garbage(place(self.store), 0, wait=DAY, execute=True)
        self.store.grow_old(2)
        return self


def collect(wait=0.0):
    def work(backend):
        return collect_garbage(place(backend), 0, wait=wait, execute=True)

    return work


def name_lost(world, name="back"):
    def work(backend):
        store = ObjectStore(backend)
        refs = RefStore(backend, needs=GraphNeeds(store, Graph(store)))
        return refs.update(HEADS, name, refs.newest(HEADS, name), world.lost)

    return work


def commit_again(world):
    """Commit what the lost commit holds, from a clone that knows its packs."""

    def work(backend):
        with Repository(place(backend)) as repo:
            repo._session.store.catalog.attach_commit(world.lost.target)
            repo.commit(state(1))

    return work


def push_again(world):
    """Push the lost commit from a clone that has it, to where its packs still lie."""
    clone = world.store.copy()
    RefStore(clone).update(HEADS, "back", None, world.lost)

    def work(backend):
        here, there = (TransferSide.of(ObjectStore(side)) for side in (clone.copy(), backend))
        wish = RefToPush(HEADS, "back", here.refs.read(HEADS, "back"))
        terms = TransferTerms("Ada", SILENT, lambda _: None)
        return push_refs(here, there, [wish], terms)

    return work


def check(run):
    """Everything that a branch leads to is there; who failed says that packs were going, or are gone."""
    store = ObjectStore(run.store)
    needs = GraphNeeds(store, Graph(store))
    there = {named(name) for name in run.store.files}
    for record in RefStore(run.store).survey(HEADS).whole.values():
        assert needs(record.target, Marked()) <= there, run.order
    for actor in run.actors:
        if isinstance(actor.outcome, BaseException):
            fine = (GoingError, NotFoundError, ConflictError, Died)
            assert isinstance(actor.outcome, fine), actor.outcome


def outcomes(runs, number=-1):
    """Check each order; return what became of an actor, and how often."""
    found = Counter()
    for run in runs:
        check(run)
        outcome = run.actors[number].outcome
        found[type(outcome) if isinstance(outcome, BaseException) else None] += 1
    return set(found)


def actors(*works, **last):
    return lambda: [*map(Actor, works[:-1]), Actor(works[-1], **last)]


@pytest.mark.parametrize("writes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_writer_that_dies_beside_a_collector_that_deletes(writes):
    world = World().condemned()
    cast = actors(collect(DAY), name_lost(world), dies_after=writes)
    assert Died in outcomes(orders(world.store, cast))


@pytest.mark.parametrize("changes", range(1, 8))
def test_a_collector_that_dies(changes):
    """Where it died another one goes on, beside a writer."""
    world = World().condemned()
    [first] = orders(world.store, lambda: [Actor(collect(DAY), changes)])
    assert isinstance(first.actors[0].outcome, Died) == (changes < 5)
    first.store.grow_old(2)
    outcomes(orders(first.store, actors(collect(DAY), name_lost(world))))


CASTS = {
    "a writer": lambda world: actors(collect(DAY), name_lost(world)),
    "a push that finds the packs there": lambda world: actors(collect(DAY), push_again(world)),
    "a writer that sleeps through a whole collection": lambda world: actors(collect(), name_lost(world)),
    "a commit that depends on what is marked for deletion": lambda world: actors(
        collect(DAY), commit_again(world), bulk_is_quiet=True
    ),
}
LARGE = {
    "a commit that depends on what goes": lambda world: actors(
        collect(), commit_again(world), bulk_is_quiet=True
    ),
    "two collectors": lambda world: actors(collect(DAY), collect(DAY), name_lost(world)),
    "two writers": lambda world: actors(collect(DAY), name_lost(world), name_lost(world, "other")),
    "two writers of one branch": lambda world: actors(collect(DAY), name_lost(world), name_lost(world)),
    "a writer and a commit": lambda world: actors(
        collect(DAY), name_lost(world), commit_again(world), bulk_is_quiet=True
    ),
}


def worlds(name):
    return World() if "whole" in name or "what goes" in name else World().condemned()


@pytest.mark.parametrize("name", [*CASTS, *LARGE])
def test_some_orders(name):
    world = worlds(name)
    outcomes(some_orders(world.store, (CASTS | LARGE)[name](world), 24))


EVERY = {
    "a writer": {None, GoingError, LostError},
    "a push that finds the packs there": {None, GoingError},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASTS)
def test_every_order(name):
    world = worlds(name)
    found = outcomes(orders(world.store, CASTS[name](world)))
    assert found == EVERY.get(name, found)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_many_orders(name):
    world = worlds(name)
    outcomes(some_orders(world.store, LARGE[name](world), 500, seed=1))
