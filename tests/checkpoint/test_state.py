"""States round trip through a tree with exact types, order and bits, or are refused by path."""

import math
import struct
import subprocess
import sys
from collections import Counter, OrderedDict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mvcs.checkpoint.state.arrays import numpy_view
from mvcs.checkpoint.state.captured import Captured, blob_id
from mvcs.checkpoint.state.state import capture_state, rebuild_state
from mvcs.checkpoint.state.torch_values import torch_tensor
from mvcs.errors import CorruptionError, StateError, UnsupportedFormatError
from mvcs.objects.chunk_grid import BLOB_CHUNK_BYTES, DTYPES
from mvcs.objects.ids import Kind, object_id
from mvcs.objects.tensors import ExactTensor
from mvcs.objects.trees.leaves import Leaf
from mvcs.objects.trees.tree import Tree


def tree_of(captured: Captured) -> Tree:
    """Store nothing, but name everything: what a repository does with a captured state."""
    leaves = [
        Leaf(ExactTensor(leaf.dtype, leaf.shape, tuple(object_id(Kind.CHUNK, part) for part in leaf.views())))
        for leaf in captured.leaves
    ]
    return Tree(tuple(leaves), root=captured.root, files=captured.files)


def round_trip(state, make=torch_tensor):
    captured = capture_state(state)
    tree = Tree.decode(tree_of(captured).encode())
    assert tree.raw_bytes == captured.raw_bytes
    assert tree.leaf_paths() == [leaf.path for leaf in captured.leaves]

    def leaf(index):
        found = captured.leaves[index]
        return make(found.dtype, found.shape, found.source.read())

    return rebuild_state(tree.root, leaf, lambda identifier, _: captured.blobs[identifier].read())


def bits(value: float) -> bytes:
    return struct.pack(">d", value)


def assert_same(actual, expected):
    """Equal with exact types, orders and bits."""
    assert type(actual) is type(expected)
    if isinstance(expected, dict):
        assert [(type(key), key) for key in actual] == [(type(key), key) for key in expected]
        for key, value in expected.items():
            assert_same(actual[key], value)
        assert vars(actual) == vars(expected) if isinstance(expected, OrderedDict) else True
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected)
        for mine, theirs in zip(actual, expected, strict=True):
            assert_same(mine, theirs)
    elif isinstance(expected, set | frozenset):
        assert sorted(map(repr, actual)) == sorted(map(repr, expected))
    elif isinstance(expected, float):
        assert bits(actual) == bits(expected)
    elif isinstance(expected, complex):
        assert (bits(actual.real), bits(actual.imag)) == (bits(expected.real), bits(expected.imag))
    elif isinstance(expected, torch.Tensor):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        assert actual.requires_grad == expected.requires_grad
        assert (
            capture_state(actual).leaves[0].source.read() == capture_state(expected).leaves[0].source.read()
        )
    elif isinstance(expected, np.ndarray):
        assert (actual.dtype, actual.shape) == (expected.dtype.newbyteorder("="), expected.shape)
        assert actual.tobytes() == expected.astype(actual.dtype).tobytes()
    elif isinstance(expected, np.generic):
        assert actual.tobytes() == expected.tobytes()
    else:
        assert actual == expected


floats = st.one_of(
    st.floats(),
    st.integers(0, (1 << 64) - 1).map(lambda pattern: struct.unpack(">d", pattern.to_bytes(8, "big"))[0]),
)
texts = st.text(st.characters(exclude_categories=()), max_size=30)
primitives = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 130), 1 << 130),
    floats,
    st.builds(complex, floats, floats),
    texts,
    st.binary(max_size=30),
)
hashable = st.one_of(
    st.none(), st.booleans(), st.integers(), texts, st.binary(max_size=9), st.floats(allow_nan=False)
)
constants = st.sampled_from(
    [
        torch.float8_e5m2,
        torch.int64,
        torch.device("cpu"),
        torch.device("cuda:1"),
        torch.Size([2, 3]),
        torch.Size([]),
    ]
)
tensors = st.builds(
    lambda shape, name, seed: random_tensor(name, shape, seed),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from(sorted(DTYPES)),
    st.integers(0, 99),
)
arrays = st.builds(
    lambda shape, name, seed: np.random.default_rng(seed).integers(0, 2, shape).astype(name),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from(["?", "u1", ">u2", "<i4", ">i8", "<f2", ">f4", "<f8", "<c8", ">c16"]),
    st.integers(0, 99),
)
scalars = st.sampled_from(
    [np.float32("nan"), np.float64(-0.0), np.int8(-3), np.bool_(True), np.complex64(1j)]
)
leaves = st.one_of(primitives, constants, tensors, arrays, scalars, st.binary(max_size=9).map(bytearray))
keys = st.one_of(texts, st.integers(-(1 << 70), 1 << 70), st.booleans())
states = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4).map(OrderedDict),
        st.dictionaries(keys, st.integers(), max_size=4).map(Counter),
        st.sets(hashable, max_size=4),
        st.frozensets(hashable, max_size=4),
    ),
    max_leaves=12,
)


def random_tensor(name: str, shape, seed: int = 0) -> torch.Tensor:
    """Every bit pattern is possible: NaN payloads, signed zeros, infinities, subnormals."""
    dtype = DTYPES[name]
    generator = torch.Generator().manual_seed(seed)
    count = math.prod(shape) * dtype.itemsize
    raw = torch.randint(0, 2 if name == "bool" else 256, (count,), generator=generator, dtype=torch.uint8)
    return raw.view(getattr(torch, name)).reshape(shape)


@given(states)
def test_any_state_comes_back_with_exact_types_order_and_bits(state):
    assert_same(round_trip(state), state)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")
@pytest.mark.parametrize("name", sorted(DTYPES))
def test_every_dtype_and_layout_comes_back_bit_for_bit(name):
    base = random_tensor(name, (6, 4))
    pieces = [base, base.t(), base[1:5:2, 1:3], base[0, 0], base[:0], base.expand(2, 6, 4)]
    for piece in pieces:
        rows = torch.stack([*piece.reshape(-1).view(torch.uint8)]) if piece.numel() else torch.empty(0)
        rebuilt = round_trip({"tensor": piece})["tensor"]
        assert (rebuilt.dtype, rebuilt.shape) == (piece.dtype, piece.shape)
        if name not in ("complex32", "float4_e2m1fn_x2"):
            assert torch.equal(rebuilt.contiguous().reshape(-1).view(torch.uint8), rows.to(torch.uint8))
        assert_same(rebuilt, piece)


def test_special_values_keep_their_bits():
    patterns = [0x7FC00001, 0xFFC12345, 0x7F800001, 0x80000000, 0x7F800000, 0xFF800000, 0x00000001]
    tensor = torch.from_numpy(np.array(patterns, "<u4").view(np.int32)).view(torch.float32)
    assert round_trip(tensor).view(torch.int32).tolist() == tensor.view(torch.int32).tolist()
    assert round_trip(np.array(patterns, "<u4").view("<f4")).view("<u4").tolist() == patterns


def test_conjugate_and_negative_views_are_resolved():
    tensor = torch.tensor([[1 + 2j, 3 - 4j], [5j, -6 + 0j]])
    assert torch.equal(round_trip(tensor.conj().t()), tensor.conj().t().resolve_conj())
    assert torch.equal(round_trip(tensor.conj().imag), tensor.conj().imag.resolve_neg())


def test_contiguous_memory_is_read_without_a_copy():
    tensor, array = torch.zeros(4), np.zeros(4)
    captured = capture_state([tensor, array])
    tensor[0], array[1] = 1.0, 1.0
    assert np.frombuffer(captured.leaves[0].source.read(), "<f4").tolist() == [1, 0, 0, 0]
    assert np.frombuffer(captured.leaves[1].source.read(), "<f8").tolist() == [0, 1, 0, 0]


def test_contiguous_memory_is_looked_up_once_and_shows_what_is_in_it_now():
    tensor = torch.zeros(6, dtype=torch.bfloat16)
    dense, turned = (capture_state(found).leaves[0].source for found in (tensor, tensor.reshape(2, 3).T))
    assert dense.read() is dense.read()
    assert turned.read() is not turned.read()
    tensor += 1
    assert bytes(dense.read()) == bytes(turned.read()) == 6 * b"\x80\x3f"


@pytest.mark.parametrize("dtype", [torch.int64, torch.bfloat16, torch.complex128, torch.float32])
def test_one_element_of_a_view_with_a_step_is_read(dtype):
    tensor = torch.arange(2).to(dtype)
    (leaf,) = capture_state(tensor[1:][::2]).leaves
    assert bytes(leaf.source.read()) == bytes(tensor.view(torch.uint8)[dtype.itemsize :].tolist())


def test_tied_tensors_are_one_leaf_and_one_object_again():
    weight = torch.nn.Parameter(torch.randn(3, 2))
    state = {"embed": weight, "head": weight, "data": weight.data, "part": weight.data[:2], "frozen": weight}
    captured = capture_state(state)
    assert [leaf.path for leaf in captured.leaves] == [("embed",), ("part",)]
    rebuilt = round_trip(state)
    assert rebuilt["embed"] is rebuilt["head"] is rebuilt["frozen"]
    assert type(rebuilt["embed"]) is torch.nn.Parameter
    assert type(rebuilt["data"]) is torch.Tensor
    assert not rebuilt["data"].requires_grad
    rebuilt["data"].zero_()
    assert rebuilt["embed"].abs().sum() == 0


def test_state_dict_tied_through_detached_views_is_one_leaf():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    captured = capture_state(model.state_dict())
    assert len(captured.leaves) == 1
    rebuilt = round_trip(model.state_dict())
    assert rebuilt["0.weight"] is rebuilt["1.weight"]


def test_tied_arrays_share_memory_again():
    array = np.arange(6.0).reshape(2, 3)
    rebuilt = round_trip([array, array, array.copy()])
    assert rebuilt[0] is rebuilt[1]
    assert not np.shares_memory(rebuilt[0], rebuilt[2])


def test_empty_tensors_are_tied_only_when_they_are_one_object():
    empty = torch.empty(0)
    rebuilt = round_trip([empty, torch.empty(0), empty, np.empty(0), np.empty(0)])
    assert rebuilt[0] is rebuilt[2]
    assert rebuilt[0] is not rebuilt[1]
    assert rebuilt[3] is not rebuilt[4]


def test_parameters_keep_their_flags():
    state = [torch.nn.Parameter(torch.ones(2), requires_grad=False), torch.ones(2, requires_grad=True)]
    rebuilt = round_trip(state)
    assert [(type(item), item.requires_grad) for item in rebuilt] == [
        (torch.nn.Parameter, False),
        (torch.Tensor, True),
    ]


def test_a_whole_training_state_comes_back():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8))
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 10)
    model(torch.randn(5, 4)).sum().backward()
    optimizer.step()
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": {key: value for key, value in scheduler.state_dict().items() if not callable(value)},
        "rng": {"torch": torch.get_rng_state(), "numpy": np.random.default_rng(1).bit_generator.state},
        "step": 1,
    }
    rebuilt = round_trip(state)
    assert_same(rebuilt, state)
    assert rebuilt["model"]._metadata == state["model"]._metadata
    assert list(rebuilt["optimizer"]["state"]) == [0, 1, 2, 3]
    optimizer.load_state_dict(rebuilt["optimizer"])


def test_long_text_and_bytes_become_blobs():
    state = {"text": "ä\ud800" * 3000, "bytes": b"x" * 5000, "array": bytearray(5000), "again": b"x" * 5000}
    captured = capture_state(state)
    assert len(captured.blobs) == 3
    assert captured.raw_bytes == 15000 + 5000 + 5000
    assert_same(round_trip(state), state)


def test_blob_ids_follow_the_grid():
    data = bytes(range(256)) * (1 << 16) + b"tail"
    parts = [memoryview(data[:BLOB_CHUNK_BYTES]), memoryview(data[BLOB_CHUNK_BYTES:])]
    assert blob_id(parts) == capture_state([data]).root[1][1]
    assert blob_id(parts) != blob_id([parts[0], parts[1][:-1]])


def test_equal_sets_have_one_encoding():
    names = [f"name {number}" for number in range(50)]
    other = set()
    for name in reversed(names):
        other.add(name)
    assert capture_state(set(names)).root == capture_state(other).root


def loop():
    state = {"a": []}
    state["a"].append(state)
    return state


class Named(OrderedDict):
    """A subclass."""


def odd_ordered_dict():
    value = OrderedDict(a=1)
    value.owner = "me"
    return value


def deep(levels):
    value = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"model": {"layers": {3: {"hook": print}}}}, "model.layers.3.hook: a 'builtin_function_or_method'"),
        ({"model": [lambda: 0]}, "model.0: a 'function' cannot be stored"),
        (object(), "the state: a 'object'"),
        (loop(), "a.0: a container that contains itself"),
        (deep(65), "a container inside 64 others"),
        ({"a": Named(b=1)}, "a: a 'Named'"),
        ({"a": odd_ordered_dict()}, "a: the attribute 'owner'"),
        ({"a": {print: 1}}, "a: a key of type 'builtin_function_or_method'"),
        ({"a": {"x", (1,)}}, "a: a set with a 'tuple' in it"),
        ({"a": np.array([None])}, "a: a numpy array of type 'object'"),
        ({"a": np.longdouble(1)}, "a: a numpy scalar"),
        ({"a": torch.eye(2).to_sparse()}, "a: a sparse_coo tensor"),
        ({"a": torch.empty(2, device="meta")}, "a: a meta tensor"),
        ({"a": 1 << 600_000}, "a: an integer of 600001 bits"),
        ({"a": {1 << 20_000: 1}}, "a: a key of 20001 bits"),
    ],
)
def test_what_cannot_be_stored_is_named_by_its_path(state, message):
    with pytest.raises(StateError) as caught:
        capture_state(state)
    assert message in caught.value.message


@pytest.mark.filterwarnings("ignore:.*quantize:DeprecationWarning", "ignore::UserWarning")
def test_quantized_tensors_are_refused():
    quantized = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    with pytest.raises(StateError, match=r"weights\.q: a quantized tensor"):
        capture_state({"weights": {"q": quantized}})


def test_the_deepest_state_fits_the_encoding():
    assert round_trip(deep(64)) == deep(64)


def test_the_same_container_twice_is_no_cycle():
    shared = [1, 2]
    assert round_trip([shared, shared]) == [[1, 2], [1, 2]]


@given(states)
def test_numpy_leaves_need_no_torch(state):
    def no_torch(dtype, shape, data):
        return numpy_view(dtype, shape, bytearray(data))

    captured = capture_state(state)
    rebuilt = rebuild_state(
        captured.root,
        lambda i: no_torch(
            captured.leaves[i].dtype, captured.leaves[i].shape, captured.leaves[i].source.read()
        ),
        lambda identifier, _: captured.blobs[identifier].read(),
    )
    assert capture_state(rebuilt).raw_bytes == captured.raw_bytes


def test_a_numpy_state_loads_no_torch():
    code = (
        "import sys, numpy as np\n"
        "from mvcs.checkpoint.state.state import capture_state, rebuild_state\n"
        "from mvcs.checkpoint.state.arrays import numpy_view\n"
        "c = capture_state({'a': np.arange(3), 'b': [np.float32(1), {2: 'x'}]})\n"
        "def leaf(i):\n"
        "    one = c.leaves[i]\n"
        "    return numpy_view(one.dtype, one.shape, bytearray(one.source.read()))\n"
        "r = rebuild_state(c.root, leaf, lambda i, n: c.blobs[i].read())\n"
        "assert r['a'].tolist() == [0, 1, 2] and r['a'].flags.writeable\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "node",
    [
        [13, [0, 1]],
        [14, [2, [["a", 1]]]],
        [2, [["a", 1], ["a", 2]]],
        [2, [[1, 1], [True, 2]]],
        [2],
        [3, []],
        [4, 1.0],
        [5, "no_such_type"],
        [5, "nn"],
        [6, "no such device"],
        [7, -1],
        [8, "float32", b"123"],
        [8, "bfloat16", b"12"],
        [9, 0, 3],
        [11, b"\x01" * 32, 2],
        [10, b"\x01" * 32, 3],
        [15, 5],
    ],
)
def test_malformed_structures_are_corruption(node):
    def leaf(_):
        return torch_tensor(DTYPES["bfloat16"], (2,), bytes(4))

    with pytest.raises(CorruptionError):
        rebuild_state(node, leaf, lambda *_: b"\xff\xff")


def test_unknown_flags_are_a_newer_format():
    with pytest.raises(UnsupportedFormatError):
        rebuild_state([9, 0, 8], lambda _: np.zeros(1, np.float32), lambda *_: b"")


def test_bytes_must_match_the_shape():
    for make in (numpy_view, torch_tensor):
        with pytest.raises(CorruptionError, match="does not have 7 bytes"):
            make(DTYPES["float32"], (2,), bytes(7))


def test_rebuilt_tensors_own_writable_memory():
    data = bytes(8)
    torch_tensor(DTYPES["float32"], (2,), data).add_(1)
    assert data == bytes(8)


@pytest.mark.parametrize(
    "odd",
    [
        torch.Size([2, -1]),
        torch.empty(0, 1 << 60),
        torch.zeros(1).expand(1 << 30, 1 << 30),
        np.empty((0, 1 << 57), np.int8),
        torch.zeros(1).reshape((1,) * 65),
    ],
)
def test_sizes_that_no_reader_takes_are_refused_by_path(odd):
    with pytest.raises(StateError, match=r"^a\.1: a t.* cannot be stored"):
        capture_state({"a": [torch.ones(2), odd]})
