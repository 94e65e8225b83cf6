"""`mvcs gc` as a user types it: a plan, then the deed."""

import os
import time

import numpy as np

from mvcs import Repository


def lost_pack(folder):
    """A pack of a commit that no ref names any more, and how a user would age it."""
    with Repository.init(folder) as repo:
        repo.commit({"w": np.ones(50)})
        kept = set((folder / ".mvcs").rglob("*.pack"))
        repo.commit({"w": np.zeros(50)}, branch="side")
    for record in (folder / ".mvcs/refs/heads/side").iterdir():
        record.unlink()
    (folder / ".mvcs/refs/heads/side").rmdir()
    (folder / ".mvcs/local/seen.json").unlink()
    [pack] = set((folder / ".mvcs").rglob("*.pack")) - kept
    written = time.time() - 20 * 24 * 3600
    os.utime(pack, (written, written))
    return pack


def test_it_plans_then_condemns_then_deletes(console):
    pack = lost_pack(console.folder)
    path, size = pack.relative_to(console.folder / ".mvcs").as_posix(), pack.stat().st_size
    plan = console("gc").out
    assert f"would mark for deletion {path}" in plan
    assert "20.0 days old: no branch, tag or reflog of one leads to a commit that needs it" in plan
    assert "it goes in 24 hours" in plan
    assert "'mvcs gc --execute' marks it, and deletes it later" in plan
    assert "younger than the grace" in console("gc", "--grace", "30d", "--execute").out
    assert not (console.folder / ".mvcs/gc").exists()
    first = console("gc", "--execute").out
    assert f"marked for deletion {path}" in first
    assert "deleted 0 files, 0 B; marked for deletion 1 file" in first
    assert "'mvcs gc --execute' in 24 hours deletes what is still marked for deletion" in first
    assert pack.exists()
    again = console("gc").out
    assert f"marked for deletion: {path}" in again
    assert "would delete 1 file" in again
    assert "in 24 hours" in again
    assert "would mark for deletion" not in again
    assert "'mvcs gc --execute --grace 0 --wait 0' deletes at once" in again
    [record] = (console.folder / ".mvcs/gc").iterdir()
    written = time.time() - 25 * 3600
    os.utime(record, (written, written))
    assert f"would delete {path}" in console("gc").out
    answer = console("gc", "--json").json
    assert (answer["executed"], answer["bytes"], answer["condemned"]) == (False, size, [])
    [item] = answer["garbage"]
    assert (item["path"], item["bytes"]) == (path, size)
    assert f"deleted {path}" in console("gc", "--execute").out
    assert not pack.exists()
    assert "deleted 0 files, 0 B" in console("gc", "--execute").out
    assert "ok: " in console("fsck").out


def test_without_a_wait_it_deletes_at_once(console):
    pack = lost_pack(console.folder)
    assert "would delete" in console("gc", "--wait", "0").out
    console("gc", "--wait", "0", "--execute")
    assert not pack.exists()


def test_it_collects_in_a_remote(console):
    pack = lost_pack(console.folder / "far")
    console("init")
    console("remote", "add", "origin", str(console.folder / "far"))
    assert "would delete" in console("gc", "--remote", "origin", "--wait", "0").out
    console("gc", "--remote", "origin", "--wait", "0", "--execute")
    assert not pack.exists()
    assert "no remote" in console("gc", "--remote", "other", code=3).err


def test_a_grace_below_zero_is_refused(console):
    console("init")
    assert "grace" in console("gc", "--grace", "-1", code=2).err


def test_a_grace_without_end_is_refused(console):
    console("init")
    for words in (("--grace", "inf"), ("--grace", "1e300"), ("--wait", "inf")):
        assert "length of time" in console("gc", *words, "--execute", code=2).err


def test_lengths_of_time_and_a_dry_run_are_said_as_elsewhere(console):
    pack = lost_pack(console.folder)
    assert "would mark for deletion" in console("gc", "--dry-run", "--grace", "14d", "--wait", "36h").out
    waits = console("gc", "--grace", "3w").out
    assert "younger than the grace" in waits
    assert "the oldest that waits is past the grace in 24 hours" in waits
    assert "such as 14d or 36h" in console("gc", "--grace", "soon", code=2).err
    for words in (("gc", "--grace", "14"), ("gc", "--wait", "14"), ("retention", "set", "--newer", "14")):
        assert "did you mean '14d'?" in console(*words, code=2).err
    assert console("gc", "--grace", "0.0", "--wait", "0d").out
    assert "give one of them" in console("gc", "--dry-run", "--execute", code=2).err
    assert pack.exists()


def test_many_files_that_go_for_one_reason_are_one_line(console):
    with Repository.init(console.folder) as repo:
        for number in range(12):
            repo.commit({"w": np.full(50, number)}, step=number)
        repo.set_retention(last=1, force=True)
        repo.apply_retention(force=True)
    assert "for 24 hours after data were moved or dropped" in console("gc").out
    said = console("gc", "--wait", "0d").out.splitlines()
    assert sum(line.startswith("waits ") for line in said) == 1
    assert "(-v lists them)" in said[0]
    said = console("gc", "-v", "--wait", "0d").out.splitlines()
    assert sum(line.startswith("waits packs/") for line in said) > 8
