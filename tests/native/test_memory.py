"""Arrays that kernels write: memory of their own, used again when nothing refers to it."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mvcs_native

LARGE = 1 << 20


def place(array: np.ndarray) -> int:
    return int(array.ctypes.data)


@pytest.fixture
def _nothing_idle() -> None:
    gc.collect()
    mvcs_native.release_buffers()


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
@pytest.mark.parametrize("count", [0, 1, 1000, LARGE, LARGE + 1])
def test_an_array_is_as_asked_for(dtype: type, count: int) -> None:
    array = mvcs_native.empty(count, dtype)
    assert array.dtype == dtype
    assert array.shape == (count,)
    assert array.flags.writeable
    assert array.flags.c_contiguous


@pytest.mark.usefixtures("_nothing_idle")
def test_memory_is_used_again() -> None:
    first = mvcs_native.empty(LARGE, np.float32)
    at = place(first)
    del first
    assert place(mvcs_native.empty(LARGE - 9, np.float32)) == at


@pytest.mark.usefixtures("_nothing_idle")
def test_memory_is_not_used_again_while_a_view_lives() -> None:
    view = mvcs_native.empty(LARGE, np.float32)[17:].view(np.uint32)[1:]
    view[:] = 7
    other = mvcs_native.empty(LARGE, np.float32)
    other[:] = 0
    assert (view == 7).all()


@pytest.mark.usefixtures("_nothing_idle")
def test_a_small_array_does_not_take_a_large_block() -> None:
    large = mvcs_native.empty(4 * LARGE, np.float32)
    at = place(large)
    del large
    assert place(mvcs_native.empty(LARGE, np.float32)) != at


@pytest.mark.usefixtures("_nothing_idle")
def test_threads_never_share_memory() -> None:
    def work(mark: int) -> bool:
        for size in range(LARGE, LARGE + 40):
            array = mvcs_native.empty(size, np.uint8)
            array[:] = mark
            if not (array == mark).all():
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_what_cannot_be_had_is_an_error() -> None:
    with pytest.raises(MemoryError):
        mvcs_native.empty(1 << 50, np.uint8)
