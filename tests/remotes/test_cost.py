"""What an exchange reads: history that both sides have is not looked at again."""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import numpy as np

from mvcs import Repository
from mvcs.remotes.completeness import Completeness


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


def test_what_a_tree_names_many_times_is_looked_at_once(tmp_path: Path) -> None:
    repo = Repository.init(tmp_path / "run")
    book, weight = bytes(1 << 20), np.random.default_rng(0).standard_normal((8, 8))
    repo.commit({str(name): [book, weight.copy()] for name in range(100)}, step_size=0.5)
    tree = repo._session.store.tree(repo._session.head().commit.tree)
    assert (len(tree.leaves), len(tree.blobs())) == (100, 100)
    calls = Counter[str]()

    def count(frame: FrameType, event: str, _: object) -> None:
        calls[frame.f_code.co_qualname] += event == "call"

    completeness, head = Completeness(repo._session.store), repo._session.head()
    packs = repo._session.store.manifests.placement(head.id).packs
    sys.setprofile(count)
    try:
        for _ in range(2):
            completeness.check(head, packs)
        decoded = calls["Blob.decode"], calls["ObjectStore.check_lengths"], calls["Decodable.packs_of"]
        assert repo.fsck().problems == []
        repo.lineage_rebuild()
    finally:
        sys.setprofile(None)
    assert decoded[:2] == (1, 2)  # a tensor once for each check
    assert decoded[2] <= 12
    assert calls["located_chunks"] <= 4
