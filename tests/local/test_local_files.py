"""Small local files: replaced whole, changed by one process at a time, never followed elsewhere."""

import fcntl
import multiprocessing

import pytest

from mvcs.config import Config
from mvcs.errors import StorageError
from mvcs.local.records import LocalRecords
from mvcs.local_files import locked, replace_file

PROCESSES, ROUNDS = 4, 12


def _settle(path, number):
    for turn in range(ROUNDS):
        Config(path).set(f"metric.m{number}x{turn}.goal", "max")


def _count(local, _):
    for _ in range(ROUNDS):
        with LocalRecords(local).change("counter") as record:
            record["total"] = record.get("total", 0) + 1


def _side_by_side(work, place):
    context = multiprocessing.get_context("fork")
    running = [context.Process(target=work, args=(place, number)) for number in range(PROCESSES)]
    for process in running:
        process.start()
    for process in running:
        process.join()
        assert process.exitcode == 0


def test_settings_made_side_by_side_are_all_kept(tmp_path):
    path = tmp_path / "config.toml"
    Config(path).set("user.name", "Ada")
    _side_by_side(_settle, path)
    assert len(Config(path).names("metric")) == PROCESSES * ROUNDS
    assert Config(path).get("user.name") == "Ada"


def test_records_changed_side_by_side_lose_no_change(tmp_path):
    _side_by_side(_count, tmp_path)
    assert LocalRecords(tmp_path).read("counter") == {"total": PROCESSES * ROUNDS}


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_record_is_an_empty_one(tmp_path, content):
    records = LocalRecords(tmp_path)
    with records.change("seen") as record:
        record["main"] = 3
    (tmp_path / "local" / "seen.json").write_bytes(content)
    assert records.read("seen") == {}
    with records.change("seen") as record:
        record["main"] = 4
    assert records.read("seen") == {"main": 4}


def test_a_record_with_a_flipped_bit_is_an_empty_one_and_one_without_checksum_is_read(tmp_path):
    """A bit of a name that packs or commits have would be believed else."""
    records, path = LocalRecords(tmp_path), tmp_path / "local" / "needs.json"
    with records.change("needs") as record:
        record["0123"] = ["", "89ab"]
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert records.read("needs") == {}, bit
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert records.read("needs") == {} or size == whole.index(b"\n"), size
    path.write_bytes(whole[: whole.index(b"\n")])
    assert records.read("needs") == {"0123": ["", "89ab"]}


def test_a_bare_store_remembers_nothing():
    records = LocalRecords(None)
    with records.change("seen") as record:
        record["main"] = 3
    assert records.read("seen") == {}


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    replace_file(path, b"old")
    with pytest.raises(StorageError, match="cannot write"):
        replace_file(tmp_path / "absent" / "file", b"new")
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="cannot lock"), locked(tmp_path / "lock"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_process_that_was_forked_under_a_lock_does_not_hold_it(tmp_path):
    """Workers of a data loader are forked at any moment, and live for an epoch."""
    context = multiprocessing.get_context("fork")
    ended = context.Event()
    worker = context.Process(target=ended.wait)
    with locked(tmp_path / "lock"):
        worker.start()
    try:
        with (tmp_path / "lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        ended.set()
        worker.join()
