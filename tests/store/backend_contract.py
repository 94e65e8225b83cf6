"""What every backend owes the store, as one suite; a subclass brings the fixture `backend`."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from math import isnan
from pathlib import Path
from threading import Barrier

import pytest

from mvcs.errors import ConflictError, CorruptionError, NotFoundError, StorageError
from mvcs.refs.refstore import HEADS, RefChange, RefStore
from mvcs.store.backend import Backend
from mvcs.store.backend.clock import store_time
from mvcs.store.backend.probe import probe_exclusive_create

# Each process creates the names it is given and prints those it won.
RACER = """
import json, os, sys
from mvcs.errors import ConflictError
from mvcs.store.backend import open_backend
url, options, names = json.loads(sys.argv[1])
backend = open_backend(url, options)
print("ready", flush=True)
sys.stdin.readline()
won = []
for name in names:
    try:
        backend.create(name, os.urandom(16))
        won.append(name)
    except ConflictError:
        pass
print(json.dumps(won))
"""


class BackendContract:
    """Subclass it with a fixture `backend`: an empty backend of the kind under test."""

    def test_reading_gives_back_what_was_put(self, backend: Backend) -> None:
        data = os.urandom(5000)
        backend.put("packs/ab/x.pack", data)
        assert backend.read("packs/ab/x.pack") == data
        assert backend.read("packs/ab/x.pack", 100, 7) == data[100:107]
        assert backend.read("packs/ab/x.pack", 4990) == data[4990:]
        assert backend.read("packs/ab/x.pack", -10) == data[-10:]
        assert backend.read("packs/ab/x.pack", -10_000) == data
        assert backend.size("packs/ab/x.pack") == 5000

    def test_the_head_of_a_file_is_no_longer_than_asked(self, backend: Backend) -> None:
        backend.put("p", b"0123456789")
        backend.put("empty", b"")
        assert [backend.head("p", length) for length in (4, 10, 100)] == [
            b"0123",
            b"0123456789",
            b"0123456789",
        ]
        assert backend.head("empty", 4) == b""
        with pytest.raises(NotFoundError):
            backend.head("absent", 4)

    def test_a_small_file_that_is_large_is_refused(self, backend: Backend) -> None:
        backend.put("p", b"0123456789")
        assert backend.read_small("p", 10) == b"0123456789"
        with pytest.raises(CorruptionError, match="more than 9 bytes"):
            backend.read_small("p", 9)

    def test_putting_again_is_harmless(self, backend: Backend) -> None:
        backend.put("p", b"same")
        backend.put("p", b"same")
        assert backend.read("p") == b"same"

    def test_a_damaged_file_of_the_same_size_is_replaced(self, backend: Backend) -> None:
        backend.put("packs/ab/x.pack", b"rotten")
        backend.replace("packs/ab/x.pack", b"mended")
        backend.replace("packs/ab/new.pack", b"1")
        assert backend.read("packs/ab/x.pack") == b"mended"
        assert backend.list("") == ["packs/ab/new.pack", "packs/ab/x.pack"]

    def test_a_file_of_this_machine_is_adopted_in_the_place_of_another(
        self, backend: Backend, tmp_path: Path
    ) -> None:
        backend.put("packs/ab/x.pack", b"rotten")
        for name in ("packs/ab/x.pack", "packs/cd/y.pack"):
            (tmp_path / "file").write_bytes(b"mended")
            backend.adopt(tmp_path / "file", name)
            assert backend.read(name) == b"mended"
        with pytest.raises((NotFoundError, StorageError)):
            backend.adopt(tmp_path / "nothing", "packs/cd/z.pack")
        assert backend.list("packs") == ["packs/ab/x.pack", "packs/cd/y.pack"]

    def test_sizes_are_listed_with_the_names(self, backend: Backend) -> None:
        for size in (0, 1, 5000):
            backend.put(f"packs/ab/{size}", bytes(size))
        backend.put("other/1", b"")
        assert backend.sizes("packs") == {"packs/ab/0": 0, "packs/ab/1": 1, "packs/ab/5000": 5000}
        assert list(backend.sizes("packs")) == backend.list("packs")
        assert backend.sizes("nothing") == {}

    @pytest.mark.parametrize("size", [0, 1, 5000, 1 << 20, (3 << 20) + 17])
    def test_staged_pieces_become_a_file(self, backend: Backend, size: int) -> None:
        data = os.urandom(size)
        for _ in range(2):
            staged = backend.stage()
            for start in range(0, size, 700_001):
                staged.write(memoryview(data)[start : start + 700_001])
            staged.publish("packs/ab/staged.pack")
        assert backend.read("packs/ab/staged.pack") == data
        assert backend.list("") == ["packs/ab/staged.pack"]

    def test_nothing_stays_of_a_staged_file_that_is_discarded(self, backend: Backend) -> None:
        staged = backend.stage()
        staged.write(bytes(2 << 20))
        staged.discard()
        assert backend.list("") == []

    def test_a_file_tells_when_it_was_written(self, backend: Backend) -> None:
        backend.put("one", b"1")
        backend.put("two", b"2")
        first, second = backend.modified("one"), backend.modified("two")
        assert 0 < first <= second
        assert backend.modified("nothing") is None
        assert backend.modified("one/below") is None

    def test_an_empty_file_is_a_file(self, backend: Backend) -> None:
        backend.put("empty", b"")
        assert backend.size("empty") == 0
        assert backend.read("empty") == b""
        assert backend.list("") == ["empty"]

    def test_what_is_missing_is_not_found(self, backend: Backend) -> None:
        for name in ("nothing", "no/such/folder"):
            assert backend.size(name) is None
            for arguments in ((), (-10,), (0, 4)):
                with pytest.raises(NotFoundError):
                    backend.read(name, *arguments)
            backend.delete(name)
        assert backend.list("no/such/folder") == []
        assert backend.children("no/such/folder") == []
        assert backend.newest("no/such/folder") is None

    def test_a_read_that_comes_back_short_is_an_error(self, backend: Backend) -> None:
        backend.put("short", b"0123456789")
        for offset, length in ((0, 11), (5, 6), (8, 1 << 40), (100, 1)):
            with pytest.raises(StorageError):
                backend.read("short", offset, length)

    def test_create_refuses_a_second_file(self, backend: Backend) -> None:
        backend.create("refs/heads/main/99999999", b"first")
        with pytest.raises(ConflictError):
            backend.create("refs/heads/main/99999999", b"other")
        assert backend.read("refs/heads/main/99999999") == b"first"

    def test_creating_the_same_bytes_again_counts_as_our_own_write(self, backend: Backend) -> None:
        backend.create("a/record", b"bytes")
        backend.create("a/record", b"bytes")
        assert backend.read("a/record") == b"bytes"

    def test_a_deleted_file_is_gone_and_its_name_free(self, backend: Backend) -> None:
        backend.create("x/y", b"1")
        backend.delete("x/y")
        assert backend.size("x/y") is None
        assert backend.list("x") == []
        backend.create("x/y", b"2")
        assert backend.read("x/y") == b"2"

    def test_lists_are_sorted_and_stay_in_their_folder(self, backend: Backend) -> None:
        names = ["ab/2", "ab/10", "ab/c/1", "abc/1", "a.b/1", "ab%2Fc/1", "b"]
        for name in names:
            backend.put(name, name.encode())
        assert backend.list("ab") == ["ab/10", "ab/2", "ab/c/1"]
        assert backend.list("") == sorted(names)
        assert backend.children("ab") == ["10", "2", "c"]
        # A local folder has a place for temporary files, which is no file.
        assert [name for name in backend.children("") if name != "tmp"] == ["a.b", "ab", "ab%2Fc", "abc", "b"]

    def test_stamps_are_the_sizes_and_times_of_all_files_below_a_folder(self, backend: Backend) -> None:
        names = ["ab/1", "ab/c/2"]
        for name in [*names, "abc/3"]:
            backend.put(name, b".")
        stamps = backend.stamps("ab")
        assert list(stamps) == names
        for name, (size, stamp) in stamps.items():
            told = backend.modified(name)
            assert size == backend.size(name)
            assert isnan(stamp) if told is None else abs(stamp - told) < 1
        assert backend.stamps("no/such/folder") == {}

    def test_a_file_that_is_written_again_has_another_stamp(self, backend: Backend) -> None:
        """As far as the store tells times at all, and its clock went on."""
        backend.create("ab/1", b"one")
        before = backend.stamps("ab")["ab/1"][1]
        backend.delete("ab/1")
        while store_time(backend) == before:
            pass
        backend.create("ab/1", b"two")
        assert backend.stamps("ab")["ab/1"][1] != before

    def test_the_newest_record_is_the_first_number(self, backend: Backend) -> None:
        for name in ("99999999", "99999997", "99999998", "note"):
            backend.put(f"refs/heads/x/{name}", b"r")
        backend.put("refs/heads/xy/00000001", b"r")
        assert backend.newest("refs/heads/x") == "refs/heads/x/99999997"

    @pytest.mark.parametrize(
        "count", [110, pytest.param(1100, marks=pytest.mark.slow)]
    )  # S3 lists a thousand at once
    def test_many_names_are_all_listed(self, backend: Backend, count: int) -> None:
        names = [f"many/{number:04}" for number in range(count)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: backend.put(name, b"."), names))
        assert backend.list("many") == names
        assert len(backend.children("many")) == count

    def test_a_megabyte_pack_from_several_threads(self, backend: Backend) -> None:
        contents = {f"packs/{number}": os.urandom(1 << 20) for number in range(4)}
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda item: backend.put(*item), contents.items()))
            assert list(pool.map(backend.read, contents)) == list(contents.values())


class ExclusiveContract(BackendContract):
    """The suite for backends whose create holds when writers race."""

    def test_of_racing_threads_one_wins(self, backend: Backend) -> None:
        barrier = Barrier(4)

        def race(number: int) -> bool:
            barrier.wait()
            try:
                backend.create("race", bytes([number]))
            except ConflictError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            won = list(pool.map(race, range(4)))
        assert won.count(True) == 1
        assert backend.read("race") == bytes([won.index(True)])

    def test_the_probe_trusts_it_and_leaves_nothing(self, backend: Backend) -> None:
        assert probe_exclusive_create(backend)
        assert backend.list("") == []

    def test_racing_ref_updates_lose_none(self, backend: Backend) -> None:
        """Four writers append to one name; every record is there, each on the one before."""

        def append(writer: int) -> None:
            for _ in range(3):
                RefStore(backend).append(HEADS, "main", RefChange(None, f"w{writer}", "test"))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(append, range(4)))
        history = list(RefStore(backend).history(HEADS, "main"))
        assert [record.number for record in history] == list(range(11, -1, -1))
        assert sorted(record.author for record in history) == sorted(
            f"w{n}" for n in range(4) for _ in range(3)
        )


class SharedContract(ExclusiveContract):
    """The suite for backends that several processes reach; the fixture `address` says how."""

    def test_of_racing_processes_one_wins(self, backend: Backend, address: str) -> None:
        command = [sys.executable, "-c", RACER, address]
        racers = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        for racer in racers:
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        won = [json.loads(racer.communicate()[0]) for racer in racers]
        names = json.loads(address)[2]
        assert sorted(won[0] + won[1]) == sorted(names)
        assert sorted(backend.list("duel")) == sorted(names)
