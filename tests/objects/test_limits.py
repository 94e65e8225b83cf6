"""How many of something an object may hold: hostile ones stop there, before they cost much."""

import gc
from contextlib import nullcontext, suppress

import pytest

from mvcs.errors import CorruptionError, StateError, UsageError
from mvcs.objects import cbor
from mvcs.objects.commit import MAX_COMMIT, MAX_PARENTS, Commit
from mvcs.objects.ids import Kind, object_id
from mvcs.objects.trees import leaves, structure
from mvcs.objects.trees import tree as trees
from mvcs.objects.trees.leaves import MAX_LEAVES, FileEntry, FileFormat
from mvcs.objects.trees.structure import MAX_ALIKE, MAX_NODES
from mvcs.objects.trees.tree import MAX_FILES, MAX_FOLDERS, Tree
from tests.reference import reader_objects

BLOB = object_id(Kind.BLOB, b"x")
MODULUS = (1 << 61) - 1
EMPTY = ["float32", [0], []]


def refused(read, content, match):
    with pytest.raises(CorruptionError, match=match):
        read(content)


def test_the_second_reader_has_the_same_limits():
    found = reader_objects
    assert (found._MOST_LEAVES, found._MOST_NODES) == (MAX_LEAVES, MAX_NODES)
    assert (found._MOST_FILES, found._MOST_FOLDERS) == (MAX_FILES, MAX_FOLDERS)
    assert found._MOST_VALUES == cbor.MAX_VALUES


def test_an_array_of_too_many_values_is_not_read():
    refused(
        cbor.loads,
        b"\x9a" + (cbor.MAX_VALUES + 1).to_bytes(4, "big") + bytes(cbor.MAX_VALUES + 1),
        "more than",
    )


def test_values_count_at_all_levels(monkeypatch):
    monkeypatch.setattr(cbor, "MAX_VALUES", 6)
    assert cbor.loads(cbor.dumps([[1, 2], [3, 4]]), 6) == [[1, 2], [3, 4]]
    refused(lambda content: cbor.loads(content, 6), bytes.fromhex("82 82 01 02 83 03 04 05"), "more than")
    with pytest.raises(StateError, match="more than"):
        cbor.dumps([[1, 2], [3, 4, 5]])


def test_a_tree_of_too_many_leaves_is_not_read(monkeypatch):
    content = cbor.dumps(["state", [0, [9, 0, 0], [9, 1, 0]], [EMPTY, EMPTY]])
    assert len(Tree.decode(content).leaves) == 2
    monkeypatch.setattr(leaves, "MAX_LEAVES", 1)
    refused(Tree.decode, content, "leaves")


def test_a_tree_of_too_many_leaves_is_not_written(monkeypatch):
    tree = Tree.decode(cbor.dumps(["state", [0, [9, 0, 0], [9, 1, 0]], [EMPTY, EMPTY]]))
    monkeypatch.setattr(leaves, "MAX_LEAVES", 1)
    with pytest.raises(UsageError, match="leaves") as refusal:
        tree.encode()
    assert "stacked" in refusal.value.hint


@pytest.mark.parametrize(("root", "fits"), [([0, 1, [0], 2], True), ([0, 1, [0, 2], 3], False)])
def test_a_structure_of_too_many_nodes_is_not_read(monkeypatch, root, fits):
    monkeypatch.setattr(structure, "MAX_NODES", 3)
    with nullcontext() if fits else pytest.raises(CorruptionError, match="more than"):
        Tree.decode(cbor.dumps(["state", root, []]))


def test_nodes_of_all_files_count_together(monkeypatch):
    monkeypatch.setattr(structure, "MAX_NODES", 3)
    files = [["a.npz", "npz", [0, 1, 2], None], ["b.npz", "npz", [0, 3, 4], None]]
    refused(Tree.decode, cbor.dumps(["files", files, []]), "more than")


def of_files(*paths):
    return Tree((), files=tuple(FileEntry(path, FileFormat.OPAQUE, [10, BLOB, 1]) for path in paths))


def test_a_tree_of_too_many_files_is_not_read(monkeypatch):
    content = of_files("a", "b").encode()
    monkeypatch.setattr(trees, "MAX_FILES", 1)
    refused(Tree.decode, content, "2 files")


@pytest.mark.parametrize(
    ("paths", "count"),
    [(["a"], 0), (["a/b/c", "a/b/d"], 2), (["a/b/c", "a/c/c", "b/c"], 4), (["a/x/y", "b/x/y"], 4)],
)
def test_folders_are_counted_once_each(monkeypatch, paths, count):
    content = of_files(*paths).encode()
    monkeypatch.setattr(trees, "MAX_FOLDERS", count)
    assert [entry.path for entry in Tree.decode(content).files or ()] == paths
    monkeypatch.setattr(trees, "MAX_FOLDERS", count - 1)
    refused(Tree.decode, content, f"{count} folders")


ALIKE = {
    "integers": [MODULUS * number + 5 for number in range(65)],
    "complex numbers": [[4, 7.0 - 1_000_003 * number, float(number)] for number in range(65)],
}


@pytest.mark.parametrize("kind", ALIKE)
@pytest.mark.parametrize("tag", [13, 14])
def test_members_of_a_set_are_not_chosen_to_have_one_hash(kind, tag):
    for count, fits in ((MAX_ALIKE, True), (MAX_ALIKE + 1, False)):
        content = cbor.dumps(["state", [tag, *sorted(ALIKE[kind][:count], key=cbor.dumps)], []])
        for read, error in (
            (Tree.decode, CorruptionError),
            (reader_objects.tree, reader_objects.CorruptionError),
        ):
            with nullcontext() if fits else pytest.raises(error, match="one hash"):
                read(content)


def test_many_infinities_and_texts_have_no_hash_that_counts():
    members = sorted([float("inf")] * 99 + [b"x"] * 99 + ["x"] * 99, key=cbor.dumps)
    Tree.decode(cbor.dumps(["state", [13, *members], []]))
    reader_objects.tree(cbor.dumps(["state", [13, *members], []]))


def commit(**fields):
    values = {"tree": BLOB, "parents": (), "author": "a", "time": 0, "message": "m", **fields}
    return Commit(**values)


def test_a_commit_has_no_more_parents_than_may_be():
    many = tuple(object_id(Kind.BLOB, bytes([number])) for number in range(MAX_PARENTS + 1))
    assert Commit.decode(commit(parents=many[1:]).encode()).parents == many[1:]
    with pytest.raises(UsageError, match="parents"):
        commit(parents=many).encode()


def test_a_commit_is_no_longer_than_may_be():
    rest = len(commit(message="x" * 70_000).encode()) - 70_000
    assert len(commit(message="x" * (MAX_COMMIT - rest)).encode()) == MAX_COMMIT
    with pytest.raises(UsageError, match="bytes"):
        commit(message="x" * (MAX_COMMIT - rest + 1)).encode()


@pytest.mark.parametrize("enabled", [True, False])
def test_the_search_for_cycles_is_as_it_was_after_a_tree_is_read(enabled):
    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with suppress(CorruptionError):
            Tree.decode(b"\xff")
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()
