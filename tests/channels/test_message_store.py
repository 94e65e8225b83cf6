"""The message store: equal bits at both ends, little memory, and disks that are full or were changed."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import mvcs
from mvcs.channels import MessageStore, Quantizer
from mvcs.errors import CorruptionError, NotFoundError, StorageError, UsageError

GROUPS, WIDTH = 3, 10


def values(*samples, seed=0, groups=GROUPS, width=WIDTH):
    found = [np.random.default_rng([seed, sample]).normal(size=(groups, width)) for sample in samples]
    return np.array(found, np.float32).reshape(len(samples), groups, width)


def rounded(of, bits):
    if bits == 32:
        return of
    return Quantizer(bits).encode(of.reshape(-1, of.shape[-1]))[1].reshape(of.shape)


@pytest.mark.parametrize("memory", [0, 200, 1 << 20], ids=["disk", "both", "memory"])
@pytest.mark.parametrize("bits", [2, 4, 8, 16, 32])
def test_messages_are_read_as_they_were_rounded(tmp_path, memory, bits):
    store = MessageStore(tmp_path, memory, bits)
    store.write(0, [5, 7, 9], values(5, 7, 9))
    store.write(0, [9, 1], values(9, 1, seed=1))
    store.prefetch(0, [5, 9, 2])
    expected = np.concatenate([values(1, 9, seed=1), values(5)])
    assert np.array_equal(store.read(0, [1, 9, 5]), rounded(expected, bits))


def test_edges_are_apart(tmp_path):
    store = MessageStore(tmp_path, 100)
    store.write(0, [1], values(1))
    store.write(3, [1, 2], values(1, 2, seed=1, width=4))
    assert store.seen(0, [1, 2]).tolist() == [True, False]
    assert store.read(3, [2]).shape == (1, GROUPS, 4)
    assert not store.seen(1, [1]).any()


def test_samples_without_messages_are_named(tmp_path):
    store = MessageStore(tmp_path)
    store.write(0, [1], values(1))
    with pytest.raises(NotFoundError, match="edge 0 has no message of samples 4, 6"):
        store.read(0, [4, 1, 6])


@pytest.mark.parametrize("call", ["seen", "read", "prefetch", "write"])
def test_repeated_ids_are_named(tmp_path, call):
    store = MessageStore(tmp_path)
    more = (values(3, 4, 3),) if call == "write" else ()
    with pytest.raises(UsageError, match="a batch has sample 3 more than once"):
        getattr(store, call)(0, [3, 4, 3], *more)


def test_other_shapes_are_refused(tmp_path):
    store = MessageStore(tmp_path)
    store.write(0, [1], values(1))
    with pytest.raises(UsageError, match="edge 0 have 3 groups of 10 values, not 3 of 4"):
        store.write(0, [1], values(1, width=4))


@pytest.mark.parametrize("bits", [2, 8, 32])
def test_state_goes_to_another_store(tmp_path, bits):
    first, second = MessageStore(tmp_path, 100, bits), MessageStore(tmp_path, 0, bits)
    second.write(0, [77], values(77))
    for edge in (0, 2):
        first.write(edge, [4, 2, 8], values(4, 2, 8, seed=edge))
    second.load_state_dict(first.state_dict())
    assert second.seen(0, [4, 2, 8, 77]).tolist() == [True, True, True, False]
    for edge in (0, 2):
        assert np.array_equal(second.read(edge, [2, 8]), first.read(edge, [2, 8]))


def test_state_is_a_few_arrays(tmp_path):
    store = MessageStore(tmp_path)
    store.write(0, [4, 2], values(4, 2))
    found = store.state_dict()["edges"]["0"]
    assert (found["ids"].tolist(), found["scales"].shape, found["scales"].dtype) == (
        [4, 2],
        (2, 3),
        np.uint16,
    )
    assert (found["codes"].shape, found["codes"].dtype) == ((2, 3, 10), np.int16)


def test_state_of_other_bits_is_refused(tmp_path):
    state = MessageStore(tmp_path, bits=8).state_dict()
    with pytest.raises(UsageError, match="messages of 8 bits do not fit a store of 16 bits"):
        MessageStore(tmp_path).load_state_dict(state)


@pytest.mark.parametrize("bits", [4, 32])
def test_a_state_that_no_store_writes_is_refused_and_changes_nothing(tmp_path, bits):
    store = MessageStore(tmp_path, bits=bits)
    store.write(0, [1, 2], values(1, 2))
    state, before = store.state_dict(), store.read(0, [1, 2])
    good = state["edges"]["0"]
    nan = {"codes": np.full_like(good["codes"], -1)} if bits == 32 else {"scales": good["scales"] | 0x8000}
    short = {"codes": good["codes"][:1]}
    for bad in (nan, short, {"shape": [-GROUPS, -WIDTH]}, {"shape": None}, {"ids": np.array(["1", "2"])}):
        with pytest.raises((UsageError, CorruptionError)):
            store.load_state_dict({"bits": bits, "edges": {"0": good | bad}})
    for bad in ({"bits": bits}, {"bits": bits, "edges": {"x": good}}, {"bits": bits, "edges": {"0": {}}}):
        with pytest.raises(UsageError, match="no state of a message store"):
            store.load_state_dict(bad)
    assert np.array_equal(store.read(0, [1, 2]), before)


@pytest.mark.parametrize("bits", [8, 32])
def test_values_that_are_not_finite_are_refused(tmp_path, bits):
    store = MessageStore(tmp_path, bits=bits)
    with pytest.raises(UsageError, match=r"nan|NaN"):
        store.write(0, [1], values(1) * np.float32("nan"))
    assert not store.seen(0, [1]).any()


def test_an_id_beyond_int64_is_refused(tmp_path):
    with pytest.raises(UsageError, match="below 2\\^63"):
        MessageStore(tmp_path).write(0, np.array([2**63], np.uint64), values(1))


def test_no_samples_change_nothing(tmp_path):
    store = MessageStore(tmp_path)
    store.write(0, [], values())
    assert store.state_dict()["edges"] == {}


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_empty_messages_go_to_another_store(tmp_path, shape):
    first, second = MessageStore(tmp_path), MessageStore(tmp_path)
    first.write(0, [1, 2], np.empty((2, *shape), np.float32))
    second.load_state_dict(first.state_dict())
    assert second.read(0, [2, 1]).shape == (2, *shape)


@pytest.mark.parametrize(
    "settings", [{"memory": 1 << 60}, {"memory": 1 << 80}, {"bits": 8.0}, {"bits": True}, {"bits": [8]}]
)
def test_settings_that_mean_nothing_are_refused(tmp_path, settings):
    with pytest.raises(UsageError, match=f"{next(iter(settings))} cannot be"):
        MessageStore(tmp_path, **settings)


def test_a_commit_codes_messages_near_those_of_its_parent(tmp_path):
    store, sizes = MessageStore(tmp_path / "scratch", 100_000, 8), []
    repo = mvcs.open_or_init(tmp_path / "repo")
    for epoch in range(2):
        noise = values(*range(200), seed=epoch, width=200)
        store.write(
            0, range(200), values(*range(200), width=200) + (noise * np.float32(0.05) if epoch else 0)
        )
        repo.commit({"extra": {"messages": store.state_dict()}})
        sizes.append(sum(file.stat().st_size for file in (tmp_path / "repo").rglob("*") if file.is_file()))
    assert sizes[1] - sizes[0] < 0.6 * sizes[0]
    resumed = MessageStore(tmp_path / "scratch", 0, 8)
    resumed.load_state_dict(repo.checkout()["extra"]["messages"])
    assert np.array_equal(resumed.read(0, range(200)), store.read(0, range(200)))


class TwoEnds(RuleBasedStateMachine):
    """A sender and a receiver with other sizes of memory; batches in any order, drops, crashes, resumes."""

    ids = st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True)

    @initialize(bits=st.sampled_from([2, 8, 16, 32]))
    def begin(self, bits):
        self.bits, self.step = bits, 0
        self.committed, self.known = None, {}
        self.open()

    def open(self):
        self.ends = [MessageStore(self.folder, memory, self.bits) for memory in (100, 1000)]

    @rule(ids=ids, drops=st.booleans())
    def batch(self, ids, drops):
        self.step += 1
        sender, receiver = self.ends
        a, seen = values(*ids, seed=self.step), sender.seen(0, ids)
        assert np.array_equal(seen, receiver.seen(0, ids))
        known = [sample for sample, is_seen in zip(ids, seen, strict=True) if is_seen]
        sent = [a.copy(), a.copy()]
        if known:
            held = [end.read(0, known) for end in self.ends]
            payload, restored = Quantizer(4).encode((a[seen] - held[0]).reshape(-1, WIDTH))
            got = Quantizer(4).decode(payload, len(known) * GROUPS, WIDTH)
            sent[0][seen] = held[0] + restored.reshape(held[0].shape)
            sent[1][seen] = held[1] + got.reshape(held[1].shape)
        sender.write(0, ids, sent[0])
        if drops:  # the receiver never gets it: both processes end
            self.crash()
            return
        receiver.write(0, ids, sent[1])
        self.known |= dict(zip(ids, rounded(sent[0], self.bits), strict=True))

    @rule(ids=ids)
    def prefetch(self, ids):
        for end in self.ends:
            end.prefetch(0, ids)

    @rule()
    def commit(self):
        self.committed = [end.state_dict() for end in self.ends], dict(self.known)

    @rule()
    def crash(self):
        self.teardown()
        self.open()
        states, known = self.committed or ((), {})
        for end, state in zip(self.ends, states, strict=False):
            end.load_state_dict(state)
        self.known = dict(known)

    @invariant()
    def both_hold_the_same_bits(self):
        for end in self.ends:
            assert {one for one in range(10) if end.seen(0, [one])[0]} == set(self.known)
            for one, expected in self.known.items():
                assert np.array_equal(end.read(0, [one])[0], expected)

    def teardown(self):
        for end in self.ends:
            end.close()


def test_both_ends_hold_the_same_bits_whatever_happens(tmp_path):
    machine = type("Ends", (TwoEnds,), {"folder": tmp_path})
    few = settings(max_examples=25, stateful_step_count=15, deadline=None)
    run_state_machine_as_test(machine, settings=few)


def scratch_of(store):
    return store._path


def test_the_scratch_file_names_its_run_and_is_removed(tmp_path):
    store = MessageStore(tmp_path, 0)
    (file,) = tmp_path.iterdir()
    assert file.read_bytes() == b"MVCSMSG1" + store._run
    store.close()
    assert not list(tmp_path.iterdir())


def test_the_file_of_a_killed_process_is_removed(tmp_path):
    program = f"import os, mvcs.channels as c; s = c.MessageStore({str(tmp_path)!r}); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", program], check=False)
    (left,) = tmp_path.iterdir()
    store = MessageStore(tmp_path)
    assert list(tmp_path.iterdir()) == [scratch_of(store)] != [left]


def test_a_file_of_another_run_is_refused(tmp_path):
    store, other = MessageStore(tmp_path, 0), MessageStore(tmp_path, 0)
    for each in (store, other):
        each.write(0, [1], values(1))
    scratch_of(store).write_bytes(scratch_of(other).read_bytes())
    with pytest.raises(CorruptionError, match="one of another run"):
        store.read(0, [1])


def test_a_torn_file_is_refused(tmp_path):
    store = MessageStore(tmp_path, 0)
    store.write(0, [1, 2], values(1, 2))
    os.truncate(scratch_of(store), scratch_of(store).stat().st_size - 1)
    assert store.read(0, [1]).shape == (1, GROUPS, WIDTH)
    with pytest.raises(CorruptionError, match="is damaged"):
        store.read(0, [2])


def test_samples_that_a_full_disk_does_not_take_count_as_unseen(tmp_path):
    program = f"""
import logging, resource, numpy as np
from mvcs.channels import MessageStore
logging.basicConfig(level=logging.WARNING)
store = MessageStore({str(tmp_path)!r}, memory=5000, bits=8)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
for at in range(0, 20, 5):
    ids = np.arange(at, at + 5)
    store.write(0, ids, np.full((5, 1, 1000), at + 1, np.float32))
store.write(0, [7], np.full((1, 1, 1000), 3, np.float32))
print(store.seen(0, np.arange(20)).sum(), *store.read(0, [0, 7, 12])[:, 0, 0])
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    count, *restored = found.stdout.split()
    assert count == "13"  # 4 in memory, 9 in the file
    assert np.allclose([float(one) for one in restored], [1, 3, 11], rtol=0.02)
    assert found.stderr.count("their samples count as unseen") == 1


def test_what_messages_will_take_is_logged_with_the_first(tmp_path, caplog):
    caplog.set_level(logging.INFO, "mvcs.channels")
    store = MessageStore(tmp_path, memory=10_000, bits=16, samples=100)
    store.write(0, [1], values(1, groups=4, width=100))
    slot = 2 * 4 + 2 * 4 * 100
    assert f"edge 0 will take {(100 - 10_000 // slot) * (slot + 4)} bytes on disk" in caplog.text


def test_what_the_disk_lacks_is_refused_at_the_first_message(tmp_path):
    store = MessageStore(tmp_path, samples=10**13)
    with pytest.raises(StorageError, match="messages need"):
        store.write(0, [1], values(1))


def test_edges_are_reserved_one_after_another(tmp_path):
    store, slot = MessageStore(tmp_path, memory=10_000), 2 * 4 + 2 * 4 * 100
    assert store.reserve(0, 5, 4, 100) == 0
    assert store.reserve(1, 100, 4, 100) == (100 - (10_000 - 5 * slot) // slot) * (slot + 4)
    with pytest.raises(StorageError, match="messages need"):
        store.reserve(2, 10**12, 4, 100)


def test_messages_take_the_places_of_forgotten_ones(tmp_path):
    store = MessageStore(tmp_path, 200)
    store.write(0, range(9), values(*range(9)))
    size = scratch_of(store).stat().st_size
    for edge in (1, 2):
        store.forget(edge - 1)
        store.write(edge, range(9), values(*range(9), seed=edge))
    assert np.array_equal(store.read(2, range(9)), rounded(values(*range(9), seed=2), 16))
    assert scratch_of(store).stat().st_size == size


def test_samples_are_forgotten_one_by_one(tmp_path):
    store = MessageStore(tmp_path, 200)
    store.write(0, [1, 2, 3], values(1, 2, 3))
    store.forget(0, [2, 7])
    assert store.seen(0, [1, 2, 3]).tolist() == [True, False, True]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot write"):
        MessageStore(tmp_path / "file" / "folder")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is measured by Linux")
def test_a_store_takes_little_more_than_its_memory(tmp_path):
    memory, groups, width, batch = 8 << 20, 16, 2048, 32
    program = f"""
import pathlib, re, numpy as np
from mvcs.channels import MessageStore
def peak(): return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
values = np.random.default_rng(0).normal(size=({batch}, {groups}, {width})).astype(np.float32)
store = MessageStore({str(tmp_path)!r}, 0)
store.write(0, np.arange(2), values[:2]); store.read(0, [0, 1])
store.close()
before = peak()
store = MessageStore({str(tmp_path)!r}, {memory})
for _ in range(2):
    for at in range(0, {20 * memory // (2 * groups * width)}, {batch}):
        ids = np.arange(at, at + {batch})
        store.prefetch(0, ids)
        if store.seen(0, ids).all():
            store.read(0, ids)
        store.write(0, ids, values)
print(peak() - before, *(file.stat().st_size for file in pathlib.Path({str(tmp_path)!r}).iterdir()))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    added, on_disk = map(int, found.stdout.split())
    assert on_disk > 18 * memory
    assert added < memory + 3 * batch * groups * width * 4 + 50_000_000


@pytest.mark.parametrize("bits", [16, 32])
def test_values_may_be_changed_as_soon_as_they_are_written(tmp_path: Path, bits: int) -> None:
    store, values = MessageStore(tmp_path, memory=0, bits=bits), np.zeros((8, 4, 256), np.float32)
    for number in range(50):
        values[:] = number
        store.write(0, range(8), values)
        values[:] = -1
        assert np.allclose(store.read(0, range(8)), number, rtol=1e-3)
