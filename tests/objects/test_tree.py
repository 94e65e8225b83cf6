"""Trees: structures come back, hostile ones are refused, paths never leave their folder."""

import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.errors import CorruptionError, UnsupportedFormatError, UsageError
from mvcs.objects import cbor
from mvcs.objects.chunk_grid import DTYPES
from mvcs.objects.forms import Derived
from mvcs.objects.ids import Kind, object_id
from mvcs.objects.tensors import Blob, ExactTensor, QuantizedTensor
from mvcs.objects.trees.leaves import FileEntry, FileFormat, Leaf
from mvcs.objects.trees.paths import safe_path
from mvcs.objects.trees.structure import MAX_ALIKE, MAX_NESTING, NodeTag, path_text, renumber, walk_nodes
from mvcs.objects.trees.tree import Tree
from tests.format import examples

A, B = (object_id(Kind.BLOB, name) for name in (b"a", b"b"))
FLOAT = DTYPES["float32"]
LEAF = Leaf(ExactTensor(FLOAT, (2,), (A,)))


def primitives():
    return st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))


def pairs(inner):
    keys = st.one_of(st.text(max_size=4), st.integers(2, 99), st.booleans())
    return st.dictionaries(keys, inner, max_size=4).map(lambda found: [list(pair) for pair in found.items()])


def containers(inner):
    return st.one_of(
        st.lists(inner, max_size=4).map(lambda items: [0, *items]),
        st.lists(inner, max_size=4).map(lambda items: [1, *items]),
        pairs(inner).map(lambda found: [2, found]),
        st.tuples(pairs(inner), st.one_of(st.none(), inner)).map(lambda both: [3, both[0], both[1]]),
        st.sets(st.integers(), max_size=4).map(lambda members: [13, *sorted(members, key=cbor.dumps)]),
    )


SPECIAL = st.sampled_from(
    [
        [4, 1.0, -0.0],
        [5, "float32"],
        [6, "cpu"],
        [7, 1, 2],
        [8, "<f4", b"1234"],
        [10, A, 5],
        [11, B, 6],
        [15, b"x"],
        [15, [10, A, 5]],
        [16, "deque", [0, 1, [16, "a later kind"]], None],
        [9, 0, 0],
    ]
)
STRUCTURES = st.recursive(st.one_of(primitives(), SPECIAL), containers, max_leaves=12)


@given(STRUCTURES)
def test_structures_come_back(root):
    leaves = (LEAF,) if any(node == [9, 0, 0] for _, node in walk_nodes(root)) else ()
    tree = Tree(leaves, root=root)
    again = Tree.decode(tree.encode())
    assert again.encode() == tree.encode()
    assert again.id == tree.id


def decoded(root, leaves=()):
    return Tree.decode(content(root, leaves))


def content(root, leaves=()):
    table = [["float32", list(leaf.shape), list(leaf.tensor.chunks)] for leaf in leaves]
    return cbor.dumps(["state", root, table])


@pytest.mark.parametrize(
    ("root", "error"),
    [
        ([], CorruptionError),
        (["tag"], CorruptionError),
        ([True], CorruptionError),
        ([-1], CorruptionError),
        ([17], UnsupportedFormatError),
        ([2**70], CorruptionError),
        ([2], CorruptionError),
        ([2, [["a"]]], CorruptionError),
        ([2, [["a", 1], ["a", 2]]], CorruptionError),
        ([2, [[1, 1], [True, 2]]], CorruptionError),
        ([2, [[None, 1]]], CorruptionError),
        ([2, [[1.5, 1]]], CorruptionError),
        ([3, []], CorruptionError),
        ([4, 1.0], CorruptionError),
        ([4, 1, 2], CorruptionError),
        ([5, 5], CorruptionError),
        ([6], CorruptionError),
        ([7, "a"], CorruptionError),
        ([8, "<f4"], CorruptionError),
        ([8, b"", b""], CorruptionError),
        ([9, 0], CorruptionError),
        ([9, -1, 0], CorruptionError),
        ([9, 0, 8], UnsupportedFormatError),
        ([9, 1, 0], CorruptionError),
        ([0, [9, 0, 0], [9, 2, 0]], CorruptionError),
        ([10, b"short", 5], CorruptionError),
        ([11, A, -1], CorruptionError),
        ([13, [0]], CorruptionError),
        ([13, 2, 1], CorruptionError),
        ([13, [2, []]], CorruptionError),
        ([14, 2, 1], CorruptionError),
        ([15, "text"], CorruptionError),
        ([15, [11, A, 5]], CorruptionError),
        ([15, [2, []]], CorruptionError),
        ([15, 5], CorruptionError),
        ([16], CorruptionError),
        ([16, 5], CorruptionError),
        ([16, [10, A, 5]], CorruptionError),
    ],
)
def test_malformed_structures_are_neither_read_nor_written(root, error):
    leaves = (LEAF,) if "9" in str(root) else ()
    with pytest.raises(error):
        decoded(root, leaves)
    with pytest.raises(UsageError if error is CorruptionError else error):
        Tree(leaves, root=root).encode()


@pytest.mark.parametrize("shape", [(-1, -1), (1 << 56, 0), (1,) * 65, (True,)])
def test_a_shape_that_no_reader_takes_is_not_written(shape):
    tensor = ExactTensor(FLOAT, shape, (A,))
    for value in (Tree((Leaf(tensor),), root=[9, 0, 0]), tensor):
        with pytest.raises(UsageError, match="cannot be recorded: a tensor's shape"):
            value.encode()
    with pytest.raises(UsageError, match="cannot be recorded"):
        Tree((), files=(FileEntry("../a", FileFormat.TORCH, None),)).encode()
    with pytest.raises(UsageError, match="cannot be recorded"):
        Blob(5, ()).encode()


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (["state", None], CorruptionError),
        (["archive", None, []], UnsupportedFormatError),
        ([1, None, []], UnsupportedFormatError),
        (["state", None, [["float32", [2], [A]]]], CorruptionError),
        (["state", [9, 0, 0], [["float32", [2], A]]], CorruptionError),
        (["state", [9, 0, 0], [["float32", [2], [A], None]]], CorruptionError),
        (["state", [9, 0, 0], [["float31", [2], [A]]]], UnsupportedFormatError),
        (["state", [9, 0, 0], [["float32", [2], [b""]]]], CorruptionError),
        (["state", [9, 0, 0], []], CorruptionError),
        (["files", None, []], CorruptionError),
        (["files", [["a", "zip", None, None]], []], UnsupportedFormatError),
        (["files", [["a", "torch", None, 5]], []], CorruptionError),
        (["files", [["a", "torch", None, [2, []]]], []], CorruptionError),
        (["files", [["a", "opaque", b"x", None]], []], CorruptionError),
        (["files", [["b", "torch", 1, None], ["a", "torch", 1, None]], []], CorruptionError),
        (["files", [["a", "torch", 1, None], ["a", "torch", 1, None]], []], CorruptionError),
        (["files", [["a", "torch", 1, None], ["a/b", "torch", 1, None]], []], CorruptionError),
        (["files", [["../a", "torch", 1, None]], []], CorruptionError),
    ],
)
def test_malformed_trees_are_refused(value, error):
    with pytest.raises(error):
        Tree.decode(cbor.dumps(value))


def nested(depth, innermost):
    node = innermost
    for _ in range(depth):
        node = [2, [["a", node]]]
    return node


def test_nesting_is_bounded():
    assert decoded(nested(64, [15, [10, A, 5]])).blobs() == [(A, 5)]
    for root in (nested(MAX_NESTING + 1, None), lists(200)):
        with pytest.raises(CorruptionError):
            decoded(root)


def lists(depth):
    node = [0]
    for _ in range(depth):
        node = [0, node]
    return node


def deep(frames, action):
    return action() if frames == 0 else deep(frames - 1, action)


def test_nesting_costs_no_stack():
    encoded = content(lists(240))
    outcome = []

    def attempt():
        with pytest.raises(CorruptionError):
            deep(sys.getrecursionlimit() - 80, lambda: Tree.decode(encoded))
        outcome.append(True)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert outcome == [True]


def test_paths_and_leaves_are_found_in_order():
    root = [2, [["a", [0, [9, 0, 4], [9, 1, 0]]], ["b", [9, 0, 0]], ["c", [10, A, 7]]]]
    tree = decoded(root, (LEAF, Leaf(ExactTensor(FLOAT, (), (B,)))))
    assert [path_text(path) for path in tree.leaf_paths()] == ["a.0", "a.1"]
    assert tree.blobs() == [(A, 7)]
    assert tree.raw_bytes == 8 + 4 + 7
    assert [leaf.handed_over.chunks for leaf in tree.leaves] == [(A,), (B,)]
    moved = renumber(root, lambda index: 1 - index)
    assert moved == [2, [["a", [0, [9, 1, 4], [9, 0, 0]]], ["b", [9, 1, 0]], ["c", [10, A, 7]]]]


def test_files_of_a_tree_begin_their_paths():
    entry = FileEntry("d/m.safetensors", FileFormat.SAFETENSORS, [2, [["w", [9, 0, 0]]]], b"{}")
    tree = Tree((LEAF,), files=(entry,))
    assert Tree.decode(tree.encode()) == tree
    assert tree.leaf_paths() == [("d/m.safetensors", "w")]
    assert examples.FILES.blobs() == [(examples.BLOB.id, 7)]


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "a/b.c",
        "model.safetensors",
        "ünïcödé/x",
        "..a",
        "a..b/c",
        "-x",
        "a b",
        "x.mvcs",
        ".git/x",
        "a\udcff",
    ],
)
def test_paths_inside_are_safe(path):
    assert safe_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/etc/passwd",
        "..",
        ".",
        "a/../b",
        "../a",
        "a/..",
        "a//b",
        "a/",
        "./a",
        "a\\..\\b",
        "C:/x",
        "c:x",
        "a\0b",
        "a\nb",
        "a\x7f",
        ".mvcs",
        ".mvcs/HEAD",
        ".MVCS/HEAD",
        ".Mvcs /HEAD",
        ".mvcs./HEAD",
        "sub/.mvcs/config.toml",
        "a/.. /b",
        "a/.../b",
        "a/ /b",
        "\ud800",
        "x" * 4097,
    ],
)
def test_paths_that_escape_are_refused(path):
    with pytest.raises(CorruptionError):
        safe_path(path)


@given(st.text(max_size=20))
def test_safe_paths_stay_inside(path):
    try:
        safe_path(path)
    except CorruptionError:
        return
    assert not path.startswith("/")
    assert not {"", ".", ".."} & set(path.split("/"))


def test_keys_that_were_chosen_to_fall_together_are_refused():
    """Python compares each with all the others: forty thousand of them take minutes."""
    alike = [sys.hash_info.modulus * (number + 2) for number in range(1, MAX_ALIKE + 2)]
    with pytest.raises(CorruptionError, match="have one hash"):
        decoded([int(NodeTag.DICT), [[key, None] for key in alike]])
    root = [int(NodeTag.DICT), [[key, None] for key in (*alike[1:], *range(1000), -(2**63), 2**64)]]
    assert Tree.decode(Tree((), root=root).encode()).root == root


def test_a_key_that_no_path_could_be_written_with_is_refused():
    with pytest.raises(CorruptionError, match="a key of more than 4096 bits"):
        decoded([int(NodeTag.DICT), [[1 << 20_000, None]]])


def quantized_leaf(tensor):
    return Leaf(tensor, ExactTensor(tensor.dtype, tensor.shape, (A,) * tensor.chunk_count))


MOMENTS = tuple(map(quantized_leaf, (examples.ROOT, examples.LOG_LATTICE)))
BOTH = [0, [9, 0, 0], [9, 1, 0]]


def test_a_tensor_that_another_leaf_has_is_named_by_its_number():
    """The first moment stands before the second one, that it is made from."""
    tree = decoded_again(Tree(MOMENTS, root=BOTH))
    items = cbor.loads(tree.encode())[2]
    assert items[0][3] == [229, 1]
    assert tree.leaves == MOMENTS
    assert tree.leaves[0].tensor.parameters.root is tree.leaves[1].tensor
    assert tree.leaves[0].value == examples.ROOT.id


def test_a_tensor_that_no_leaf_has_stands_where_it_is_needed():
    tree = decoded_again(Tree(MOMENTS[:1], root=[9, 0, 0]))
    assert cbor.loads(tree.encode())[2][0][3][1] == examples.LOG_LATTICE.items(lambda _: None)
    assert tree.leaves == MOMENTS[:1]


def decoded_again(tree):
    again = Tree.decode(tree.encode())
    assert again.id == tree.id
    return again


@pytest.mark.parametrize("number", [0, 2, -1, True, None, b"", [], A])
def test_a_number_that_is_no_other_leaf_is_corruption(number):
    kind, root, leaves = cbor.loads(Tree(MOMENTS, root=BOTH).encode())
    leaves[0][3][1] = number
    with pytest.raises(CorruptionError):
        Tree.decode(cbor.dumps([kind, root, leaves]))


def test_leaves_that_are_made_from_each_other_are_corruption():
    derived = quantized_leaf(examples.DERIVED)
    other = quantized_leaf(examples.LATTICE)
    kind, root, leaves = cbor.loads(Tree((derived, other), root=BOTH).encode())
    leaves[1] = [*leaves[0]]
    leaves[1][3] = [0, "nearest-even"]
    with pytest.raises(CorruptionError, match="in a row"):
        Tree.decode(cbor.dumps([kind, root, leaves]))


def test_a_tensor_made_from_an_exact_one_is_corruption():
    exact = Leaf(ExactTensor(FLOAT, (4,), (A,)))
    derived = quantized_leaf(examples.DERIVED)
    kind, root, leaves = cbor.loads(Tree((derived, quantized_leaf(examples.LATTICE)), root=BOTH).encode())
    leaves[1] = cbor.loads(Tree((exact,), root=[9, 0, 0]).encode())[2][0]
    with pytest.raises(CorruptionError, match="exact one"):
        Tree.decode(cbor.dumps([kind, root, leaves]))


def test_what_was_handed_over_has_the_type_and_shape_of_what_is_restored():
    for other in (ExactTensor(FLOAT, (5,), (A,)), ExactTensor(DTYPES["float16"], (4,), (A,))):
        with pytest.raises(UsageError):
            Tree((Leaf(examples.LATTICE, other),), root=[9, 0, 0]).encode()
    with pytest.raises(TypeError):
        _ = Leaf(examples.LATTICE).handed_over


@pytest.mark.parametrize("inline", [False, True])
def test_no_chain_of_tensors_exhausts_the_stack(inline):
    """Each is derived from the next one; what that is, is known only at the end."""
    kind, _, leaves = cbor.loads(Tree((quantized_leaf(examples.DERIVED),), root=[9, 0, 0]).encode())
    count = 60 if inline else 5000
    chain = [[*leaves[0][:3], [number + 1, "nearest-even"], *leaves[0][4:]] for number in range(count)]
    if inline:
        for below in range(count - 2, -1, -1):
            chain[below][3] = [chain[below + 1][:7], "nearest-even"]
        chain = chain[:1]
    with pytest.raises(CorruptionError, match="more than 2 others in a row"):
        Tree.decode(cbor.dumps([kind, [0, *([9, number, 0] for number in range(len(chain)))], chain]))


def test_a_copy_of_a_first_moment_is_made_from_two_others():
    moment, second = MOMENTS
    copy = QuantizedTensor(DTYPES["bfloat16"], moment.shape, 0, Derived(moment.tensor), digests=bytes(16))
    leaves = (quantized_leaf(copy), moment, second)
    assert decoded_again(Tree(leaves, root=[0, [9, 0, 0], [9, 1, 0], [9, 2, 0]])).leaves == leaves
    assert decoded_again(Tree(leaves[:1], root=[9, 0, 0])).leaves == leaves[:1]
