"""Codes made by PyTorch, on any device, are the kernel's."""

import numpy as np
import pytest
import torch

from mvcs import quantize
from mvcs.train.choice.lattice import lattice_codes

CUDA = pytest.param(
    "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
)
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, -1e-40, 1.1754942e-38, 1.1754944e-38, 3.4e38, -3.4e38]


def samples(step):
    """Random values, every tie, the largest codes, every kind of float, and random patterns."""
    random, unit = np.random.default_rng(step), np.float32(quantize.step_value(step))
    ties = np.arange(-40, 41).astype(np.float32) / 4 * unit
    limits = np.array([32766.5, 32767, 32767.5, 32768, 41000, -32767.5, -32768], np.float32) * unit
    near = np.concatenate([np.nextafter(limits, np.float32(side)) for side in (0, np.inf, -np.inf)])
    patterns = random.integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32)
    noise = random.standard_normal(100_000).astype(np.float32) * unit * 4
    return np.concatenate([noise, ties, limits, near, patterns, np.array(SPECIAL, np.float32)])


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("step", [0, 119, 201, 202, 203, 255])
def test_codes_are_the_kernels(device, step):
    values = samples(step)
    found = lattice_codes(torch.from_numpy(values).to(device), step)
    assert found.dtype == torch.int16
    assert found.device.type == device
    assert np.array_equal(found.cpu().numpy(), quantize.lattice_codes(values, step))


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("hysteresis", [0.0, 0.1, 0.25, 0.5])
def test_codes_near_a_base_are_the_kernels(device, hysteresis):
    values = samples(203)
    before = np.resize(np.array([0, 1, -1, 2, 0, -2], np.int32), values.size)
    base = np.clip(quantize.lattice_codes(values, 203) + before, -32768, 32767).astype(np.int16)
    found = lattice_codes(
        torch.from_numpy(values).to(device), 203, torch.from_numpy(base).to(device), hysteresis
    )
    assert np.array_equal(found.cpu().numpy(), quantize.lattice_codes(values, 203, base, hysteresis))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_types_and_layouts_go_through_float32(dtype):
    weight = torch.nn.Parameter(torch.randn(30, 40, generator=torch.Generator().manual_seed(1)).to(dtype))
    expected = quantize.lattice_codes(weight.detach().T.float().numpy(), 230)
    assert np.array_equal(lattice_codes(weight.T, 230).numpy(), expected)


def test_a_thread_that_flushes_subnormals_gets_the_same():
    values = samples(120)
    before = torch.set_flush_denormal(True)
    try:
        found = lattice_codes(torch.from_numpy(values), 120).numpy()
    finally:
        torch.set_flush_denormal(False)
    assert before
    assert np.array_equal(found, quantize.lattice_codes(values, 120))
