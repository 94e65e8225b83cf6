"""A collector to which something happens at every one of its requests: nothing is lost, and it goes on."""

import pytest

from mvcs.errors import MvcsError, StorageError
from mvcs.refs import HEADS, RefStore
from mvcs.store.condemned.record import Standing
from mvcs.upkeep.collecting.garbage import collect_garbage, named
from tests.store.in_memory import MemoryBackend
from tests.store.interleaved import WRITES, Died
from tests.upkeep.test_collector_beside_writers import DAY, World, name_lost, place
from tests.upkeep.test_condemnation import log_of

VERBS = ("read", "head", "create", "put", "size", "list", "children", "newest", "delete", "modified")


class Faulty(MemoryBackend):
    """A store at whose n-th request something happens: see `FAULTS`."""

    left = -1
    fault = staticmethod(lambda *_: None)


def _faulty(verb):
    real = getattr(MemoryBackend, verb)

    def request(self, name, *arguments):
        self.left -= 1
        if self.left == -1:
            return self.fault(self, verb, lambda: real(self, name, *arguments), name, *arguments)
        return real(self, name, *arguments)

    return request


for _verb in VERBS:
    setattr(Faulty, _verb, _faulty(_verb))


def refused(_self, _verb, _do, name, *_):
    raise StorageError(f"'{name}': the network is gone")


def reply_lost(_self, _verb, do, name, *_):
    do()
    raise StorageError(f"'{name}': the network is gone")


def dies_before(_self, _verb, _do, *_):
    raise Died


def dies_after(_self, _verb, do, *_):
    do()
    raise Died


def torn(self, verb, do, name, *arguments):
    """Storage owes whole files; that half a record of an upgrade stops everybody stands on the pages."""
    if verb in {"create", "put"} and not name.startswith("format/"):
        self.files[name] = arguments[0][: len(arguments[0]) // 2], self.files["mvcs.json"][1]
    elif verb in WRITES:
        do()
    raise Died


FAULTS = [refused, reply_lost, dies_before, dies_after, torn]
MOST = 200


def files_of(store):
    return {name for name in store.files if named(name)}


def collect(store):
    return collect_garbage(place(store), 0, wait=DAY, execute=True)


def settles(store):
    """Collect until nothing is left to do, a day apart."""
    for _ in range(6):
        collect(store)
        store.grow_old(2)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("condemned", [False, True])
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_fault_at_any_request_of_a_collector_loses_nothing(fault, condemned, every):
    world = World().condemned() if condemned else World()
    clean = World.kept(world.store)
    for number in range(FAULTS.index(fault) % every, MOST, every):
        store = Faulty(world.store.files)
        store.left, store.fault = number, fault
        try:
            collect(store)
            met = False
        except (MvcsError, Died):
            met = True
        ended = store.left >= 0
        store.left = -1_000_000
        assert clean <= files_of(store)
        if not ended:
            check_after(world, store, clean)
        else:
            assert not met
            break
    else:
        raise AssertionError("it asks for more than expected")


def check_after(world, store, clean):
    """A writer names the lost commit or is refused; without one all garbage goes in the end."""
    other = store.copy()
    try:
        name_lost(world)(other)
    except MvcsError:
        assert RefStore(other).read(HEADS, "back") is None
        needed = clean
    else:
        needed = files_of(world.store)
    for each, packs in ((other, needed), (store, clean)):
        each.grow_old(2)
        settles(each)
        assert packs <= files_of(each)
        assert log_of(each).of(Standing.CONDEMNED, Standing.GOING) == set()
    assert files_of(store) == clean
