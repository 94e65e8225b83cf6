"""QD-Compressor's quantizer: the bits of each tensor by its entropy, and levels over its own range."""

import numpy as np
import pytest

from mvcs.errors import UsageError
from mvcs.quantize import UniformQuantizer
from mvcs.quantize.uniform import binned_entropy


def levels(count):
    """Return values of which each lies in a bin of its own; their entropy is log(count)."""
    return np.linspace(0, 1, count, dtype=np.float32)


def test_bits_follow_the_entropy_between_the_two_ends():
    assert UniformQuantizer(4, 8).widths([levels(4), levels(16), levels(64)]) == [4, 6, 8]


def test_equal_entropies_get_the_most_bits():
    assert UniformQuantizer(4, 8).widths([levels(4), 3 * levels(4)]) == [8, 8]


def test_entropy_is_that_of_256_equal_bins():
    assert binned_entropy(np.arange(256, dtype=np.float32)) == pytest.approx(np.log(256))


def test_values_restore_to_levels_of_their_own_range():
    tensors = {"a": np.array([[0, 0.3, 1]], np.float32), "b": np.array([5, 5], np.float32)}
    restored = UniformQuantizer(2, 2).restored(tensors)
    assert np.allclose(restored["a"], [[0, 1 / 3, 1]])
    assert restored["b"].tolist() == [5, 5]


def test_bits_that_no_code_has_are_refused():
    with pytest.raises(UsageError, match="codes cannot have 8 to 4 bits"):
        UniformQuantizer(8, 4)
