"""Every method of the catalogue: bytes alone give what its encoder said, checkpoint after checkpoint."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mvcs.bench.methods.catalog import METHODS
from mvcs.bench.methods.method import Method, Setting, State
from mvcs.errors import CorruptionError
from mvcs.inshrinkerator import ConfigurationCube

Tensors = dict[str, NDArray[np.float32]]
SHAPES = {"a.weight": (7, 5), "b.weight": (3, 4, 2), "embedding.weight": (16, 8)}


def walk(seed: int, length: int = 3) -> list[Tensors]:
    """Tensors that move a little from one checkpoint to the next."""
    drawn = np.random.default_rng(seed)
    tensors = {name: drawn.normal(0, 0.05, shape).astype(np.float32) for name, shape in SHAPES.items()}
    found = [tensors]
    for _ in range(length - 1):
        tensors = {
            name: tensor + drawn.normal(0, 0.003, tensor.shape).astype(np.float32)
            for name, tensor in tensors.items()
        }
        found.append(tensors)
    return found


def needs(method: Method, tensors: Tensors, seed: int = 0) -> dict[str, object]:
    """What the method asks for beside tensors."""
    drawn = np.random.default_rng(seed)
    size = {
        name: np.abs(drawn.normal(0, 1e-3, tensor.shape)).astype(np.float32)
        for name, tensor in tensors.items()
    }
    square = {name: one * one for name, one in size.items()}
    known = {"scores": size, "moments": {"exp_avg": size, "exp_avg_sq": square}, "seed": seed}
    return {name: known[name] for name in method.needs}


def settings_of(method: Method) -> list[Setting]:
    """The coarsest and the finest setting, the coarsest by other metrics, and the fixed ones."""
    cube = ConfigurationCube(method.axes, method.metrics)
    coarsest = [cube.at((0,) * len(cube.axes), metric) for metric in method.metrics[::-1] or (None,)]
    return [coarsest[0], cube.at(cube.top), *coarsest[1:], *method.fixed.values()]


def chain(method: Method, states: list[Tensors], setting: Setting) -> list[tuple[bytes, State]]:
    """Payload and state of each checkpoint."""
    found, state = [], None
    for tensors in states:
        payload, state = method.encode(tensors, state, setting, **needs(method, tensors))
        found.append((payload, state))
    return found


@pytest.fixture(params=METHODS.values(), ids=METHODS)
def method(request: pytest.FixtureRequest) -> Method:
    """Each of them."""
    return installed(request.param)


def installed(method: Method) -> Method:
    """Skip methods whose package is not here."""
    if method.missing:
        pytest.skip(f"{method.name} needs a package: {method.missing}")
    return method


def test_payloads_alone_give_what_the_encoder_said(method: Method) -> None:
    for setting in settings_of(method):
        state = None
        for payload, said in chain(method, walk(0), setting):
            tensors, state = method.decode(payload, state)
            assert all(np.array_equal(tensors[name], said.tensors[name]) for name in SHAPES)


def test_the_finest_setting_is_no_worse_than_the_coarsest(method: Method) -> None:
    coarsest, finest = settings_of(method)[:2]
    states = walk(0)

    def error(setting: Setting) -> float:
        restored = chain(method, states, setting)[-1][1].tensors
        return sum(float(np.square(restored[name] - states[-1][name]).sum()) for name in SHAPES)

    assert error(finest) <= error(coarsest)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 1e-30, 1e30]), st.sampled_from([0, 1, 2]))
@pytest.mark.parametrize("name", METHODS)
def test_constant_and_extreme_tensors_come_back(name: str, seed: int, value: float, place: int) -> None:
    method, states = installed(METHODS[name]), walk(seed)
    states[place]["a.weight"] = np.full(SHAPES["a.weight"], value, np.float32)
    restored = chain(method, states, settings_of(method)[1])[place][1].tensors["a.weight"]
    assert np.isfinite(restored).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_tensors_that_are_not_finite_are_kept(method: Method, value: float) -> None:
    states = walk(1)
    states[1]["a.weight"][2, 3] = value
    restored = chain(method, states, settings_of(method)[0])
    assert np.array_equal(restored[1][1].tensors["a.weight"], states[1]["a.weight"], equal_nan=True)
    assert np.isfinite(restored[2][1].tensors["a.weight"]).all()


def test_tensors_may_come_go_and_change_their_shape(method: Method) -> None:
    states = walk(2, 2)
    grown = {"new.weight": np.ones((4, 4), np.float32), "b.weight": np.ones((5, 3), np.float32)}
    restored = chain(method, [*states, grown, states[1]], settings_of(method)[1])
    assert {name: one.shape for name, one in restored[2][1].tensors.items()} == {
        "new.weight": (4, 4),
        "b.weight": (5, 3),
    }


def test_what_a_method_is_handed_is_left_as_it_is(method: Method) -> None:
    states = walk(4, 2)
    copies = [{name: tensor.copy() for name, tensor in tensors.items()} for tensors in states]
    chain(method, states, settings_of(method)[0])
    assert all(
        np.array_equal(one[name], other[name])
        for one, other in zip(states, copies, strict=True)
        for name in one
    )


def test_torn_payloads_are_refused(method: Method) -> None:
    for setting in settings_of(method)[:2]:
        state = None
        for payload, after in chain(method, walk(3), setting):
            for end in (0, 3, len(payload) // 2, len(payload) - 1):
                with pytest.raises(CorruptionError):
                    method.decode(payload[:end], state)
            state = after


@settings(max_examples=10, deadline=None)
@given(st.data())
@pytest.mark.parametrize("name", METHODS)
def test_damaged_payloads_are_refused_or_read_as_others(name: str, data: st.DataObject) -> None:
    method = installed(METHODS[name])
    payload, _ = chain(method, walk(5, 1), settings_of(method)[0])[0]
    place = data.draw(st.integers(0, len(payload) - 1))
    damaged = bytearray(payload)
    damaged[place] ^= data.draw(st.integers(1, 255))
    with suppress(CorruptionError):
        method.decode(bytes(damaged), None)


def test_embeddings_have_an_axis_where_there_are_some(method: Method) -> None:
    without = {name: shape for name, shape in SHAPES.items() if not name.startswith("embedding")}
    assert method.axes_for(SHAPES) == method.axes
    assert method.axes.keys() - method.axes_for(without).keys() <= {"embedding_bins"}
    assert "embedding_bins" not in method.axes_for(without)
