"""Files tuned from Python: an evaluation is given what a checkout of the commit gives, in every dtype."""

from pathlib import Path

import pytest
import torch

from mvcs.errors import UsageError
from mvcs.repository import Repository
from mvcs.search import Bound
from mvcs.train.choosers import Method
from mvcs.train.tuning import tune_files


def odd_state(step: int) -> dict[str, object]:
    """Weights of several types, copies, tied, constant, not finite, and things that are no weights."""
    generator = torch.Generator().manual_seed(7)
    first = torch.randn(40, 30, generator=generator)
    moved = first + 0.01 * step * torch.randn(40, 30, generator=generator)
    broken = torch.randn(8, 8, generator=generator)
    broken[0, 0] = float("nan")
    same = torch.full((6, 6), 0.25)
    same.flatten()[0] = 0.25 + 1e-6
    return {
        "weight": moved,
        "tied": moved,
        "copy": moved.bfloat16(),
        "double": moved.double() * (1 + 1e-12),
        "half": moved.half(),
        "constant": torch.ones(5, 5),
        "nearly": same,
        "its copy": same.bfloat16(),
        "broken": broken,
        "huge": torch.full((4, 4), 1e300, dtype=torch.float64),
        "bias": moved[0].clone(),
        "parameter": torch.nn.Parameter(moved[:20].clone()),
        "running_var": moved[1].square(),
        "step": torch.tensor(step),
        "names": ("a", [1, 2.5]),
    }


def same(one: object, other: object) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return type(one) is type(other) and one == other
    kinds = type(one) is type(other) and (one.dtype, one.shape) == (other.dtype, other.shape)
    return kinds and one.detach().flatten().view(torch.uint8).equal(
        other.detach().flatten().view(torch.uint8)
    )


@pytest.mark.parametrize(("method", "bound"), [("lattice", 1e-3), ("inshrinkerator", 1e-2)])
def test_what_is_evaluated_is_what_is_restored(repo: Repository, method: Method, bound: float) -> None:
    top = repo.top or Path()
    for step in range(3):
        path = top / "state.pt"
        torch.save(odd_state(step), path)
        seen: list[dict[str, object]] = []

        def evaluate(state: dict[str, object], seen: list[dict[str, object]] = seen) -> float:
            seen.append(state)
            error = state["weight"] - odd_state(step)["weight"]  # type: ignore[operator]  # noqa: B023 - called here
            return 1 + float(error.square().mean())

        found = tune_files(repo, [path], evaluate, Bound(bound), method=method)
        assert found.quantizer is not None
        report = found.commit(repo, f"state {step}", step=step)
        told = [(each.accepted, each.degradation) for each in report.candidates]
        accepted = len(told) - 1 - told[::-1].index((True, report.degradation))
        restored = repo.checkout()["state.pt"]
        given = seen[accepted - len(told)]  # candidates come last
        assert list(given) == list(restored)
        assert [name for name in given if not same(given[name], restored[name])] == []
        exact = repo.checkout(exact=True)["state.pt"]
        assert [name for name in exact if not same(seen[0][name], exact[name])] == []
        assert not same(given["weight"], exact["weight"])
        assert given["weight"] is given["tied"]


@pytest.mark.parametrize("method", ["lattice", "inshrinkerator"])
def test_what_the_function_does_not_use_of_a_file_is_exact(repo: Repository, method: Method) -> None:
    top = repo.top or Path()
    generator = torch.Generator().manual_seed(7)
    x, weight = (torch.randn(40, 40, generator=generator) for _ in range(2))
    given = {
        "model": {"fc": weight, "bias": weight[0].clone()},
        "ema": {"fc": 0.9 * weight, "bias": weight[1] * 1},
    }
    torch.save(given, top / "state.pt")

    def evaluate(state: dict[str, dict[str, torch.Tensor]]) -> float:
        return float((x @ state["model"]["fc"] + state["model"]["bias"] - 1).square().mean())

    tuned = tune_files(repo, [top / "state.pt"], evaluate, Bound(0.02), method=method)
    report = tuned.commit(repo, "tuned")
    assert report.commit is not None
    assert report.commit.bounded
    found = repo.restore(prefer_exact=False).state["state.pt"]
    assert all(torch.equal(found["ema"][name], given["ema"][name]) for name in ("fc", "bias"))
    assert not torch.equal(found["model"]["fc"], given["model"]["fc"])


def test_code_tables_of_embeddings_have_settings_of_their_own(repo: Repository) -> None:
    path = (repo.top or Path()) / "state.pt"
    generator = torch.Generator().manual_seed(7)
    table, weight = torch.randn(64, 16, generator=generator), torch.randn(16, 16, generator=generator)
    torch.save({"wte.weight": table, "fc.weight": weight}, path)

    def evaluate(state: dict[str, torch.Tensor]) -> float:
        return float((state["wte.weight"] @ state["fc.weight"]).square().mean())

    report = tune_files(repo, [path], evaluate, Bound(0.1), method="inshrinkerator").commit(repo, "tuned")
    assert report.commit is not None
    committed = repo.show(report.commit.id).quantizer
    assert report.setting["embedding_bins"] == committed["embedding_bins"]


def test_an_unknown_method_is_refused(repo: Repository) -> None:
    with pytest.raises(UsageError, match="method"):
        tune_files(repo, [], float, Bound(0.1), method="kmeans")  # type: ignore[arg-type]
