"""Copies of memory into arrays that stay: every byte, nothing beside them, at every level, on any threads."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mvcs_native

LARGE = 20_000_000
EDGE = 7


def noise(size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def gather(sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], threads: int = 1) -> None:
    mvcs_native.Gather(targets).fill([int(source.ctypes.data) for source in sources], threads)


pieces = st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 70), st.integers(0, 70)), max_size=5)


@pytest.mark.usefixtures("level")
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces)
def test_every_byte_and_no_other(drawn: list[tuple[int, int, int]]) -> None:
    memory = [noise(into + size + EDGE, 1) for size, _, into in drawn]
    sources = [noise(out + size, 2)[out:] for size, out, _ in drawn]
    expected = [whole.copy() for whole in memory]
    for whole, source, (size, _, into) in zip(expected, sources, drawn, strict=True):
        whole[into : into + size] = source
    targets = [whole[into : into + size] for whole, (size, _, into) in zip(memory, drawn, strict=True)]
    gather(sources, targets)
    for found, whole in zip(memory, expected, strict=True):
        np.testing.assert_array_equal(found, whole)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("threads", [0, 1, 2, 3, 64])
def test_on_threads(threads: int) -> None:
    sizes = [LARGE, 1, 0, 999_999, LARGE // 3, 64]
    sources = [noise(size, size) for size in sizes]
    targets = [np.zeros(size, np.uint8) for size in sizes]
    gather(sources, targets, threads)
    for source, target in zip(sources, targets, strict=True):
        np.testing.assert_array_equal(source, target)


def test_targets_are_filled_again_and_kept_alive() -> None:
    target = np.zeros(5000, np.uint8)
    kept = mvcs_native.Gather([target])
    view = target[:]
    del target
    for seed in range(3):
        source = noise(5000, seed)
        kept.fill([int(source.ctypes.data)], 1)
        np.testing.assert_array_equal(view, source)


def test_nothing_to_copy() -> None:
    gather([], [])
    mvcs_native.Gather([np.zeros(0, np.uint8)]).fill([0], 4)


@pytest.mark.parametrize("addresses", [[], [1, 1], [0]])
def test_addresses_that_cannot_be_are_refused(addresses: list[int]) -> None:
    kept = mvcs_native.Gather([np.zeros(3, np.uint8)])
    with pytest.raises(ValueError, match="address"):
        kept.fill(addresses, 1)


@pytest.mark.parametrize("addresses", [[-1], [1 << 64], ["a"], [1.5], 3])
def test_what_is_no_address_is_refused(addresses: object) -> None:
    kept = mvcs_native.Gather([np.zeros(3, np.uint8)])
    with pytest.raises(TypeError):
        kept.fill(addresses, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "target",
    [
        np.zeros(4, np.float32),
        np.zeros((2, 2), np.uint8),
        np.zeros(8, np.uint8)[::2],
        np.frombuffer(b"ab", np.uint8),
    ],
    ids=["another type", "two dimensions", "strided", "read-only"],
)
def test_targets_that_would_not_be_written_are_refused(target: np.ndarray) -> None:
    with pytest.raises(TypeError):
        mvcs_native.Gather([target])
