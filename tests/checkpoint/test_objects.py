"""Objects of Python's and numpy's come back as what they were; a hostile tree gives errors alone."""

import argparse
import datetime as dt
import enum
import io
import pathlib
import random
import types
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mvcs.checkpoint.state.objects import make_object
from mvcs.errors import CorruptionError, StateError, UnsupportedFormatError
from tests.checkpoint.test_state import round_trip


class Mode(enum.Enum):
    WARM = "warm"
    PAIR = (1, 2)


class Level(enum.IntEnum):
    HIGH = 3


class Access(enum.Flag):
    READ = 1
    WRITE = 2


VALUES = [
    deque([1, [2]], maxlen=5),
    deque(),
    defaultdict(list, {"a": [1]}),
    defaultdict(None, {1: 2}),
    defaultdict(Counter, {(1, 2): Counter("a")}),
    {(1, "a"): 1, None: 2, 1.5: 3, b"x": 4, frozenset({1}): 5, Mode.WARM: 6, pathlib.PurePosixPath("p"): 7},
    Counter({(1, 2): 3}),
    OrderedDict({(2,): 1, (1,): 2}),
    np.array(["a", "b\u00fcc"]),
    np.array([[b"x", b"yy"]], ">S3"),
    np.array(["NaT", "2020-01-01"], "<M8[ns]"),
    np.array([], "<U3"),
    np.str_("text"),
    np.datetime64("2020-01-01T03"),
    np.timedelta64(3, "us"),
    pathlib.Path("/data/run 1"),
    pathlib.PurePosixPath("a/b"),
    pathlib.PureWindowsPath("c:/x"),
    types.SimpleNamespace(rate=0.1, steps=[1, 2]),
    argparse.Namespace(rate=0.1),
    dt.date(2020, 1, 2),
    dt.datetime(2020, 1, 2, 3, 4, 5, 6, fold=1),  # noqa: DTZ001 - one without a zone
    dt.datetime(2020, 1, 2, tzinfo=dt.UTC),
    dt.time(3, 4, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    dt.timedelta(-3, 4, 5),
    Decimal("1.50"),
    Decimal("-sNaN7"),
    Fraction(-1, 3),
    range(3, 9, 2),
    slice(None, 3),
    Mode.WARM,
    Mode.PAIR,
    Level.HIGH,
    Access.READ,
]
BITS_OF = {name: getattr(np.random, name) for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")}
GENERATORS = {
    **{name: partial(np.random.Generator, BITS_OF[name](7)) for name in BITS_OF},
    "RandomState": lambda: np.random.RandomState(7),
    "RandomState of PCG64": lambda: np.random.RandomState(np.random.PCG64(7)),
}


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_as_it_was(value):
    found = round_trip([value, value])
    assert [type(one) for one in found] == [type(value)] * 2
    assert repr(found) == repr([value, value])


@pytest.mark.parametrize("make", [
    lambda tensor: deque([tensor], 3),
    lambda tensor: defaultdict(dict, {"a": tensor}),
    lambda tensor: {(1, 2): tensor},
    lambda tensor: types.SimpleNamespace(a={"b": tensor}),
])  # fmt: skip
def test_tensors_in_objects_are_tied_to_others(make):
    tensor = torch.tensor([1.0, 2.0])
    found = round_trip({"first": make(tensor), "second": tensor})
    found["second"] += 1
    assert repr(found["first"]) == repr(make(tensor + 1))


def test_a_file_in_memory_has_its_position():
    file = io.BytesIO(bytes(9000) + b"end")
    file.seek(9000)
    found = round_trip(file)
    assert type(found) is io.BytesIO
    assert found.read() == b"end"
    assert found.getvalue() == file.getvalue()


@pytest.mark.parametrize("kind", GENERATORS)
def test_a_generator_of_numpy_draws_what_comes_next(kind):
    generator = GENERATORS[kind]()
    generator.standard_normal(3), generator.bytes(1)
    found = round_trip(generator)
    assert type(found) is type(generator)
    assert found.standard_normal(700).tolist() == generator.standard_normal(700).tolist()


def test_a_generator_of_numpy_spawns_what_comes_next():
    generator = np.random.default_rng(7)
    generator.spawn(2)
    found = round_trip(generator)
    assert found.spawn(1)[0].random() == generator.spawn(1)[0].random()


def test_a_generator_of_python_draws_what_comes_next():
    generator = random.Random(7)
    generator.gauss(0, 1)
    found = round_trip(generator)
    assert [found.gauss(0, 1), found.random()] == [generator.gauss(0, 1), generator.random()]


def test_a_member_whose_class_is_not_loaded_comes_back_as_its_value():
    assert make_object("Enum", "no_such_module:Mode", "WARM", "warm") == "warm"
    assert make_object("Enum", f"{__name__}:Mode", "GONE", "gone") == "gone"
    assert make_object("Enum", "os:path.join", "WARM", 5) == 5


class Local:
    """Of no kind."""


def local_member():
    class Inner(enum.Enum):
        ONE = 1

    return Inner.ONE


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (deque([Local()]), "extra.1.0: a 'Local' cannot"),
        (defaultdict(lambda: 0), "extra: a defaultdict of <function"),
        (local_member(), "extra: 'Inner.ONE', which cannot be found"),
        (Access.READ | Access.WRITE, "extra: 'Access.READ|WRITE', which"),
        ({Local(): 1}, "extra: a key of type 'Local'"),
        ({(1, torch.ones(1)): 1}, "extra: a key of type 'tuple'"),
        (
            {(2**61 - 1) * k: 1 for k in range(70)} | {None: 1},
            "extra: a mapping with more than 64 keys of one",
        ),
        (Fraction(1, 3**4000), "extra: a Fraction of numbers of more than 4096 bits"),
        (dt.datetime(2020, 1, 1, tzinfo=zoneinfo.ZoneInfo("UTC")), "extra: a datetime in the zone"),
        (np.array([None]), "extra: a numpy array of type 'object'"),
        (np.zeros(1, [("a", "f4")]), "extra: a numpy array of type"),
    ],
)
def test_what_could_not_be_made_again_is_refused_by_its_path(value, said):
    with pytest.raises(StateError) as error:
        round_trip({"extra": value})
    assert error.value.message.startswith(said)


BITS = np.random.MT19937(1).state
HOSTILE = [
    ("deque", [1, 2], "many"),
    ("deque", 5, None),
    ("deque", range(9), None),
    ("defaultdict", [["a", 1]], None),
    ("defaultdict", {}, "system"),
    ("defaultdict", {}, "eval"),
    ("defaultdict", {}, 1 << 20_000),
    ("dict", [[]], [1]),
    ("dict", [torch.ones(1)], [1]),
    ("dict", [1, 2], [1]),
    ("dict", range(2), [1, 2]),
    ("dict", [1, 2], range(2)),
    ("dict", [(2**61 - 1) * k for k in range(70)], [0] * 70),
    ("array", "O", bytes(8), [1]),
    ("array", "i4,(9999,9999)f8", b"", None),
    ("array", "<U9", b"", [1 << 50]),
    ("array", "<U1", b"\xff\xff\xff\xff", [1]),
    ("array", "<U0", b"", [1 << 40]),
    ("array", "<U1", 1 << 50, [1]),
    ("array", "<M8[ns]", bytes(8), [2]),
    ("array", "<M8[ns]", bytes(8), [-1]),
    ("BytesIO", b"", -1),
    ("BytesIO", "text", 0),
    ("SimpleNamespace", {1: 2}),
    ("Namespace", [1]),
    ("PosixPath", 5),
    ("date", "tomorrow"),
    ("datetime", "2020-01-01", 7),
    ("timedelta", 1 << 70, 0, 0),
    ("Decimal", "ten"),
    ("Fraction", 1, 0),
    ("Fraction", 1, 3**9999),
    ("range", 1, 2, 0),
    ("Random", 3, np.full(625, 700, np.uint32), None),
    ("Random", 2, [1], None),
    ("MT19937", {**BITS, "state": {**BITS["state"], "pos": 625}}, None),
    ("MT19937", {**BITS, "pos": 0, "state": {**BITS["state"], "pos": -1}}, None),
    ("MT19937", {**BITS, "state": {"key": np.zeros(3, np.uint32), "pos": 1}}, None),
    ("Philox", {**np.random.Philox(1).state, "buffer_pos": 9}, None),
    ("PCG64", np.random.PCG64(1).state, {"entropy": 1, "pool_size": 10**9}),
    ("PCG64", np.random.PCG64(1).state, {"entropy": 1 << 5000, "spawn_key": (), "pool_size": 4}),
    ("PCG64", np.random.PCG64(1).state, {"entropy": 1, "spawn_key": range(9), "pool_size": 4}),
    ("PCG64", np.random.PCG64(1).state, {"entropy": 1, "spawn_key": (), "pool_size": 1024}),
    ("PCG64", BITS, None),
    ("Generator", 5),
    ("RandomState", {**BITS, "has_gauss": 0, "gauss": 0.0, "state": {**BITS["state"], "pos": 10**6}}),
    ("RandomState", {"bit_generator": "system", "state": {}}),
    ("Enum", 5, "WARM", 1),
    ("Enum", "os:path"),
    ("slice",),
]  # fmt: skip


@pytest.mark.parametrize("parts", HOSTILE, ids=lambda parts: parts[0])
def test_parts_of_no_object_are_corruption(parts):
    with pytest.raises(CorruptionError):
        make_object(*parts)


@pytest.mark.parametrize("kind", ["system", "builtins:eval", "", None, 5, [1], {}])
def test_a_kind_that_is_not_known_is_of_a_newer_version(kind):
    with pytest.raises(UnsupportedFormatError, match="unknown kind"):
        make_object(kind, "ls")


def test_an_object_without_a_kind_is_not_known():
    with pytest.raises(UnsupportedFormatError, match="unknown kind"):
        make_object()


anything = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=9)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(st.sampled_from(sorted({parts[0] for parts in HOSTILE})), st.lists(anything, max_size=4))
def test_any_parts_give_an_object_or_corruption(kind, parts):
    try:
        make_object(kind, *parts)
    except CorruptionError as error:
        assert f"'{kind}'" in error.message or "generator" in error.message  # noqa: PT017 - any may come


@pytest.mark.parametrize("value", [np.bytes_(b"a\0"), np.str_("a\0")])
def test_a_text_scalar_whose_last_zeros_numpy_drops_is_refused(value):
    with pytest.raises(StateError, match="drops the zeros at the end"):
        round_trip({"tag": value})
