"""Whether a lineage is exact, lossy or unknown: no way round a lossy restore makes a commit say exact."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import torch
from safetensors.torch import load_file, save_file

from mvcs import Repository
from mvcs.checkpoint.restored_mark import FIELD
from mvcs.repository.handed_out import HANDED_OUT
from tests.store.faults import FaultyBackend

SHAPE = (96, 40)


def weights(seed: int, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "layer.weight": (0.05 * torch.randn(SHAPE, generator=generator)).to(dtype),
        "layer.bias": (0.01 * torch.randn(96, generator=generator)).to(dtype),
    }


def trained(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Other tensors, a little farther."""
    return {name: tensor + 1e-3 * torch.randn(tensor.shape) for name, tensor in state.items()}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with three bounded commits of one file, the first without its exact layer."""
    folder = tmp_path / "work"
    with Repository.init(folder) as repo:
        for seed in range(3):
            save_file(weights(seed), folder / "model.safetensors", {"format": "pt"})
            repo.commit_files([folder / "model.safetensors"], message=f"{seed}", step_size=0.5)
    return folder


def commit(folder: Path, name: str = "model.safetensors", **quantizer: Any) -> tuple[bool | None, str | None]:
    """Commit one file in a process that knows nothing but what lies there."""
    with Repository.open(folder) as repo:
        info = repo.commit_files([folder / name], message="next", **quantizer)
        return info.lineage_exact, info.restored_from


def restore(folder: Path, rev: str = "main~2") -> str:
    with Repository.open(folder) as repo:
        return repo.checkout_files(rev).commit.id


def train_file(path: Path) -> None:
    """As a training program does it, which knows of no metadata."""
    save_file(trained(load_file(path)), path)


def forget(folder: Path) -> None:
    (folder / ".mvcs" / "index").unlink()


def flip(folder: Path) -> None:
    index = folder / ".mvcs" / "index"
    data = bytearray(index.read_bytes())
    data[data.index(b"model")] ^= 1
    index.write_bytes(data)


def rename(folder: Path) -> str:
    (folder / "model.safetensors").rename(folder / "renamed.safetensors")
    return "renamed.safetensors"


def test_files_that_training_goes_on_with_stay_exact(work: Path) -> None:
    with Repository.open(work) as repo:
        assert {info.lineage_exact for info in repo.log()} == {True}
    train_file(work / "model.safetensors")
    assert commit(work, step_size=0.5) == (True, None)


@pytest.mark.parametrize("hide", [lambda _: None, forget, flip, rename])
@pytest.mark.parametrize("marked", [True, False])
def test_a_lossy_file_is_found_out_by_mark_and_by_values(
    work: Path, hide: Callable[[Path], str | None], marked: bool
) -> None:
    origin = restore(work)
    path = work / "model.safetensors"
    if not marked:
        save_file(load_file(path), path)
    assert commit(work, hide(work) or "model.safetensors") == (False, origin)


@pytest.mark.parametrize("hide", [forget, flip, rename])
def test_what_training_made_of_a_lossy_file_is_never_exact(
    work: Path, hide: Callable[[Path], str | None]
) -> None:
    restore(work)
    train_file(work / "model.safetensors")
    assert commit(work, hide(work) or "model.safetensors") == (None, None)


def test_a_file_as_it_was_handed_over_is_exact_without_any_index(work: Path) -> None:
    forget(work)
    assert commit(work) == (True, None)
    forget(work)
    train_file(work / "model.safetensors")
    assert commit(work) == (None, None)
    with Repository.open(work) as repo:
        assert repo.show().commit.lineage_exact is None
    train_file(work / "model.safetensors")
    assert commit(work) == (None, None)  # inherited


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".npz"])
def test_an_exported_file_that_comes_back_is_lossy(work: Path, tmp_path: Path, suffix: str) -> None:
    with Repository.open(work) as repo:
        origin = repo.export("main~2", tmp_path / f"out{suffix}").commit.id
    shutil.move(tmp_path / f"out{suffix}", work / f"again{suffix}")
    lineage, restored_from = commit(work, f"again{suffix}", step_size=0.5)
    assert (lineage, restored_from) == (False, origin)


def test_what_training_made_of_an_exported_file_is_unknown(work: Path, tmp_path: Path) -> None:
    with Repository.open(work) as repo:
        repo.export("main~2", tmp_path / "out.safetensors")
    save_file(trained(load_file(tmp_path / "out.safetensors")), work / "model.safetensors")
    assert commit(work) == (None, None)


def test_a_forgotten_record_of_exports_is_no_proof(work: Path, tmp_path: Path) -> None:
    with Repository.open(work) as repo:
        repo.export("main~2", tmp_path / "out.safetensors")
    shutil.rmtree(work / ".mvcs" / "local")
    train_file(work / "model.safetensors")
    assert commit(work) == (None, None)


def test_a_marked_file_tells_in_another_clone(work: Path, tmp_path: Path) -> None:
    with Repository.open(work) as repo:
        origin = repo.export("main~2", tmp_path / "out.safetensors").commit.id
    Repository.clone(str(work), tmp_path / "clone").close()
    shutil.copy(tmp_path / "out.safetensors", tmp_path / "clone" / "other.safetensors")
    assert commit(tmp_path / "clone", "other.safetensors") == (False, origin)
    with Repository.init(tmp_path / "stranger"):
        shutil.copy(tmp_path / "out.safetensors", tmp_path / "stranger" / "other.safetensors")
    assert commit(tmp_path / "stranger", "other.safetensors") == (False, None)


def test_the_mark_is_no_part_of_what_is_compared_or_committed(work: Path) -> None:
    path = work / "model.safetensors"
    origin = restore(work)
    with safetensors.safe_open(path, "pt") as file:
        assert file.metadata() == {"format": "pt", FIELD: file.metadata()[FIELD]}
        assert file.metadata()[FIELD].split() == [origin, "value"]
    with Repository.open(work) as repo:
        assert {entry.state for entry in repo.status().entries} == {"unmodified"}
        assert repo.diff("HEAD").tensors == []
        assert repo.commit_files([path], message="untouched").restored_from == origin
        path.unlink()
        repo.checkout_files("HEAD", force=True)
    with safetensors.safe_open(path, "pt") as file:
        assert file.metadata() == {"format": "pt"}


def test_an_exact_restore_has_no_mark_and_is_byte_for_byte(work: Path) -> None:
    path = work / "model.safetensors"
    before = path.read_bytes()
    with Repository.open(work) as repo:
        path.unlink()
        repo.checkout_files("HEAD", exact=True)
        assert path.read_bytes() == before
        repo.export("HEAD", work / "out.safetensors", exact=True)
        assert FIELD.encode() not in (work / "out.safetensors").read_bytes()
        repo.export("HEAD", work / "out.safetensors", force=True)
        assert FIELD.encode() in (work / "out.safetensors").read_bytes()


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
from mvcs.repository.handed_out import HANDED_OUT
from tests.repository.test_origins import STATES, trained

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


def test_a_state_in_memory_tells_where_it_comes_from(run: Path, tmp_path: Path) -> None:
    """In a process that has made none of the commits, a repository for each way."""
    torch.save(weights(9), tmp_path / "x.pt")
    for number in range(len(STATES)):
        shutil.copytree(run, tmp_path / f"{number}")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    program = [sys.executable, "-c", CHILD, str(tmp_path), str(tmp_path / "x.pt")]
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=environment)
    assert dict(zip(STATES, done.stdout.splitlines(), strict=False)) == STATES, done.stderr


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


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A clone with a bounded main, and 'old', behind whose commit nothing is bounded; HEAD is on 'old'."""
    folder = tmp_path / "beside"
    with Repository.init(folder) as repo:
        repo.config_set("retention.exact_layers", "0")
        for seed, quantizer in enumerate([{}, {"step_size": 0.5}]):
            save_file(weights(seed), folder / "model.safetensors")
            repo.commit_files([folder / "model.safetensors"], message=f"{seed}", **quantizer)
        repo.checkout_files("HEAD~1", force=True)
        repo.switch("old", create_from="HEAD")
    return folder


def export(folder: Path) -> Path:
    with Repository.open(folder) as repo:
        repo.export("main", folder / "given.npz")
    return folder / "given.npz"


def check_out_in_place(folder: Path) -> Path:
    with Repository.open(folder) as repo:
        repo.checkout_files("main", force=True)
        shutil.copy(folder / "model.safetensors", folder / "given.safetensors")
        repo.switch("old", force=True)
    return folder / "given.safetensors"


def check_out_in_a_program(folder: Path) -> Path:
    with Repository.open(folder) as repo:
        save_file(repo.checkout("main")["model.safetensors"], folder / "given.safetensors")
    return folder / "given.safetensors"


@pytest.mark.parametrize("give", [export, check_out_in_place, check_out_in_a_program])
def test_once_values_left_the_store_what_training_made_of_a_file_is_unknown_on_every_branch(
    beside: Path, give: Callable[[Path], Path]
) -> None:
    train_file(beside / "model.safetensors")
    assert commit(beside) == (True, None)
    HANDED_OUT.projects.clear()
    given = give(beside)
    HANDED_OUT.projects.clear()
    loaded = load_file(given) if given.suffix == ".safetensors" else dict(np.load(given))
    state = {name: torch.as_tensor(value) for name, value in loaded.items() if "layer" in name}
    save_file(trained(state), beside / "model.safetensors")
    assert commit(beside) == (None, None)


def record(folder: Path) -> Path:
    return folder / ".mvcs/local/lineage.json"


def as_if_nothing_were_said(folder: Path) -> None:
    record(folder).write_text("{}")


def bit_of_its_name_flipped(folder: Path) -> None:
    record(folder).write_bytes(record(folder).read_bytes().replace(b"exported", b"expprted"))


def read_as_a_folder(folder: Path) -> None:
    record(folder).unlink()
    record(folder).mkdir()


def all_local_records(folder: Path) -> None:
    shutil.rmtree(folder / ".mvcs/local")


def all_but_store_and_head(folder: Path) -> None:
    all_local_records(folder)
    head = (folder / ".mvcs/HEAD").read_bytes()
    for name in ("HEAD", "index", "lineage.sqlite"):
        (folder / ".mvcs" / name).unlink()
    Repository.init(folder).close()
    (folder / ".mvcs/HEAD").write_bytes(head)


LOSSES = [
    as_if_nothing_were_said,
    bit_of_its_name_flipped,
    read_as_a_folder,
    all_local_records,
    all_but_store_and_head,
]


def test_a_lost_record_of_values_that_left_is_no_proof_that_none_did(beside: Path, tmp_path: Path) -> None:
    export(beside)
    train_file(beside / "model.safetensors")
    for lose in LOSSES:
        folder = shutil.copytree(beside, tmp_path / lose.__name__)
        lose(folder)
        HANDED_OUT.projects.clear()
        with Repository.open(str(folder / ".mvcs")) as repo:
            state = load_file(folder / "model.safetensors")
            assert repo.commit(state, branch="new", continues="", message="new").lineage_exact is None
        HANDED_OUT.projects.clear()
        assert commit(folder) == (None, None)
        HANDED_OUT.projects.clear()


def test_values_that_leave_while_nothing_can_be_recorded_are_no_proof(beside: Path) -> None:
    (beside / ".mvcs/local/lock").unlink()
    (beside / ".mvcs/local/lock").mkdir()
    with Repository.open(beside) as repo:
        repo.export("main", beside / "given.npz")
        assert any("lineage is not kept" in warning for warning in repo.warnings)
    HANDED_OUT.projects.clear()
    train_file(beside / "model.safetensors")
    with Repository.open(beside) as repo:
        assert repo.commit(load_file(beside / "model.safetensors"), message="next").lineage_exact is None


def test_a_lost_record_where_nothing_is_bounded_costs_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Repository.init(folder).close()
    for seed, quantizer in enumerate([{}, {}, {"step_size": 0.5}, {}]):
        save_file(weights(seed), folder / "model.safetensors")
        assert commit(folder, **quantizer) == (True, None)
        if seed == 0:
            record(folder).unlink()


def test_a_store_of_several_folders_is_asked_once_for_what_it_held_and_then_for_new_packs(
    tmp_path: Path,
) -> None:
    with Repository.init(tmp_path / "one", store=str(tmp_path / "store")) as repo:
        for seed in range(9):
            repo.commit(weights(seed))
    HANDED_OUT.projects.clear()
    with Repository.open(tmp_path / "one") as repo:
        place = repo._session.place
        repo._session.place = replace(place, backend=(faulty := FaultyBackend(place.backend)))
        looks = []
        for seed in range(4):
            faulty.reads.clear()
            assert repo.commit(weights(seed), message="next").lineage_exact is True
            looks.append(len([name for name, _, _ in faulty.reads if name.startswith("packs/")]))
    assert looks[0] > 1
    assert max(looks[1:]) <= 1


def test_a_bare_store_which_remembers_nothing_proves_nothing(beside: Path, tmp_path: Path) -> None:
    export(beside)
    HANDED_OUT.projects.clear()
    with Repository.open(beside) as repo:
        repo.add_remote("bare", str(tmp_path / "bare"))
        repo.push("bare", ["old"])
    with Repository.open(tmp_path / "bare") as bare:
        assert bare.commit(weights(7), branch="old", message="exact").lineage_exact is True
        HANDED_OUT.projects.clear()
    with Repository.open(beside) as repo:
        repo.push("bare", ["main"])
    with Repository.open(tmp_path / "bare") as bare:
        assert bare.commit(weights(8), branch="old", message="next").lineage_exact is None


def test_a_store_that_two_folders_share_proves_nothing_once_it_holds_bounded_commits(tmp_path: Path) -> None:
    """The other folder may have restored what this one commits, and says so on no record here."""
    one, two = (tmp_path / name for name in ("one", "two"))
    for folder in (one, two):
        Repository.init(folder, store=str(tmp_path / "store")).close()
    save_file(weights(0), one / "model.safetensors")
    assert commit(one) == (True, None)
    save_file(weights(1), one / "model.safetensors")
    assert commit(one, step_size=0.5) == (True, None)
    restore(two, "main")
    save_file(trained(load_file(two / "model.safetensors")), one / "model.safetensors")
    HANDED_OUT.projects.clear()
    assert commit(one) == (None, None)


def test_a_file_that_did_not_change_is_exact_after_values_left_the_store(beside: Path) -> None:
    export(beside)
    assert commit(beside) == (True, None)
    forget(beside)
    assert commit(beside) == (True, None)


def test_a_state_made_of_a_lossy_one_is_unknown_on_an_unbounded_branch(beside: Path) -> None:
    with Repository.open(beside) as repo:
        state = trained(repo.checkout("main")["model.safetensors"])
        assert repo.commit(state, message="next").lineage_exact is None
