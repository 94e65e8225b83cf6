"""Metadata is counted once, and as much as ids alone say."""

import pytest

from tests.bench.adam_states import adam_states
from tests.bench.metadata import PAYLOAD, PER_COMMIT, WAYS, measure


@pytest.mark.parametrize("way", WAYS)
def test_every_byte_of_a_commit_is_counted_once(way):
    found = measure(adam_states((8, 8), 4, 3), *WAYS[way])
    parts = found["parts"]
    assert found["tensors"] == 12
    assert min(parts.values()) >= 0
    rest = sum(count for part, count in parts.items() if part not in {PAYLOAD, *PER_COMMIT})
    assert found["a_tensor"] == rest / 12
    ids = 1 if way == "exact" else 2
    assert 32 * 12 * ids <= parts["tree"] < 32 * 12 * ids + 512
