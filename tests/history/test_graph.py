"""Walking: order, merge bases, and how little is read for it."""

import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history.commit_graph import COPIED_BYTES, Graph, Revision
from mvcs.objects.commit import Commit
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.refs import HEADS, RefStore
from mvcs.store.backend import open_backend
from mvcs.store.packs.footer import MAX_ANCESTORS
from mvcs.store.packs.written_commit import WrittenCommit
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import pack_name, pack_path
from mvcs.store.writing.writer import ObjectWriter


class Line:
    """Commits with parents and times of a test's choice, in packs like any others."""

    def __init__(self, root):
        self.backend = open_backend(root)
        self.store = ObjectStore(self.backend)
        self.graph = Graph(self.store)
        self.names = {}

    def add(self, name, *parents, time):
        revisions = [self.names[parent] for parent in parents]
        tree = object_id(Kind.TREE, name.encode())
        commit = Commit(tree, tuple(item.id for item in revisions), "Ada", time, name)
        writer = ObjectWriter(self.store)
        identifier = writer.put(Kind.COMMIT, commit.encode())
        own = WrittenCommit(identifier, commit.encode(), "", 0, 0, 0, 0)
        pack = writer.finish((own, *self.graph.copies(revisions)))
        self.graph.learn(self.store.catalog.attach(pack))
        self.names[name] = self.graph.load(identifier, pack)
        return self.names[name]

    def read(self, name):
        """The same commit in a graph that knows nothing yet."""
        graph = Graph(ObjectStore(self.backend))
        known = self.names[name]
        return graph, graph.load(known.id, known.written.pack)

    def walk(self, *names):
        graph, _ = self.read(names[0])
        starts = [graph.load(self.names[name].id, self.names[name].written.pack) for name in names]
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
    assert not graph.is_ancestor(names["f"].id, graph.get(names["a"].id, tip))


def test_a_footer_copies_the_nearest_ancestors_until_it_is_full(tmp_path):
    line = Line(str(tmp_path))
    line.add("0", time=0)
    for number in range(1, 70):
        line.add(str(number), str(number - 1), time=number)
    for number in range(70):
        footer = line.store.catalog.attach(line.names[str(number)].written.pack)
        count = number if number <= MAX_ANCESTORS else (number - 1) % MAX_ANCESTORS + 1
        assert [Commit.decode(item.content).message for item in footer.commits] == [
            str(found) for found in range(number, number - 1 - count, -1)
        ]
        for written in footer.commits:
            assert Revision(written).written == line.names[Revision(written).commit.message].written


def test_a_hundred_commits_need_few_footers(commit, counting):
    for step in range(100):
        commit(step)
    record = RefStore(counting).read(HEADS, "main")
    graph = Graph(ObjectStore(counting))
    counting.reads.clear()
    counting.listings.clear()
    found = list(graph.walk([graph.load(record.target, record.pack)]))
    assert [item.commit.step for item in found] == list(range(99, -1, -1))
    assert len(counting.reads) == 4
    assert counting.listings == []


def test_a_wrong_hint_costs_a_search_and_no_more(line):
    graph = Graph(ObjectStore(line.backend))
    known = line.names["f"]
    for hint in (None, "0" * 64, line.names["a"].written.pack):
        assert Graph(ObjectStore(line.backend)).load(known.id, hint).id == known.id
    with pytest.raises(NotFoundError):
        graph.load(ObjectId(bytes(32)), known.written.pack)


def test_a_damaged_footer_is_named(line):
    pack = line.names["f"].written.pack
    path = pack_path(pack)
    data = bytearray(line.backend.read(path))
    data[-60] ^= 1
    line.backend.delete(path)
    line.backend.put(path, bytes(data))
    with pytest.raises(CorruptionError) as caught:
        line.read("f")
    assert path in caught.value.message
    assert "fsck" in caught.value.hint


def test_huge_messages_leave_footers_that_can_be_read(tmp_path):
    text = "x" * (900 << 10)  # a commit has at most 2^20 bytes
    with Repository.init(tmp_path) as repo:
        for number in range(10):
            repo.commit({"x": number}, message=f"{number} {text}")
    with Repository.open(tmp_path) as repo:
        assert [info.message[0] for info in repo.log()] == list("9876543210")
    store = ObjectStore(open_backend(str(tmp_path / ".mvcs")))
    store.catalog.attach_everything()
    for name in (pack_name(path) for path in store.backend.list("packs")):
        content = sum(len(written.content) for written in store.catalog.attach(name).commits)
        assert content <= COPIED_BYTES + 2 * (len(text) + 1000)
