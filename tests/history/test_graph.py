"""Walking: order, merge bases, and how little is read for it."""

import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history.commit_graph import COPIED_BYTES, Graph, Revision
from mvcs.objects.commit import Commit
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.refs import HEADS, RefStore
from mvcs.store.backend import open_backend
from mvcs.store.manifests import (
    MAX_ANCESTORS,
    Manifest,
    Manifests,
    Placement,
    WrittenCommit,
    manifest_path,
)
from mvcs.store.reading.objects import ObjectStore


class Line:
    """Commits with parents and times of a test's choice, with manifests like any others."""

    def __init__(self, root):
        self.backend = open_backend(root)
        self.store = ObjectStore(self.backend)
        self.graph = Graph(self.store)
        self.names = {}

    def add(self, name, *parents, time):
        revisions = [self.names[parent] for parent in parents]
        tree = object_id(Kind.TREE, name.encode())
        commit = Commit(tree, tuple(item.id for item in revisions), "Ada", time, name)
        written = WrittenCommit(commit.id, commit.encode())
        self.store.manifests.write(Manifest(written, Placement(), self.graph.ancestors(revisions)))
        self.names[name] = self.graph.load(commit.id)
        return self.names[name]

    def read(self, name):
        """The same commit in a graph that knows nothing yet."""
        graph = Graph(ObjectStore(self.backend))
        return graph, graph.load(self.names[name].id)

    def walk(self, *names):
        graph, _ = self.read(names[0])
        starts = [graph.load(self.names[name].id) for name in names]
        return [revision.commit.message for revision in graph.walk(starts)]


@pytest.fixture
def line(tmp_path):
    """A fork that is merged again, and a line beside it:  a - b - d - f,  b - c - e - f,  x - y."""
    made = Line(str(tmp_path))
    made.add("a", time=1)
    made.add("b", "a", time=2)
    made.add("c", "b", time=3)
    made.add("d", "b", time=4)
    made.add("e", "c", time=5)
    made.add("f", "d", "e", time=6)
    made.add("x", time=0)
    made.add("y", "x", time=7)
    return made


def test_newest_first_and_each_once(line):
    assert line.walk("f") == ["f", "e", "d", "c", "b", "a"]
    assert line.walk("f", "y", "f") == ["y", "f", "e", "d", "c", "b", "a", "x"]
    assert line.walk("c", "d") == ["d", "c", "b", "a"]


def test_a_clock_that_goes_backwards_keeps_children_before_parents(tmp_path):
    line = Line(str(tmp_path))
    line.add("a", time=100)
    line.add("b", "a", time=50)
    line.add("c", "b", time=10)
    assert line.walk("c") == ["c", "b", "a"]


def test_first_parents(line):
    graph, tip = line.read("f")
    assert [item.commit.message for item in graph.first_parents(tip)] == ["f", "d", "b", "a"]
    assert [item.commit.message for item in graph.parents(tip)] == ["d", "e"]


def test_is_ancestor(line):
    graph, tip = line.read("f")
    names = line.names
    assert all(graph.is_ancestor(names[name].id, tip) for name in "abcdef")
    assert not graph.is_ancestor(names["x"].id, tip)
    assert not graph.is_ancestor(names["f"].id, graph.load(names["a"].id))


def test_a_manifest_tells_of_the_nearest_ancestors_until_it_is_full(tmp_path):
    line = Line(str(tmp_path))
    line.add("0", time=0)
    for number in range(1, 70):
        line.add(str(number), str(number - 1), time=number)
    for number in range(70):
        manifest = line.store.manifests.first(line.names[str(number)].id)
        count = number if number <= MAX_ANCESTORS else (number - 1) % MAX_ANCESTORS + 1
        assert [Commit.decode(item.content).message for item in manifest.ancestors] == [
            str(found) for found in range(number - 1, number - 1 - count, -1)
        ]
        for written in manifest.ancestors:
            assert written == line.names[Revision(written).commit.message].written


def test_a_hundred_commits_need_few_manifests(commit, counting):
    for step in range(100):
        commit(step)
    record = RefStore(counting).read(HEADS, "main")
    graph = Graph(ObjectStore(counting))
    counting.reads.clear()
    counting.listings.clear()
    found = list(graph.walk([graph.load(record.target)]))
    assert [item.commit.step for item in found] == list(range(99, -1, -1))
    assert len(counting.reads) == 5
    assert counting.listings == []


def test_a_commit_without_a_manifest_is_not_found(line):
    with pytest.raises(NotFoundError):
        line.graph.load(ObjectId(bytes(32)))
    assert line.graph.stored(ObjectId(bytes(32))) is None


def test_commits_are_found_by_the_digits_that_their_ids_begin_with(line):
    for revision in line.names.values():
        assert line.graph.manifests.starting(revision.id.hex()[:12]) == [revision.id]


def test_a_damaged_manifest_is_named(line):
    path = manifest_path(line.names["f"].id, 0)
    data = bytearray(line.backend.read(path))
    data[-60] ^= 1
    line.backend.replace(path, bytes(data))
    with pytest.raises(CorruptionError) as caught:
        line.read("f")
    assert path in caught.value.message
    assert "repair" in caught.value.hint


def test_huge_messages_leave_manifests_that_can_be_read(tmp_path):
    text = "x" * (900 << 10)  # a commit has at most 2^20 bytes
    with Repository.init(tmp_path) as repo:
        for number in range(10):
            repo.commit({"x": number}, message=f"{number} {text}")
    with Repository.open(tmp_path) as repo:
        assert [info.message[0] for info in repo.log()] == list("9876543210")
    manifests = Manifests(open_backend(str(tmp_path / ".mvcs")))
    for commit in manifests.listed():
        content = sum(len(written.content) for written in manifests.first(commit).ancestors)
        assert content <= COPIED_BYTES + len(text) + 1000
