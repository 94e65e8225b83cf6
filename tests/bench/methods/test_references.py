"""References: exact whatever the values are, and honest about packages that are not there."""

import numpy as np
import pytest

from mvcs.bench.codecs.coders import zstd
from mvcs.bench.methods.coding import sealed
from mvcs.bench.methods.method import Method, pack, unpack
from mvcs.bench.methods.references import REFERENCES, Moonclip, Reference
from mvcs.errors import CorruptionError

NAMES = [method.name for method in REFERENCES]


@pytest.fixture(params=REFERENCES, ids=NAMES)
def reference(request: pytest.FixtureRequest) -> Method:
    found: Method = request.param
    if found.missing:
        pytest.skip(found.missing)
    return found


def test_every_bit_comes_back(reference: Method) -> None:
    drawn = np.random.default_rng(0)
    bits = drawn.integers(0, 0x7F800000, (30, 20), np.uint32)
    first = {"w": bits.view(np.float32), "empty": np.zeros((0, 3), np.float32)}
    second = {"w": first["w"] * np.float32(-1), "new": np.full((4, 4), -0.0, np.float32)}
    state = None
    for tensors in (first, second):
        payload, _ = reference.encode(tensors, state, {})
        found, state = reference.decode(payload, state)
        assert {name: one.tobytes() for name, one in found.items()} == {
            name: one.tobytes() for name, one in tensors.items()
        }


@pytest.mark.parametrize("name", ["xor-planes", "bitx", "pcodec", "z4ai-delta", "moonclip", "mvcs-exact"])
def test_small_steps_from_the_checkpoint_before_are_smaller(name: str) -> None:
    method = REFERENCES[NAMES.index(name)]
    if method.missing:
        pytest.skip(method.missing)
    drawn = np.random.default_rng(1)
    weights = drawn.normal(0, 0.05, (200, 200)).astype(np.float32)
    first, state = method.encode({"w": weights}, None, {})
    moved = weights + drawn.normal(0, 1e-5, (200, 200)).astype(np.float32)
    second, _ = method.encode({"w": moved}, state, {})
    assert len(second) < 0.8 * len(first)


def test_a_package_that_is_not_there_is_named() -> None:
    absent = Reference("absent", "", zstd(3), package="no_such_package_anywhere")
    assert absent.missing == "pip install 'mvcs[bench]'"


def test_files_of_other_names_are_refused() -> None:
    sections = unpack(REFERENCES[0].encode({"w": np.ones((2, 2), np.float32)}, None, {})[0])[:3]
    hostile = pack([*sections, *sealed([b"../outside", b"content"])])
    with pytest.raises(CorruptionError, match="other names"):
        Moonclip().decode(hostile, None)
