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


def test_it_plans_then_deletes(console):
    pack = lost_pack(console.folder)
    path, size = pack.relative_to(console.folder / ".mvcs").as_posix(), pack.stat().st_size
    plan = console("gc").out
    assert f"would delete {path}" in plan
    assert "20.0 days old: no branch, tag or reflog of one leads to a commit that needs it" in plan
    assert "'mvcs gc --execute' deletes it" in plan
    assert "younger than the grace" in console("gc", "--grace", "30", "--execute").out
    assert pack.exists()
    answer = console("gc", "--json").json
    assert (answer["executed"], answer["bytes"]) == (False, size)
    [item] = answer["garbage"]
    assert (item["path"], item["bytes"]) == (path, size)
    assert f"deleted {path}" in console("gc", "--execute").out
    assert not pack.exists()
    assert "deleted 0 files, 0 B" in console("gc", "--execute").out
    assert "ok: " in console("fsck").out


def test_a_grace_below_zero_is_refused(console):
    console("init")
    assert "grace" in console("gc", "--grace", "-1", code=2).err
