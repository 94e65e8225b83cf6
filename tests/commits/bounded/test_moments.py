"""What every way to keep moments promises: no second moment becomes zero, no update becomes infinite."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mvcs import Repository
from mvcs.quantize import LatticeConfig, MomentsConfig

EPS = 1e-8
TIERS = {
    "resume": MomentsConfig.RESUME,
    "light": MomentsConfig.LIGHT,
    "octaves": MomentsConfig("absent", 1.0),
    "steps": MomentsConfig(0.5, 0.5),
    "exact first": MomentsConfig("exact", 2.0),
}
KINDS = {torch.float32: np.uint32, torch.bfloat16: np.uint16}


def patterns(seed, kind, shape):
    """Any bits: every exponent, denormals, infinities and NaNs included; every eighth value is zero."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, np.iinfo(KINDS[kind]).max, shape, KINDS[kind], endpoint=True)
    return np.where(random.integers(0, 8, shape) == 0, KINDS[kind](0), bits)


def tensor(bits, kind):
    signed = bits.view({2: np.int16, 4: np.int32}[bits.itemsize])
    return torch.from_numpy(signed.copy()).view(kind)


def sane(values, largest):
    """Finite and not so large that an update overflows by itself; a NaN stays."""
    return torch.where(values.isinf() | (values.abs() > largest), torch.zeros_like(values), values)


@pytest.fixture(scope="module")
def repo(tmp_path_factory):
    with Repository.init(tmp_path_factory.mktemp("moments")) as repository:
        yield repository


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32), shape=st.sampled_from([(7,), (40, 33), (3, 2, 3, 3)]))
def test_no_second_moment_becomes_zero_and_no_update_infinite(repo, kind, tier, seed, shape):
    first = sane(tensor(patterns((seed, 1), kind, shape), kind), 1e20)
    second = sane(tensor(patterns((seed, 2), kind, shape), kind).abs(), 1e30)
    noise = torch.from_numpy(np.random.default_rng(0).standard_normal(shape)).to(kind)
    spread = {"exp_avg": noise * 1e-3, "exp_avg_sq": (noise * 1e-3).square()}
    state = {"state": {0: {"exp_avg": first, "exp_avg_sq": second}, 1: spread}, "param_groups": []}

    repo.commit({"optimizer": state}, quantizer=LatticeConfig(moments=TIERS[tier]))
    restored = repo.checkout()["optimizer"]["state"]

    for number, moments in state["state"].items():
        before, after = moments["exp_avg_sq"], restored[number]["exp_avg_sq"]
        assert torch.equal(after == 0, before == 0)
        update = moments["exp_avg"].double() / (before.double().sqrt() + EPS)
        again = restored[number]["exp_avg"].double() / (after.double().sqrt() + EPS)
        assert again[update.isfinite()].isfinite().all()


@pytest.mark.parametrize("scale", [1e-6, 1e-20, 1e-30, 1e-34])
def test_zeros_among_other_second_moments_stay_zero_and_whole_rows_and_columns_cost_nothing(repo, scale):
    values = torch.rand(200, 96, generator=torch.Generator().manual_seed(0)) * scale
    values[100:] = 0  # such as tokens that were not met
    values[:, 90:] = 0
    odd = values.clone()
    odd[3, 4] = odd[7, 9] = 0
    written = []
    for second in (values, odd):
        moments = {"exp_avg": torch.zeros(200, 96), "exp_avg_sq": second}
        state = {"optimizer": {"state": {0: moments}, "param_groups": []}, "scale": scale}
        options = {"quantizer": LatticeConfig(moments=MomentsConfig.LIGHT), "continues": ""}
        info = repo.commit(state, branch=f"{scale}-{len(written)}", **options)
        restored = repo.checkout(info.id)["optimizer"]["state"][0]["exp_avg_sq"]
        assert torch.equal(restored == 0, second == 0)
        written.append(info.stored_bytes)
    assert written[0] < written[1] / 2
