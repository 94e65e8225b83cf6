"""Pruning and protecting by scores: whose moment belongs to which weight, and what becomes of the weights."""

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from mvcs import Repository
from mvcs.checkpoint.state.state import capture_state
from mvcs.commits.plan.anatomy import Anatomy
from mvcs.commits.quantizers.leaf_values import first_moments
from mvcs.errors import UsageError
from mvcs.inshrinkerator.quantizer import TableQuantizer, importance_of
from mvcs.quantize import KMeansConfig

PRUNING = KMeansConfig(bins=8, prune=0.3, metric="momentum")


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path / "run") as repository:
        yield repository


def trained(kind: type = torch.optim.AdamW, *, groups: bool = False, named: bool = False, **options: Any):
    """A small net after three steps, and its optimizer."""
    torch.manual_seed(0)
    layers = {
        "emb": nn.Embedding(50, 16),
        "up": nn.Linear(16, 16),
        "down": nn.Linear(16, 16, bias=False),
        "norm": nn.LayerNorm(16),
    }
    model = nn.Sequential(OrderedDict(layers))
    parameters: Any = list(model.named_parameters() if named else model.parameters())
    if groups:  # weight decay for matrices only, as is usual
        parameters = [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": 0.1},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
    optimizer = kind(parameters, lr=1e-2, **options)
    for step in range(3):
        optimizer.zero_grad()
        tokens = torch.arange(step, step + 20) % 50
        (model(tokens) ** 2).mean(1).sub(torch.arange(20)).square().mean().backward()
        optimizer.step()
    return model, optimizer


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def scores_of(state: dict[str, Any], config: KMeansConfig = PRUNING, given: Any = None) -> dict[str, Any]:
    captured = capture_state(state)
    found = importance_of(config, given or {}, first_moments(Anatomy(captured)))
    scores = {leaf.path: found.scores(leaf) for leaf in captured.leaves if leaf.path[0] == "model"}
    return {str(path[1]): score(0) for path, score in scores.items() if score is not None}


MATRICES = ["emb.weight", "up.weight", "down.weight"]


@pytest.mark.parametrize(
    ("kind", "name", "options"),
    [
        (torch.optim.AdamW, "exp_avg", {}),
        (torch.optim.Adam, "exp_avg", {"amsgrad": True}),
        (torch.optim.SGD, "momentum_buffer", {"momentum": 0.9}),
    ],
)
@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_a_weight_finds_its_moment(
    kind: type, name: str, options: dict[str, Any], *, groups: bool, named: bool
):
    if groups and named:
        pytest.skip("torch takes names without groups only")
    model, optimizer = trained(kind, groups=groups, named=named, **options)
    scores = scores_of(state_of(model, optimizer))
    assert list(scores) == MATRICES
    for path, weight in model.named_parameters():
        if path in scores:
            expected = (weight * optimizer.state[weight][name]).abs().detach().flatten().numpy()
            assert np.array_equal(scores[path], expected)


def test_what_does_not_agree_has_no_scores():
    model, optimizer = trained()
    state = state_of(model, optimizer)
    assert scores_of({"model": state["model"]}) == {}
    assert scores_of(state_of(*trained(torch.optim.SGD))) == {}
    further = {**state["model"], "more.weight": torch.ones(16, 16)}
    assert list(scores_of({**state, "model": further})) == ["emb.weight"]
    turned = {**state["model"], "emb.weight": torch.ones(16, 50)}
    assert list(scores_of({**state, "model": turned})) == MATRICES[1:]


def test_names_win_over_order():
    model, optimizer = trained(named=True)
    state = state_of(model, optimizer)
    reordered = dict(reversed(state["model"].items()))
    assert np.array_equal(
        scores_of({**state, "model": reordered})["up.weight"], scores_of(state)["up.weight"]
    )


def test_scores_that_are_handed_in_go_by_name_and_size():
    state = {"model": {"a": torch.ones(4, 4), "b": torch.ones(2, 8), "c": torch.ones(4, 4)}}
    given = {"a": -np.arange(16.0).reshape(4, 4), "b": np.ones(3), "c": np.ones(16, int)}
    scores = scores_of(state, KMeansConfig(8, 0.3, metric="sensitivity"), given)
    assert list(scores) == ["a"]
    assert np.array_equal(scores["a"], np.arange(16, dtype=np.float32))


def test_sensitivity_has_to_be_handed_in(repo: Repository):
    with pytest.raises(UsageError, match="needs scores"):
        repo.commit({"model": {"a": torch.ones(4, 4)}}, bins=8, prune=0.3, metric="sensitivity")


def restored(repo: Repository, state: Any, **options: Any) -> dict[str, Any]:
    commit = repo.commit(state, **options)
    return repo.restore(commit.id, prefer_exact=False).state["model"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_least_important_become_zero_and_the_most_important_stay(repo: Repository, dtype: torch.dtype):
    rng = torch.Generator().manual_seed(0)
    weight = torch.randn(200, 300, generator=rng).to(dtype)
    scores = torch.rand(200, 300, generator=rng)
    options = {"metric": "sensitivity", "importance": {"w": scores.numpy()}}
    back = restored(repo, {"model": {"w": weight}}, bins=16, prune=0.3, protect=0.01, **options)["w"]
    order = scores.flatten().argsort()
    least, most = order[: int(0.295 * order.numel())], order[-int(0.0045 * order.numel()) :]
    assert torch.equal(back.flatten()[most], weight.flatten()[most])
    by_size = weight.float().abs().flatten().argsort(stable=True)
    largest = by_size[-int(0.0045 * order.numel()) :]
    assert torch.equal(back.flatten()[largest], weight.flatten()[largest])
    assert back.flatten()[least].count_nonzero() < 0.0065 * least.numel()  # but those
    middle = order[int(0.31 * order.numel()) : -int(0.006 * order.numel())]
    error = (back - weight).float().flatten()[middle]
    assert error.square().mean().sqrt() < 0.13
    assert (back == weight).float().mean() < 0.03 if dtype is torch.float32 else True


def test_by_momentum_other_weights_are_pruned_than_by_magnitude(repo: Repository):
    state = state_of(*trained())
    by_size = restored(repo, state, bins=8, prune=0.3, metric="magnitude")
    by_momentum = restored(repo, state, bins=8, prune=0.3)
    assert [path for path in by_size if not torch.equal(by_size[path], by_momentum[path])] == MATRICES
    scores = scores_of(state)["up.weight"]
    least = scores < np.quantile(scores, 0.29)
    assert not by_momentum["up.weight"].flatten()[torch.from_numpy(least)].any()


def test_half_is_protected_for_each_score_whatever_prunes(repo: Repository):
    rng = torch.Generator().manual_seed(1)
    weight, scores = torch.randn(200, 300, generator=rng), torch.rand(200, 300, generator=rng)
    config = KMeansConfig(16, 0.2, 0.01, metric="magnitude", protect_metric="sensitivity")
    back = restored(repo, {"model": {"w": weight}}, quantizer=config, importance={"w": scores})["w"]
    small = weight.abs().flatten().argsort()[: int(0.195 * weight.numel())]
    most = scores.flatten().argsort()[-int(0.0045 * weight.numel()) :]
    assert torch.equal(back.flatten()[most], weight.flatten()[most])
    pruned = small[scores.flatten()[small] < 0.99]
    assert not back.flatten()[pruned].any()


def test_a_layer_type_with_a_tensor_without_scores_goes_by_magnitude(repo: Repository):
    rng = torch.Generator().manual_seed(2)
    model = {f"blocks.{i}.w": torch.randn(64, 64, generator=rng) for i in range(2)}
    scores = {"blocks.0.w": np.random.default_rng(0).random((64, 64))}
    options = {"metric": "sensitivity", "importance": scores}
    some = restored(repo, {"model": model}, bins=8, prune=0.3, **options)
    plain = restored(repo, {"model": model}, bins=8, prune=0.3)
    assert all(torch.equal(some[path], plain[path]) for path in model)


def test_embeddings_may_have_a_table_of_their_own(repo: Repository):
    rng = torch.Generator().manual_seed(3)
    model = {
        "wte.weight": torch.randn(100, 64, generator=rng),
        "head.weight": torch.randn(64, 64, generator=rng),
    }
    config = KMeansConfig(4, prune=0.3, embedding_bins=32)
    back = restored(repo, {"model": model}, quantizer=config)
    assert len(back["wte.weight"].unique()) == 32
    assert len(back["head.weight"].unique()) == 5
    assert not (back["wte.weight"] == 0).any()


ODD = st.sampled_from([0.0, -1.0, 1.0, 2.5, 1e-40, 1e30, float("inf"), float("nan")])


@given(st.lists(st.tuples(ODD, ODD), min_size=2, max_size=60))
def test_odd_scores_disturb_nothing(pairs: list[tuple[float, float]]):
    weights, scores = np.array(pairs, np.float32).T
    state = {"w": torch.from_numpy(weights.copy()).reshape(1, -1)}
    config = KMeansConfig(4, prune=0.3, protect=0.1, metric="sensitivity")
    captured = capture_state(state)
    tables = TableQuantizer(config, importance_of(config, {"w": scores}))
    (leaf,) = captured.leaves
    tables.prepare([leaf])
    coding = tables.coding(leaf)
    coded = coding.code(leaf.source.read(), 0, None)
    back = np.frombuffer(coding.restore(coded, 0, weights.size), np.float32)
    finite = np.isfinite(weights)
    assert back[~finite].tobytes() == weights[~finite].tobytes()
    assert np.isfinite(back[finite]).all()
    subnormal = np.abs(weights) == np.float32(1e-40)
    assert np.array_equal(back[subnormal], weights[subnormal])
