"""Whether a state in memory is exact, lossy or unknown, and what its values tell by themselves."""

import shutil
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mvcs import Repository
from tests.loaded import Program
from tests.repository.origins.origins import SHAPE, commit, forget, trained, weights


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Three bounded commits of a state."""
    with Repository.init(tmp_path / "run") as repo:
        for seed in range(3):
            info = repo.commit(weights(seed), step_size=0.5)
            assert info.lineage_exact is True
    return tmp_path / "run"


STATES = {
    'repo.checkout("main~2")': "False True",
    'changed(repo.checkout("main~2"))': "False True",
    '{"kept": (kept := repo.checkout("main~2")), "all": [torch.nn.Parameter(kept["layer.weight"])]}["all"]': (
        "False True"
    ),
    '{n: t.clone() for n, t in repo.checkout("main~2").items()}': "False True",
    '{n: t.numpy() for n, t in repo.checkout("main~2").items()}': "False True",
    'repo.checkout("main~2", numpy=True)': "False True",
    'trained(repo.checkout("main~2"))': "None False",
    'trained(repo.restore("main~2").state)': "None False",
    'trained(repo.restore("main").state)': "True False",
    'trained(repo.checkout("main", exact=True))': "True False",
    'repo.checkout("main", exact=True)': "True False",
    "torch.load(sys.argv[2])": "None False",
    "trained(torch.load(sys.argv[2]))": "None False",
}
CHILD = """
import sys, torch, mvcs
from mvcs.restore.handed_out import HANDED_OUT
from tests.repository.origins.origins import trained
from tests.repository.origins.test_origins_of_states import STATES

def changed(state):
    state["layer.weight"] += 1e-3
    return state

for number, body in enumerate(STATES):
    HANDED_OUT.projects.clear()
    repo = mvcs.Repository.open(f"{sys.argv[1]}/{number}")
    origin = repo.resolve("main~2").id
    info = repo.commit(eval(body), message="next")
    print(info.lineage_exact, info.restored_from == origin)
"""


def test_a_state_in_memory_tells_where_it_comes_from(
    forked: ForkServerContext, run: Path, tmp_path: Path
) -> None:
    """In a process that has made none of the commits, a repository for each way."""
    torch.save(weights(9), tmp_path / "x.pt")
    for number in range(len(STATES)):
        shutil.copytree(run, tmp_path / f"{number}")
    (tmp_path / "child.py").write_text(CHILD)
    said, errors = Program(forked, tmp_path / "child.py", str(tmp_path), str(tmp_path / "x.pt")).communicate()
    assert dict(zip(STATES, said.splitlines(), strict=False)) == STATES, errors


def test_whoever_knows_may_say_so(run: Path) -> None:
    with Repository.open(run) as repo:
        origin = repo.resolve("main~2").id
        state = trained(repo.checkout("main~2"))
        assert repo.commit(state, branch="one", restored_from="").lineage_exact is True
        told = repo.commit(state, branch="two", restored_from=origin)
        assert (told.lineage_exact, told.restored_from) == (False, origin)
        assert repo.commit(state, branch="three").lineage_exact is None


def test_where_nothing_is_bounded_every_state_is_exact(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Repository.init(folder).close()
    for seed, damage in enumerate([None, b"[]", b'{"unbounded": "00"}', b'{"unbounded": 7}']):
        if damage is not None:
            forget(folder)
            (folder / ".mvcs" / "local" / "lineage.json").write_bytes(damage)
        save_file(weights(seed), folder / "model.safetensors")
        assert commit(folder) == (True, None)


@pytest.mark.parametrize(
    ("dtype", "quantizer"),
    [
        (torch.float32, {"step_size": 0.02}),
        (torch.float32, {"bins": 16}),
        (torch.bfloat16, {"step_size": 0.5}),
        (torch.bfloat16, {"bins": 16}),
        (torch.float16, {"step_size": 0.02}),
        (torch.float64, {"step_size": 0.5}),
    ],
)
def test_values_tell_in_every_element_type(
    tmp_path: Path, dtype: torch.dtype, quantizer: dict[str, Any]
) -> None:
    """Restored weights are found out without any record; what was trained is not taken for them."""
    with Repository.init(tmp_path / "run") as repo:
        path, other = repo.top / "model.safetensors", repo.top / "other.safetensors"
        save_file(weights(0, dtype), path)
        first = repo.commit_files([path], message="0", **quantizer)
        save_file(weights(1, dtype), path)
        repo.commit_files([path], message="1", **quantizer)
        save_file(repo.checkout("main~1")["model.safetensors"], other)
        path.unlink()
        found = repo.commit_files([other], message="restored")
        assert (found.lineage_exact, found.restored_from) == (False, first.id)
    with Repository.init(tmp_path / "again") as repo:
        path, other = repo.top / "model.safetensors", repo.top / "other.safetensors"
        for seed, place in enumerate([path, other]):
            save_file(weights(seed, dtype), place)
        repo.commit_files([path], message="0", **quantizer)
        assert repo.commit_files([other], message="new").lineage_exact is None


def test_tensors_that_are_coarse_by_themselves_are_not_taken_for_restored_ones(tmp_path: Path) -> None:
    with Repository.init(tmp_path / "run") as repo:
        rng = np.random.default_rng(0)
        for _ in range(3):
            signs = np.sign(rng.standard_normal(SHAPE)).astype(np.float32)
            state = {"signs": signs, "grid": rng.integers(-9, 9, SHAPE).astype(np.float32) / 10, "n": 1}
            repo.commit(state, step_size=0.5)
    with Repository.open(tmp_path / "run") as repo:
        assert repo.commit(dict(state, n=2), restored_from=None).lineage_exact is not False
