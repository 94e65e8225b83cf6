"""The global random generators: captured without drawing, put back exactly."""

import random

import numpy as np
import pytest
import torch

from mvcs.train.state import rng


def draw() -> tuple[object, ...]:
    return (
        random.random(),
        random.gauss(0, 1),
        np.random.rand(),  # noqa: NPY002 - the generator under test
        np.random.standard_normal(),  # noqa: NPY002 - the generator under test
        torch.rand(3).tolist(),
        torch.nn.functional.dropout(torch.ones(20)).tolist(),
    )


@pytest.mark.parametrize("drawn_before", [0, 1, 2, 700])
def test_what_is_drawn_after_a_restore_is_what_was_drawn_before(drawn_before: int) -> None:
    rng.restore(rng.capture())
    for _ in range(drawn_before):
        draw()
    saved = rng.capture()
    expected = [draw() for _ in range(3)]
    rng.restore(saved)
    assert [draw() for _ in range(3)] == expected


def test_capturing_draws_nothing() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4).tolist()
    torch.manual_seed(3)
    rng.capture()
    assert torch.rand(4).tolist() == expected


def test_missing_devices_are_named(caplog: pytest.LogCaptureFixture) -> None:
    saved = rng.capture()
    saved["cuda"] = [torch.get_rng_state()] * (torch.cuda.device_count() + 2)
    if torch.cuda.device_count() == 0:
        rng.restore(saved)
        assert "2 CUDA devices are not restored" in caplog.text
