"""What part a leaf plays, and which leaves are of one type."""

import pytest
import torch

from mvcs.checkpoint.files import capture_files
from mvcs.checkpoint.roles import Role, is_embedding, layer_type, roles_of
from mvcs.checkpoint.state.state import capture_state


def by_path(captured):
    return {
        ".".join(map(str, leaf.path)): role
        for leaf, role in zip(captured.leaves, roles_of(captured), strict=True)
    }


def training():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_roles_of_a_training_state():
    model, optimizer = training()
    found = by_path(
        capture_state(
            {"model": model.state_dict(), "trainer": [optimizer.state_dict()], "rng": torch.get_rng_state()}
        )
    )
    assert found["model.0.weight"] is Role.WEIGHT
    assert found["model.0.bias"] is Role.SMALL
    assert found["model.1.running_var"] is Role.SMALL
    assert found["model.1.num_batches_tracked"] is Role.OTHER
    assert found["trainer.0.state.0.exp_avg"] is Role.MOMENT
    assert found["trainer.0.state.3.exp_avg_sq"] is Role.MOMENT
    assert found["trainer.0.state.0.step"] is Role.OTHER
    assert found["rng"] is Role.OTHER


@pytest.mark.parametrize(
    ("state", "role"),
    [
        ({"model": {"net.0._extra_state": torch.ones(2, 2)}}, Role.OTHER),
        ({"model": {"_extra_state": {"amax": torch.ones(2)}}}, Role.OTHER),
        ({"w": torch.ones(2, 0)}, Role.OTHER),
        ({"optimizer": {"master": torch.ones(2, 2)}}, Role.MOMENT),
        ({"optim_states": [torch.ones(2, 2)]}, Role.MOMENT),
        ({"opt.exp_avg_sq.w": torch.ones(2, 2)}, Role.MOMENT),
        ({"opt.exp_avg_sq_row.w": torch.ones(2)}, Role.MOMENT),
        ({"optimizer.w": torch.ones(2, 2)}, Role.MOMENT),
        ({"optimal": torch.ones(2, 2)}, Role.WEIGHT),
        ({"model": {"optimizer": torch.ones(2, 2)}}, Role.WEIGHT),
        ({"model": {"exp_avg": torch.ones(2, 2)}}, Role.WEIGHT),
        ({"model": {"norm.momentum_buffer": torch.ones(2)}}, Role.SMALL),
        ({"model": {"sum.weight": torch.ones(2, 2)}}, Role.WEIGHT),
        ({"model": {"net": {"exp_avg": torch.ones(2)}}}, Role.SMALL),
        ({"model.exp_avg": torch.ones(2, 2)}, Role.WEIGHT),
        ({"state_dict": {"exp_avg_sq": torch.ones(2)}}, Role.SMALL),
        ({"net": {"exp_avg": torch.ones(2)}}, Role.MOMENT),
        ({"w": torch.ones(2, 2, dtype=torch.bfloat16)}, Role.WEIGHT),
        ({"w": torch.ones(2, 2).to(torch.float8_e4m3fn)}, Role.OTHER),
        ({"w": torch.ones(2, 2, dtype=torch.complex64)}, Role.OTHER),
        ({"w": torch.ones(())}, Role.SMALL),
        (torch.ones(2, 2), Role.WEIGHT),
    ],
)
def test_roles_follow_names_and_types(state, role):
    assert roles_of(capture_state(state)) == [role]


def test_what_wraps_an_optimizer_is_one():
    inner = {"state": {0: {"v": torch.ones(2, 2)}}, "param_groups": [{"params": [0]}]}
    found = by_path(
        capture_state(
            {
                "sam": {"state": {}, "param_groups": [], "base": inner},
                "ahead": {"slow": {0: torch.ones(2, 2)}, "param_groups": [{"params": [0]}]},
                "other": {"slow": {0: torch.ones(2, 2)}, "param_groups": [{"names": [0]}]},
            }
        )
    )
    assert found == {
        "sam.base.state.0.v": Role.MOMENT,
        "ahead.slow.0": Role.MOMENT,
        "other.slow.0": Role.WEIGHT,
    }


@pytest.mark.parametrize("turned", [False, True])
def test_a_tensor_that_an_optimizer_shares_with_the_model_is_the_models(turned):
    shared = torch.ones(2, 2)
    groups = [{"params": [0]}]
    state = {"model": {"w": shared}, "optimizer": {"state": {0: {"z": shared}}, "param_groups": groups}}
    captured = capture_state(dict(reversed(state.items())) if turned else state)
    assert roles_of(captured) == [Role.WEIGHT]


def test_a_file_can_be_an_optimizer(tmp_path):
    (tmp_path / "run").mkdir()
    for name in ("optimizer.pt", "model.pt"):
        torch.save({"a": torch.ones(2, 2)}, tmp_path / "run" / name)
    captured = capture_files([tmp_path / "run"], tmp_path)
    assert by_path(captured) == {"run/model.pt.a": Role.WEIGHT, "run/optimizer.pt.a": Role.MOMENT}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("blocks.3.attn.qkv.weight",), "blocks.#.attn.qkv.weight"),
        (("model", "blocks", 3, "attn.qkv", "weight"), "model.blocks.#.attn.qkv.weight"),
        (("run/model-00001-of-00002.safetensors", "h.11.w1"), "h.#.w1"),
        (("optimizer", "state", 7, "exp_avg"), "optimizer.state.#.exp_avg"),
        ((), ""),
    ],
)
def test_layer_types_drop_numbers(path, expected):
    assert layer_type(path) == expected


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((64, 32, 3, 3), "convolution 3x3"),
        ((64, 1, 7), "convolution 7"),
        ((8, 4096, 1024), "experts.#.weight"),
        ((64, 32), "experts.#.weight"),
    ],
)
def test_convolutions_of_one_kernel_are_one_type(shape, expected):
    assert layer_type(("experts", 3, "weight"), shape) == expected


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("transformer.wte.weight", (100, 8), True),
        ("model.embed_tokens.weight", (100, 8), True),
        ("bert.embeddings.word_embeddings.weight", (100, 8), True),
        ("tok.weight", (100, 8), True),
        ("blocks.0.attn.weight", (8, 8), False),
        ("embeddings.LayerNorm.weight", (8,), False),
        ("patch_embed.proj.weight", (8, 3, 4, 4), False),
    ],
)
def test_embeddings_are_told_by_their_names(name, shape, expected):
    assert is_embedding(("model", name), shape) is expected
