"""Kernels are tested at every instruction level of the machine."""

from collections.abc import Iterator

import pytest

import mvcs_native


@pytest.fixture(params=["portable", "avx2", "avx512"])
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Force one instruction level for a test."""
    if request.param not in mvcs_native.levels():
        pytest.skip(f"this machine has no {request.param}")
    before = mvcs_native.level()
    mvcs_native.use_level(request.param)
    yield request.param
    mvcs_native.use_level(before)
