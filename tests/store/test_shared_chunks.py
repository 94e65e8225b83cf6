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


def test_what_a_chain_is_decoded_through_comes_back_itself(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weight = random.standard_normal((300, 1024), np.float32)
    with Repository.init(tmp_path) as repo:
        repo.config_set("retention.exact_layers", "0")
        for _ in range(4):
            weight = weight + random.standard_normal(weight.shape, np.float32) * np.float32(0.01)
            repo.commit({"weight": weight}, step_size=0.5)
    apart = []
    for number in range(4):
        with Repository.open(tmp_path) as repo:
            apart.append(repo.checkout(f"HEAD~{number}", numpy=True)["weight"])
    with Repository.open(tmp_path) as repo:
        for number in (0, 1, 0, 3, 2, 0):
            assert np.array_equal(repo.checkout(f"HEAD~{number}", numpy=True)["weight"], apart[number])
