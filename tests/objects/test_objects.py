"""Objects come back from their canonical bytes; malformed ones are refused by the right name."""

import math
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.errors import CorruptionError, MvcsError, UnsupportedFormatError, UsageError
from mvcs.objects import cbor
from mvcs.objects.chunk_grid import DTYPES, blob_chunk_lengths, chunk_count, dtype_named
from mvcs.objects.commit import BOUNDED, EXACT, Commit, Note, Tag, named_fields
from mvcs.objects.forms import Absent, Constant, Derived, Lattice, LogLattice, RootLattice
from mvcs.objects.ids import HALF_BYTES, Kind, ObjectId, as_id, is_prefix, object_id
from mvcs.objects.tensors import Blob, ExactTensor, QuantizedTensor, chunk_length
from mvcs.objects.trees.leaves import Leaf
from mvcs.objects.trees.tree import Tree
from tests.format import examples

A, B = (object_id(Kind.CHUNK, name) for name in (b"a", b"b"))
IDS = st.binary(min_size=32, max_size=32).map(ObjectId)
TEXTS = st.text(max_size=20)
FLOATS = st.floats(allow_nan=False)
TIMES = st.integers(-(2**62), 2**62 - 1)
METRICS = st.dictionaries(TEXTS, FLOATS, max_size=4).map(lambda found: tuple(found.items()))
SETTINGS = st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers(), st.none()), max_size=4).map(
    lambda found: tuple(found.items())
)
SHAPES = st.lists(st.integers(0, 3000), max_size=3).map(tuple)
COMMITS = st.builds(
    Commit,
    tree=IDS,
    parents=st.lists(IDS, max_size=3, unique=True).map(tuple),
    author=TEXTS,
    time=TIMES,
    message=TEXTS,
    step=st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    metrics=METRICS,
    exactness=st.sampled_from([EXACT, BOUNDED]),
    lineage_exact=st.sampled_from([True, False, None]),
    restored_from=st.one_of(st.none(), IDS),
    quantized_against=st.one_of(st.none(), IDS),
    quantizer=st.one_of(st.none(), SETTINGS),
    errors=st.dictionaries(TEXTS, METRICS, max_size=2).map(lambda found: tuple(found.items())),
    degradation=st.one_of(st.none(), FLOATS),
    provenance=SETTINGS,
)


def blank(dtype, shape):
    """Digests of nothing, as many as a tensor needs."""
    return bytes(HALF_BYTES * chunk_count(dtype, shape))


def alone(tensor):
    """A tree of one tensor: tensors are no objects of their own."""
    if isinstance(tensor, ExactTensor):
        return Tree((Leaf(tensor),), root=[9, 0, 0])
    original = ExactTensor(tensor.dtype, tensor.shape, (A,) * tensor.chunk_count)
    return Tree((Leaf(tensor, original),), root=[9, 0, 0])


@st.composite
def exact_tensors(draw):
    dtype, shape = draw(st.sampled_from(list(DTYPES.values()))), draw(SHAPES)
    count = chunk_count(dtype, shape)
    return ExactTensor(dtype, shape, tuple(object_id(Kind.CHUNK, bytes([i % 256])) for i in range(count)))


@st.composite
def quantized_tensors(draw):
    dtype = draw(st.sampled_from([dtype for dtype in DTYPES.values() if dtype.quantizable]))
    shape = draw(SHAPES)
    count = chunk_count(dtype, shape)
    table = bytes(draw(st.integers(0, 254)) * dtype.itemsize)
    marks = tuple(draw(st.sampled_from([None, A])) for _ in range(count))
    return QuantizedTensor(dtype, shape, 1, table, (B,) * count, marks, blank(dtype, shape))


@st.composite
def formed_tensors(draw):
    dtype = draw(st.sampled_from([dtype for dtype in DTYPES.values() if dtype.quantizable]))
    shape, step = draw(SHAPES), draw(st.integers(0, 255))
    offsets = st.sampled_from([None, A])
    log = st.builds(LogLattice, st.integers(16, 24), offsets, offsets)
    forms = [st.just(Lattice(step)), log, st.just(Absent())]
    if math.prod(shape[1:]) <= 1 << 22 and math.prod(shape[:1]) <= 1 << 22:
        root = QuantizedTensor(dtype, shape, 2, LogLattice(20, A, B), digests=blank(dtype, shape))
        forms.append(st.just(RootLattice(step, root)))
    forms.append(st.just(Constant(bytes(dtype.itemsize))))
    if dtype.itemsize == 2:
        source = QuantizedTensor(dtype, shape, 0, Constant(bytes(dtype.itemsize)))
        forms.append(st.just(Derived(source)))
    form = draw(st.one_of(forms))
    alone = form == LogLattice(getattr(form, "scale", 0), A, A) and draw(st.booleans())
    count = 0 if form.width == 0 or alone else chunk_count(dtype, shape)
    marks = tuple(draw(st.sampled_from([None, A])) for _ in range(count))
    digests = blank(dtype, shape) if form.is_computed else b""
    return QuantizedTensor(dtype, shape, form.width, form, (B,) * count, marks, digests)


@given(
    st.one_of(
        COMMITS,
        exact_tensors().map(alone),
        quantized_tensors().map(alone),
        formed_tensors().map(alone),
        st.builds(Tag, IDS, TEXTS, st.integers(0, 2**62), TEXTS),
        st.builds(Note, IDS, METRICS, TEXTS, st.integers(0, 2**62)),
        st.integers(0, 2**30).map(lambda size: Blob(size, (A,) * len(blob_chunk_lengths(size)))),
    )
)
def test_objects_come_back(value):
    content = value.encode()
    assert type(value).decode(content) == value
    assert type(value).decode(content).encode() == content


TENSORS = {"tensor": examples.TENSOR, "quantized": examples.QUANTIZED} | examples.FORMS
EXAMPLES = examples.OBJECTS | {name: alone(tensor) for name, tensor in TENSORS.items()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_damaged_objects_are_refused_or_other_objects(name):
    value = EXAMPLES[name]
    content = value.encode()
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        with suppress(CorruptionError, UnsupportedFormatError):
            other = type(value).decode(bytes(flipped))
            assert other.encode() == flipped
            assert other.id != value.id


def parts(value):
    return [*cbor.loads(value.encode())]


def replaced(value, index, new):
    items = parts(value)
    items[index] = new
    return cbor.dumps(items)


def leaf(tensor, index=None, new=None):
    """A tree of one tensor, one item of whose leaf was replaced."""
    kind, root, [items] = parts(alone(tensor))
    if index is not None:
        items[index] = new
    return cbor.dumps([kind, root, [items]])


TENSOR, QUANTIZED = examples.TENSOR, examples.QUANTIZED


@pytest.mark.parametrize(
    ("kind", "content", "error"),
    [
        (Tree, leaf(TENSOR, 0, "float33"), UnsupportedFormatError),
        (Tree, leaf(TENSOR, 0, 7), UnsupportedFormatError),
        (Tree, leaf(TENSOR, 1, [2, -1]), CorruptionError),
        (Tree, leaf(TENSOR, 1, [True]), CorruptionError),
        (Tree, leaf(TENSOR, 1, [2**55, 2]), CorruptionError),
        (Tree, leaf(TENSOR, 1, [2**56, 0]), CorruptionError),
        (Tree, leaf(TENSOR, 1, [1] * 65), CorruptionError),
        (Tree, leaf(TENSOR, 1, [2**50]), CorruptionError),
        (Tree, leaf(TENSOR, 2, []), CorruptionError),
        (Tree, leaf(TENSOR, 2, [b"short"]), CorruptionError),
        (Tree, leaf(TENSOR, 2, None), CorruptionError),
        (Tree, cbor.dumps(["state", [9, 0, 0], [["float32", [], [A], 0]]]), CorruptionError),
        (Tree, cbor.dumps(["state", [9, 0, 0], ["tensor"]]), CorruptionError),
        (Tree, leaf(QUANTIZED, 7, []), CorruptionError),
        (Tree, leaf(QUANTIZED, 7, None), CorruptionError),
        *((Tree, leaf(QUANTIZED, 2, form), UnsupportedFormatError) for form in (6, 8, -1)),
        (Tree, leaf(QUANTIZED, 2, False), UnsupportedFormatError),
        (Tree, leaf(QUANTIZED, 0, "complex128"), UnsupportedFormatError),
        (Tree, leaf(QUANTIZED, 0, "int8"), UnsupportedFormatError),
        (Tree, leaf(QUANTIZED, 3, [2, b""]), UnsupportedFormatError),
        (Tree, leaf(QUANTIZED, 3, [True, b""]), CorruptionError),
        (Tree, leaf(QUANTIZED, 3, [1, b"odd"]), CorruptionError),
        (Tree, leaf(QUANTIZED, 3, [1, bytes(2 * 255)]), CorruptionError),
        (Tree, leaf(QUANTIZED, 3, [1, "text"]), CorruptionError),
        (Tree, leaf(QUANTIZED, 6, []), CorruptionError),
        (Tree, leaf(QUANTIZED, 4, []), CorruptionError),
        (Tree, leaf(QUANTIZED, 4, [b""]), CorruptionError),
        (Blob, cbor.dumps([-1, []]), CorruptionError),
        (Blob, cbor.dumps([1, []]), CorruptionError),
        (Blob, cbor.dumps([0, [A]]), CorruptionError),
        (Blob, cbor.dumps([2**24 + 1, [A]]), CorruptionError),
        (Tag, replaced(examples.TAG, 0, b""), CorruptionError),
        (Tag, replaced(examples.TAG, 2, 1.5), CorruptionError),
        (Tag, replaced(examples.TAG, 3, b"bytes"), CorruptionError),
        (Tag, b"", CorruptionError),
        (Note, replaced(examples.NOTE, 1, [["a", 1]]), CorruptionError),
        (Note, replaced(examples.NOTE, 1, [["a", 1.0], ["a", 2.0]]), CorruptionError),
        (Note, replaced(examples.NOTE, 1, [[1, 1.0]]), CorruptionError),
    ],
)
def test_malformed_objects_are_refused(kind, content, error):
    with pytest.raises(error):
        kind.decode(content)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("tree", b"", CorruptionError),
        ("parents", [A, A], CorruptionError),
        ("parents", A, CorruptionError),
        ("author", None, CorruptionError),
        ("time", 2**62, CorruptionError),
        ("message", b"bytes", CorruptionError),
        ("step", 2**63, CorruptionError),
        ("step", True, CorruptionError),
        ("metrics", [["loss", 1]], CorruptionError),
        ("exactness", "nearly", UnsupportedFormatError),
        ("exactness", 1, UnsupportedFormatError),
        ("lineage_exact", 1, CorruptionError),
        ("lineage_exact", "unknown", CorruptionError),
        ("restored_from", "text", CorruptionError),
        ("quantizer", [["bins"]], CorruptionError),
        ("errors", [["weight", [["rms", None]]]], CorruptionError),
        ("degradation", 0, CorruptionError),
        ("provenance", 5, CorruptionError),
    ],
)
def test_malformed_fields_of_a_commit_are_refused(field, value, error):
    values = [value if name == field else old for name, old in named_fields(examples.COMMIT.encode())]
    with pytest.raises(error):
        Commit.decode(cbor.dumps(values))


def test_other_fields_of_a_commit_are_a_newer_format():
    values = parts(examples.COMMIT)
    for changed in (values[1:], [*values, None], []):
        with pytest.raises(UnsupportedFormatError):
            Commit.decode(cbor.dumps(changed))


def test_what_a_later_version_adds_to_a_commit_is_kept_where_it_may_be_left_alone():
    added = replace(examples.COMMIT, extensions=(("signed by", False, [b"key", 1]), ("weather", False, None)))
    again = Commit.decode(added.encode())
    assert again == added
    assert (again.id, again.encode()) == (added.id, added.encode())
    assert again.id != examples.COMMIT.id
    needed = cbor.dumps([*parts(examples.COMMIT)[:-1], [["ranks", True, 8]]])
    with pytest.raises(UnsupportedFormatError, match="'ranks'"):
        Commit.decode(needed)


@pytest.mark.parametrize(
    "extensions",
    [None, [["a", False]], [["a", 0, 1]], [[b"a", False, 1]], [["a", False, 1], ["a", False, 2]]],
)
def test_malformed_extensions_are_corruption(extensions):
    with pytest.raises(CorruptionError):
        Commit.decode(cbor.dumps([*parts(examples.COMMIT)[:-1], extensions]))


@pytest.mark.parametrize(
    ("field", "value"),
    [("step", 2**63), ("time", 2**62), ("metrics", ((1, 2.0),)), ("metrics", (("a", 1.0), ("a", 2.0)))],
)
def test_what_could_not_be_read_again_is_not_written(field, value):
    commit = Commit(**{**vars(examples.COMMIT), field: value})
    with pytest.raises(UsageError):
        commit.encode()


def test_what_could_not_be_read_again_is_not_noted():
    with pytest.raises(UsageError):
        Note(A, ((1, 2.0),), "Ada", 0).encode()
    with pytest.raises(UsageError):
        Tag(A, "Ada", -1, "").encode()


def test_nan_is_a_metric_that_is_kept_but_not_answered():
    commit = Commit(A, (), "", 0, "", metrics=(("loss", math.nan), ("accuracy", math.inf)))
    again = Commit.decode(commit.encode())
    assert math.isnan(dict(again.metrics)["loss"])
    assert (again.metric("loss"), again.metric("accuracy"), again.metric("none")) == (None, math.inf, None)


def test_kinds_have_hashes_of_their_own():
    assert len({object_id(kind, b"same") for kind in Kind}) == len(Kind)
    assert object_id(Kind.CHUNK, b"x") == object_id(Kind.CHUNK, memoryview(b"x"))


@pytest.mark.parametrize("value", [b"", bytes(31), bytes(33), "0" * 64, None, 5])
def test_an_id_is_32_bytes(value):
    with pytest.raises(CorruptionError):
        as_id(value)


def test_prefixes_are_four_to_64_lower_case_digits():
    assert all(map(is_prefix, ["0123", "abcdef", "f" * 64]))
    assert not any(map(is_prefix, ["", "012", "ABCD", "f" * 65, "xyzw", "0123\n"]))


def test_the_grid_is_a_function_of_type_and_shape():
    wide, narrow = dtype_named("complex128"), dtype_named("bool")
    assert [chunk_count(narrow, shape) for shape in ((2**22 + 1,), (2**11, 2**11), (), (5, 0))] == [
        2,
        1,
        1,
        0,
    ]
    assert chunk_count(wide, (2**22,)) == 2
    assert [chunk_length(narrow, (2**22 + 1,), index) for index in (0, 1)] == [2**22, 1]
    assert blob_chunk_lengths(2**24 + 1) == [2**24, 1]
    assert [chunk_length(wide, (2**21 + 7,), index) for index in (0, 1)] == [2**21, 7]


@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_refused(data):
    for kind in (Tree, Blob, Commit, Tag, Note):
        with pytest.raises(MvcsError):
            kind.decode(data)
