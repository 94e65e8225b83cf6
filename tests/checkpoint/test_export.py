"""A state's tensors as one file that other libraries read."""

from collections import Counter, deque

import numpy as np
import pytest
import safetensors.torch
import torch

from mvcs.errors import UsageError
from mvcs.objects.trees.leaves import FileFormat
from mvcs.repository import Repository
from tests.checkpoint.known_types import writable


def state():
    weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    return {
        "model": {
            "embed.weight": weight,
            "head": {"weight": weight},
            "bias": torch.ones(3, dtype=torch.bfloat16),
        },
        "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 0.1}]},
        "rng": np.arange(4, dtype="<u8"),
        "best": np.float32(0.5),
        "seen": frozenset({1}),
        "counts": Counter(a=1),
        "name": "x" * 5000,
    }


def test_safetensors_alone_reads_a_state(tmp_path, hold_state):
    held = hold_state(state())
    lost = held.export(tmp_path / "x.safetensors", FileFormat.SAFETENSORS)
    loaded = safetensors.torch.load_file(tmp_path / "x.safetensors")
    assert set(loaded) == {
        "model.embed.weight",
        "model.head.weight",
        "model.bias",
        "optimizer.state.0.step",
        "rng",
    }
    assert torch.equal(loaded["model.head.weight"], torch.arange(6.0).reshape(2, 3))
    assert loaded["model.bias"].dtype == torch.bfloat16
    assert lost == ["optimizer.param_groups.0.lr", "best", "seen.0", "counts.a", "name"]
    assert held.asked == [0, 1, 2, 3]


def test_the_file_is_the_one_the_library_would_write(tmp_path, hold_state):
    generator = torch.Generator().manual_seed(1)
    raw = torch.randint(0, 256, (4, 16), generator=generator, dtype=torch.uint8)
    kinds = [name for name in writable() if name != "bool"]
    tensors = {f'ä"{name}': raw.clone().view(getattr(torch, name)) for name in kinds}
    tensors |= {"z": torch.ones(2), "a": torch.zeros(0, 2), "m": torch.tensor(True)}
    hold_state(tensors).export(tmp_path / "x.safetensors", FileFormat.SAFETENSORS)
    assert (tmp_path / "x.safetensors").read_bytes() == safetensors.torch.save(tensors)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")
def test_types_safetensors_lacks_are_listed(tmp_path, hold_state):
    held = hold_state({"a": torch.ones(2, dtype=torch.complex128), "b": torch.ones(2)})
    assert held.export(tmp_path / "x", FileFormat.SAFETENSORS) == ["a"]
    assert set(safetensors.torch.load_file(tmp_path / "x")) == {"b"}


def test_npz_holds_what_numpy_lacks_as_integers(tmp_path, hold_state):
    lost = hold_state(state()).export(tmp_path / "x.npz", FileFormat.NPZ)
    assert lost[-1] == "model.bias (bfloat16, as uint16)"
    with np.load(tmp_path / "x.npz", allow_pickle=False) as loaded:
        assert loaded["model.bias"].tolist() == [0x3F80] * 3
        assert loaded["model.head.weight"].shape == (2, 3)
        assert loaded["rng"].tolist() == [0, 1, 2, 3]


def test_torch_keeps_the_structure_for_the_restricted_loader(tmp_path, hold_state):
    lost = hold_state(state()).export(tmp_path / "x.pt", FileFormat.TORCH)
    loaded = torch.load(tmp_path / "x.pt", weights_only=True)
    assert lost == [
        "rng (numpy array, as a tensor)",
        "best (numpy scalar, as a number)",
        "seen (frozenset, as a set)",
    ]
    assert type(loaded["model"]["embed.weight"]) is torch.nn.Parameter
    assert loaded["optimizer"]["param_groups"] == [{"lr": 0.1}]
    assert list(loaded["optimizer"]["state"]) == [0]
    assert (loaded["best"], loaded["seen"], loaded["counts"]) == (0.5, {1}, Counter(a=1))


def test_chosen_tensors_alone(tmp_path, hold_state):
    held = hold_state(state())
    for fmt in (FileFormat.SAFETENSORS, FileFormat.NPZ, FileFormat.TORCH):
        held.asked.clear()
        assert held.export(tmp_path / "x", fmt, {0}) == []
        assert held.asked == [0]
    assert list(torch.load(tmp_path / "x", weights_only=True)) == ["model.embed.weight", "model.head.weight"]


def test_colliding_names_are_an_error(tmp_path, hold_state):
    held = hold_state({"a": {"b": torch.ones(1)}, "a.b": torch.ones(1)})
    with pytest.raises(UsageError, match=r"would both be 'a\.b'"):
        held.export(tmp_path / "x", FileFormat.SAFETENSORS)


@pytest.mark.parametrize("name", ["nul\0", "\ud800"])
def test_names_a_file_cannot_hold_are_an_error(tmp_path, hold_state, name):
    for fmt in (FileFormat.SAFETENSORS, FileFormat.NPZ):
        with pytest.raises(UsageError, match="cannot hold a tensor named"):
            hold_state({name: torch.ones(1)}).export(tmp_path / "x", fmt)


def test_metadata_is_no_name_for_a_tensor(tmp_path, hold_state):
    with pytest.raises(UsageError, match="__metadata__"):
        hold_state({"__metadata__": torch.ones(1)}).export(tmp_path / "x", FileFormat.SAFETENSORS)


def test_opaque_is_no_format_to_write(tmp_path, hold_state):
    with pytest.raises(UsageError, match="opaque"):
        hold_state({"a": torch.ones(1)}).export(tmp_path / "x", FileFormat.OPAQUE)


def test_several_files_become_one(tmp_path, hold_files):
    for shard in (1, 2):
        safetensors.torch.save_file(
            {f"h.{shard}": torch.ones(shard)}, tmp_path / f"model-{shard}.safetensors"
        )
    (tmp_path / "config.json").write_text("{}")
    held = hold_files(tmp_path)
    for fmt in (FileFormat.SAFETENSORS, FileFormat.TORCH):
        assert held.export(tmp_path / "x", fmt) == ["config.json"]
    assert set(torch.load(tmp_path / "x", weights_only=True)) == {"h.1", "h.2"}


def test_one_file_changes_its_format(tmp_path, hold_files):
    safetensors.torch.save_file({"a.b": torch.ones(2)}, tmp_path / "m.safetensors")
    held = hold_files(tmp_path / "m.safetensors")
    held.export(tmp_path / "m.pt", FileFormat.TORCH)
    assert torch.equal(torch.load(tmp_path / "m.pt", weights_only=True)["a.b"], torch.ones(2))


def test_a_state_dict_s_metadata_is_listed_once(tmp_path, hold_state):
    model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))
    lost = hold_state({"model": model.state_dict()}).export(tmp_path / "x", FileFormat.SAFETENSORS)
    assert lost == ["model._metadata"]


def test_objects_of_a_state_become_tuples_of_their_parts_in_a_file_of_torch(tmp_path):
    state = {"queue": deque([torch.ones(2), 3], maxlen=4), "pairs": {(1, 2): torch.zeros(1)}}
    with Repository.init(tmp_path / "repo") as repository:
        repository.commit(state, message="objects")
        assert repr(repository.checkout("HEAD")) == repr(state)
        repository.export("HEAD", tmp_path / "state.pt")
    found = torch.load(tmp_path / "state.pt", weights_only=True)
    assert repr(found) == repr({"queue": ([torch.ones(2), 3], 4), "pairs": {(1, 2): torch.zeros(1)}})
