"""The judge of commits on unseen data: what it compares, and how."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.bench import unseen


@pytest.fixture
def task() -> unseen.Pictures:
    return unseen.Pictures()


@pytest.mark.parametrize("first", [False, True])
def test_no_example_is_in_both_samples(task: unseen.Pictures, first: bool) -> None:
    samples = unseen.Samples(task, unseen.KINDS["cnn"], 20, 100, split=3, first=first)
    search, judged = np.concatenate(samples.search), np.concatenate(samples.unseen)
    assert (len(search), len(judged)) == (160, 800)
    assert len({*search, *judged}) == 960
    assert (sorted(search) == list(range(160))) is first


def test_degradation_is_that_of_paired_batches() -> None:
    mean, error = unseen.worse([2.2, 4.2], [2.0, 4.0])
    assert mean == pytest.approx(0.2 / 3)
    assert error == pytest.approx(0.0)


def test_the_largest_of_ten_is_compared_with_their_median() -> None:
    assert unseen.largest([1] * 10 + [5] * 10) == 5
    assert unseen.largest([1, 4]) == 4 / 2.5


def test_an_exact_restore_loses_nothing(task: unseen.Pictures) -> None:
    torch.manual_seed(0)
    model: nn.Module = unseen.Cnn(4, 10).eval()
    samples = unseen.Samples(task, unseen.KINDS["cnn"], 4, 8, split=0)
    searched, judged = samples.losses(model)
    assert [total for total, _ in samples.evaluate(model)] == searched
    assert unseen.worse(judged, judged) == (0.0, 0.0)
