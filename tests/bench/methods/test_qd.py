"""QD-Compressor's codes, worked by hand."""

import numpy as np

from mvcs.bench.methods.coding import decompressed
from mvcs.bench.methods.method import unpack
from mvcs.bench.methods.qd import QD


def test_differences_go_round_in_the_wider_of_two_widths() -> None:
    method = QD()
    first, second = np.array([[0, 1, 2, 3]], np.float32), np.array([[3, 1, 2, 0]], np.float32)
    narrow, wide = {"min_bits": 2, "max_bits": 2}, {"min_bits": 3, "max_bits": 3}
    payload, state = method.encode({"w": first}, None, narrow)
    assert decompressed(unpack(payload)[6], 4) == bytes([0, 1, 2, 3])
    payload, state = method.encode({"w": second}, state, narrow)
    assert decompressed(unpack(payload)[6], 4) == bytes([3, 0, 0, 1])  # (3 - 0) mod 4, …, (0 - 3) mod 4
    payload, state = method.encode({"w": second}, state, wide)  # codes 7, 2, 5, 0 after 3, 1, 2, 0
    assert decompressed(unpack(payload)[6], 4) == bytes([4, 1, 3, 0])
    assert np.allclose(state.tensors["w"], [[3, 6 / 7, 15 / 7, 0]], rtol=1e-6)
