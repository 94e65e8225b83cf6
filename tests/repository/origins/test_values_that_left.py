"""Once restored values left the store, no lost record makes what training made of them exact again."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mvcs import Repository
from mvcs.restore.handed_out import HANDED_OUT
from tests.repository.origins.origins import commit, forget, restore, train_file, trained, weights
from tests.store.faults import FaultyBackend


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


def test_a_store_of_several_folders_is_asked_once_for_what_it_held_and_then_for_new_commits(
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
            looks.append(len([name for name, _, _ in faulty.reads if name.startswith("manifests/")]))
    assert looks[0] >= 1  # one manifest tells of several commits
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
