"""Moving the data of commits beside a collector: nothing that counts comes to need what goes."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from mvcs.errors import StorageError
from mvcs.refs import HEADS, GoingError, Moved, RefStore
from mvcs.store import (
    CONDEMNED_PACKS,
    Backend,
    CondemnedLog,
    DataDrop,
    Manifests,
    Placement,
    Standing,
    pack_path,
    upgrade,
)
from tests.format import examples
from tests.store.in_memory import MemoryBackend
from tests.store.interleaved import Died, orders, some_orders
from tests.upkeep.test_collector_beside_writers import DAY, World, actors, collect, outcomes

COMMIT = examples.CHILD.id
OLD, NEW, OTHER = (bytes([number] * 32).hex() for number in range(3))


class BesideBackend(MemoryBackend):
    """A store where somebody does something right before the next record of a manifest."""

    beside: Callable[[], None] | None = None

    def create(self, name: str, data: bytes) -> None:
        if name.startswith("manifests") and self.beside is not None:
            act, self.beside = self.beside, None
            act()
        super().create(name, data)


class Store:
    """A commit that lies in the pack OLD, the pack NEW, and the log of a collector."""

    def __init__(self) -> None:
        self.backend = BesideBackend()
        self.manifests = Manifests(self.backend)
        self.manifests.write(replace(examples.MANIFEST, placement=Placement((OLD,))))
        for name in (OLD, NEW):
            self.backend.put(pack_path(name), b"a pack")
        upgrade(self.backend, CONDEMNED_PACKS, 0, "Ada")

    @property
    def log(self) -> CondemnedLog:
        found = CondemnedLog(self.backend, lambda: 0)
        found.look()
        return found

    def say(self, *standings: Standing, name: str = NEW) -> None:
        for standing in standings:
            self.log.say(standing, [name], "a collector")

    def move(self, *packs: str) -> list[Moved]:
        moved = Moved(COMMIT, Placement(packs or (NEW,)), self.manifests.placement(COMMIT))
        return RefStore(self.backend).duties.move(self.manifests, [moved], "Ada")

    def record(self, placement: Placement) -> None:
        made = replace(examples.MANIFEST, placement=placement)
        RefStore(self.backend).duties.record(self.manifests, [made], "Ada")

    @property
    def packs(self) -> tuple[str, ...]:
        return Manifests(self.backend).placement(COMMIT).packs


@pytest.fixture
def store() -> Store:
    return Store()


def test_a_commit_that_is_there_is_moved_to_the_packs_that_arrived() -> None:
    store = Store()
    store.record(Placement((NEW,)))
    assert store.packs == (NEW,)


def test_packs_that_are_going_are_refused_before_a_commit_that_is_there_names_them() -> None:
    store = Store()
    store.say(Standing.CONDEMNED, Standing.GOING)
    with pytest.raises(GoingError):
        store.record(Placement((NEW,)))
    assert store.packs == (OLD,)


def test_data_that_are_there_stay_where_another_store_dropped_them() -> None:
    store = Store()
    store.record(Placement((NEW,), dropped=DataDrop(1)))
    assert store.packs == (OLD,)


def test_data_lie_where_they_were_moved_to(store: Store) -> None:
    (moved,) = store.move()
    assert (store.packs, moved.now.number) == ((NEW,), 1)


def test_what_is_condemned_is_released_before_it_is_needed(store: Store) -> None:
    store.say(Standing.CONDEMNED)
    store.move()
    assert store.log.of(Standing.RELEASED) == {NEW}


@pytest.mark.parametrize("said", [(Standing.GOING,), (Standing.GOING, Standing.GONE)])
def test_data_are_not_moved_to_what_is_going_or_went(store: Store, said: tuple[Standing, ...]) -> None:
    store.say(*said)
    if Standing.GONE in said:
        store.backend.delete(pack_path(NEW))
    with pytest.raises(GoingError) as caught:
        store.move()
    assert caught.value.packs == {NEW}
    assert store.manifests.numbers(COMMIT) == [0]


def test_what_went_and_was_written_again_may_be_needed(store: Store) -> None:
    store.say(Standing.GOING, Standing.GONE)
    assert len(store.move()) == 1


def test_what_goes_while_data_are_moved_there_leaves_them_where_they_were(store: Store) -> None:
    store.backend.beside = lambda: store.say(Standing.GOING)
    with pytest.raises(GoingError):
        store.move()
    assert store.packs == (OLD,)
    assert store.manifests.numbers(COMMIT) == [2, 1, 0]


def test_what_else_goes_meanwhile_does_no_harm(store: Store) -> None:
    store.backend.beside = lambda: store.say(Standing.GOING, name=OTHER)
    assert len(store.move()) == 1
    assert store.packs == (NEW,)


def test_where_another_writer_was_first_his_word_stays(store: Store) -> None:
    def first() -> None:
        store.manifests.append(COMMIT, Placement((OTHER,)), store.manifests.placement(COMMIT))

    store.backend.beside = first
    assert store.move() == []
    assert store.packs == (OTHER,)


def test_what_goes_is_not_taken_back_over_the_word_of_another_writer(store: Store) -> None:
    """He went on behind the record that has to be taken back, and looks at the log himself."""
    append = store.manifests.append

    def beside() -> None:
        store.say(Standing.GOING)
        store.backend.beside = lambda: append(COMMIT, Placement((OTHER,)), store.manifests.placement(COMMIT))

    store.backend.beside = beside
    with pytest.raises(GoingError):
        store.move()
    assert store.packs == (OTHER,)


def test_nothing_is_moved_where_the_log_cannot_be_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: str) -> list[str]:
        if folder == "gc":
            raise StorageError("no answer")
        return MemoryBackend.children(store.backend, folder)

    monkeypatch.setattr(store.backend, "children", refuse)
    with pytest.raises(StorageError):
        store.move()
    assert store.packs == (OLD,)


class SpareWorld(World):
    """The same with a pack that nothing needs, where the data of the branch could lie as well."""

    def __init__(self) -> None:
        super().__init__()
        self.store.put(pack_path(NEW), b"a pack")
        self.store.grow_old(30)
        self.commit = RefStore(self.store).newest(HEADS, "main").target

    def move(self, backend: Backend) -> list[Moved]:
        manifests = Manifests(backend)
        moved = Moved(self.commit, Placement((NEW,)), manifests.placement(self.commit))
        return RefStore(backend).duties.move(manifests, [moved], "Ada")


WAITS = {"of what was condemned": DAY, "that condemns as well": 0}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_move_beside_a_collection(wait: float) -> None:
    world = SpareWorld() if not wait else SpareWorld().condemned()
    outcomes(some_orders(world.store, actors(collect(wait), world.move), 24))


@pytest.mark.slow
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_move_beside_a_collection_in_every_order(wait: float) -> None:
    world = SpareWorld() if not wait else SpareWorld().condemned()
    assert outcomes(orders(world.store, actors(collect(wait), world.move))) == {GoingError, None}


@pytest.mark.parametrize("writes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_mover_that_dies_beside_a_collector_that_deletes(writes: int) -> None:
    world = SpareWorld().condemned()
    cast = actors(collect(DAY), world.move, dies_after=writes)
    assert outcomes(orders(world.store, cast)) == {GoingError, Died}
