"""Equal bytes are one object, whatever they stand for: a blob, a tensor's chunk, codes."""

from pathlib import Path

import numpy as np

from mvcs import Repository


def test_a_delta_near_bytes_that_a_blob_brought(tmp_path: Path) -> None:
    old = np.random.default_rng(0).integers(0, 4, 9000, dtype=np.uint8)
    new = old.copy()
    new[::500] += 1
    with Repository.init(tmp_path) as repo:
        repo.commit({"text": old.tobytes()})
        repo.commit({"text": old.tobytes(), "values": old})
        repo.commit({"text": old.tobytes(), "values": new})
        assert repo.restore_figures().depth == 1
    with Repository.open(tmp_path) as repo:
        assert np.array_equal(repo.checkout(numpy=True)["values"], new)
        assert repo.fsck().ok


def test_codes_near_bytes_that_a_small_tensor_brought(tmp_path: Path) -> None:
    mask, weight = np.zeros(512, np.uint8), np.zeros((16, 32), np.float32)
    with Repository.init(tmp_path) as repo:
        repo.commit({"mask": mask, "weight": weight}, bins=16)
        weight[3, ::7] = 0.5
        repo.commit({"mask": mask, "weight": weight}, bins=16)
    with Repository.open(tmp_path) as repo:
        for exact in (False, True):
            assert np.array_equal(repo.checkout(numpy=True, exact=exact)["weight"], weight)
        assert repo.fsck().ok
