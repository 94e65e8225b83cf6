"""What an exchange reads: history that both sides have is not looked at again."""

from pathlib import Path

import numpy as np

from mvcs import Repository


def test_a_fetch_with_a_local_commit_does_not_need_the_remotes_old_packs(tmp_path: Path) -> None:
    there = Repository.init(tmp_path / "there")
    for step in range(60):
        there.commit({"w": np.full(4, step, np.float32)}, step=step)
    here = Repository.clone(str(tmp_path / "there"), tmp_path / "here")
    here.commit({"w": np.zeros(4, np.float32)}, step=100)
    known = set((tmp_path / "there" / ".mvcs" / "packs").rglob("*.pack"))
    there.commit({"w": np.full(4, 777, np.float32)}, step=60)
    for pack in known:
        pack.unlink()

    report = Repository.open(tmp_path / "here").fetch()

    assert report.packs_received == 1
    assert Repository.open(tmp_path / "here").resolve("origin/main").step == 60
