"""What newer versions of format 1 may leave in a store: this version reads on, or says that it must not."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from mvcs import Repository
from mvcs.errors import UnsupportedFormatError
from mvcs.history.commit_graph import Graph, Revision
from mvcs.objects import cbor
from mvcs.objects.commit import named_fields
from mvcs.objects.ids import Kind, ObjectId
from mvcs.objects.tensors import QuantizedTensor
from mvcs.objects.trees.leaves import Leaf
from mvcs.objects.trees.tree import Tree
from mvcs.progress import Silent
from mvcs.refs import HEADS, RefChange, RefStore
from mvcs.store.backend import open_backend
from mvcs.store.backend.base import Backend
from mvcs.store.manifests import Manifest, Placement, WrittenCommit
from mvcs.store.packs.footer import TRAILER_BYTES
from mvcs.store.packs.written_commit import LastEntry
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import pack_path
from mvcs.store.upgrades import CHANGING, CONDEMNED_PACKS, READING, Upgrade, read_upgrades
from mvcs.store.writing.writer import ObjectWriter, StoredCodes
from tests.reference import reader_payloads
from tests.reference.reader import Store
from tests.repository.states import content, leaves, own_packs, state

COMMITS = 3
VERSION_PLACE = 16 - TRAILER_BYTES
LATER = Upgrade(0, "later-bases", CHANGING, 0, "Ada")


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine") / "work"
    with Repository.init(folder) as repo:
        for number in range(COMMITS):
            repo.commit(state(number), step=number, step_size=0.5)
        repo.create_branch("side", "HEAD~1")
    return folder


@pytest.fixture
def work(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "work"))


def backend_of(work: Path) -> Backend:
    return open_backend(str(work / ".mvcs"))


def stored(work: Path) -> dict[str, bytes]:
    """Every file of the shared part."""
    folders = (work / ".mvcs" / name for name in ("packs", "exact", "manifests", "refs", "retention"))
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(work).as_posix(): path.read_bytes() for path in files}


def changes(work: Path, folder: Path) -> list[Callable[[], object]]:
    """What changes a store, or takes its packs elsewhere."""

    def opened(change: Callable[[Repository], object]) -> Callable[[], object]:
        def run() -> None:
            with Repository.open(work) as repo:
                change(repo)

        return run

    def fetched() -> None:
        with Repository.init(folder / "other") as other:
            other.add_remote("origin", str(work))
            other.fetch()

    def pushed(repo: Repository) -> None:
        repo.add_remote("far", str(folder / "far"))
        repo.push("far", ["main"])

    return [
        opened(lambda repo: repo.commit(state(9), step_size=0.5)),
        opened(lambda repo: repo.create_tag("late")),
        opened(lambda repo: repo.create_branch("late")),
        opened(lambda repo: repo.delete_branch("side")),
        opened(lambda repo: repo.note("HEAD", {"loss": 1.0})),
        opened(lambda repo: repo.gc(grace_days=0, execute=True)),
        opened(pushed),
        fetched,
        lambda: Repository.clone(str(work), folder / "clone"),
    ]


# Upgrades.


def test_an_upgrade_for_writers_stops_every_change_and_no_reader(work: Path, tmp_path: Path) -> None:
    with Repository.open(work) as repo:
        expected = content(repo, "HEAD~1")
    backend_of(work).create(LATER.path, LATER.encode())
    before = stored(work)
    for change in changes(work, tmp_path):
        with pytest.raises(UnsupportedFormatError, match="later-bases") as caught:
            change()
        assert "upgrade" in str(caught.value.hint)
    assert stored(work) == before
    with Repository.open(work) as repo:
        assert [info.step for info in repo.log()] == [2, 1, 0]
        assert content(repo, "HEAD~1") == expected
        assert repo.status().entries == []
        report = repo.fsck()
        assert (report.ok, ["later-bases" in note for note in report.notes]) == (True, [True])
    assert len(Store(work / ".mvcs").history()) == COMMITS


class Upgrading(Silent):
    """Upgrades a store as soon as packs are copied."""

    def __init__(self, work: Path) -> None:
        self._work = work

    def start(self, stage: str, total: int | None, unit: str) -> None:  # noqa: ARG002
        if stage == "copying packs" and not read_upgrades(backend_of(self._work)):
            backend_of(self._work).create(LATER.path, LATER.encode())


def test_an_upgrade_of_the_source_stops_a_fetch_that_is_under_way(work: Path, tmp_path: Path) -> None:
    with Repository.init(tmp_path / "other") as other:
        other.add_remote("origin", str(work))
    with Repository.open(tmp_path / "other", progress=Upgrading(work)) as other:
        with pytest.raises(UnsupportedFormatError, match="later-bases"):
            other.fetch()
        assert other.branches(remote=True) == []


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (LATER.path, replace(LATER, scope=READING).encode()),
        (LATER.path, LATER.encode().replace(b"MVCSUPG1", b"MVCSUPG2")),
        (LATER.path, replace(LATER, scope=2).encode()),
        (LATER.path, LATER.encode()[:-1]),
        (LATER.path, b""),
        ("format/99999998", LATER.encode()),
        ("format/99999998", replace(LATER, number=1).encode()),
        ("format/2.upgrade", LATER.encode()),
    ],
    ids=["reading", "version", "scope", "damaged", "empty", "number", "gap", "name"],
)
def test_an_upgrade_for_readers_or_one_that_cannot_be_read_stops_all(
    work: Path, name: str, data: bytes
) -> None:
    backend_of(work).create(name, data)
    with pytest.raises(UnsupportedFormatError, match="was upgraded"):
        Repository.open(work)
    with pytest.raises((reader_payloads.CorruptionError, reader_payloads.UnsupportedError)):
        Store(work / ".mvcs")


def test_every_upgrade_counts(work: Path) -> None:
    for upgrade in (replace(LATER, scope=READING), replace(LATER, number=1)):
        backend_of(work).create(upgrade.path, upgrade.encode())
    with pytest.raises(UnsupportedFormatError, match="was upgraded"):
        Repository.open(work)


@pytest.mark.parametrize(("kept", "harmed"), [((0,), "99999998"), ((1,), "99999999"), ((), "")])
def test_an_upgrade_that_may_be_damaged_or_lost_is_named_with_what_mends_it(
    work: Path, kept: tuple[int, ...], harmed: str
) -> None:
    """The first is whole and the second damaged; or the first is lost; or a newer one is whole."""
    backend = backend_of(work)
    for number in kept:
        backend.create(
            f"format/{99999999 - number}", Upgrade(number, CONDEMNED_PACKS, CHANGING, 0, "Ada").encode()
        )
    if kept == (0,):
        backend.create(f"format/{harmed}", b"MVCSUPG1 damaged")
    if not kept:
        backend.create("format/99999999", replace(LATER, scope=READING).encode())
    with pytest.raises(UnsupportedFormatError) as caught:
        Repository.open(work)
    hint = str(caught.value.hint)
    assert hint.startswith("upgrade mvcs; nothing was changed")
    assert (f"'format/{harmed}' may be damaged or lost: copy it from a backup" in hint) == bool(kept)


def test_what_is_no_record_in_the_folder_of_upgrades_is_left_alone(work: Path) -> None:
    backend_of(work).create("format/README", b"text")
    with Repository.open(work) as repo:
        repo.commit(state(9))


# Files and folders of later versions.


def test_unknown_files_are_left_alone_and_hide_nothing(work: Path) -> None:
    names = ["gc/99999999", "gc/notes", "merged/0/abc.index", "refs/signatures/abc/99999999"]
    for name in names:
        backend_of(work).create(name, b"of a later version")
    with Repository.open(work) as repo:
        repo.commit(state(COMMITS), step=COMMITS, step_size=0.5)
        assert repo.gc(grace_days=0, execute=True).garbage == []
        report = repo.fsck()
        assert (report.problems, report.notes) == ([], [])
        assert [info.step for info in repo.log()] == [3, 2, 1, 0]
    assert all(backend_of(work).read(name) == b"of a later version" for name in names)
    assert len(Store(work / ".mvcs").history()) == COMMITS + 1


@pytest.mark.parametrize("folder", ["retention/rules", "retention/pins", "retention/later"])
def test_no_exact_layer_is_dropped_by_this_rule_where_there_are_others(work: Path, folder: str) -> None:
    backend_of(work).create(f"{folder}/99999999", b"keeps every layer")
    layers = {name for name in stored(work) if "/exact/" in name}
    with Repository.open(work) as repo:
        info = repo.commit(state(COMMITS), step=COMMITS, step_size=0.5)
        assert any(folder in note for note in info.notes)
        assert leaves(repo.checkout("HEAD~1", exact=True, numpy=True)) == leaves(state(COMMITS - 1))
    assert layers <= set(stored(work))
    (work / ".mvcs" / folder / "99999999").unlink()
    with Repository.open(work) as repo:
        repo.commit(state(9), step=9, step_size=0.5)
    assert not layers <= set(stored(work))


def test_a_pack_of_a_later_version_costs_what_needs_it_and_is_kept(work: Path) -> None:
    with Repository.open(work) as repo:
        name = own_packs(repo, "main")[-1]
        expected = content(repo, "side")
    path = work / ".mvcs" / pack_path(name)
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[VERSION_PLACE] = 2
    path.write_bytes(data)
    before = stored(work)
    with Repository.open(work) as repo, pytest.raises(UnsupportedFormatError):
        repo.checkout("main", numpy=True)
    with Repository.open(work) as repo:
        assert repo.gc(grace_days=0, execute=True).garbage == []
        assert content(repo, "side") == expected
        assert not repo.fsck().ok
    assert stored(work) == before


# Commits of later versions.


def publish(work: Path, branch: str, extensions: list[cbor.Value]) -> ObjectId:
    """Put a commit with extensions on a branch, as a later version makes it."""
    backend = backend_of(work)
    store = ObjectStore(backend)
    record = RefStore(backend).newest(HEADS, branch)
    assert record is not None
    assert record.target is not None
    parent = Graph(store).load(record.target)
    fields = dict(named_fields(parent.written.content)) | {"extensions": extensions}
    data = cbor.dumps(list((fields | {"parents": [parent.id], "message": "later"}).values()))
    store.catalog.attach_commit(parent.id)
    writer = ObjectWriter(store)
    leaves_of = store.tree(parent.commit.tree).leaves
    writer.hold([parent.commit.tree, *(chunk for leaf in leaves_of for chunk in chunks_of(leaf))])
    identifier = writer.put(Kind.COMMIT, data)
    writer.finish(LastEntry((0, 0, 0, 0)))
    store.manifests.write(Manifest(WrittenCommit(identifier, data), writer.placement))
    RefStore(backend).update(HEADS, branch, record, RefChange(identifier, "Ada", "commit: later"))
    return identifier


def test_a_commit_that_asks_for_more_is_refused_and_the_others_are_not(work: Path, tmp_path: Path) -> None:
    publish(work, "side", [["ranks", True, [bytes(32)]]])
    before = stored(work)
    refused: list[Callable[[Repository], Any]] = [
        lambda repo: list(repo.log("side")),
        lambda repo: repo.checkout("side", numpy=True),
        lambda repo: repo.gc(grace_days=0, execute=True),
        lambda repo: repo.commit(state(9), branch="side"),
    ]
    for verb in refused:
        with Repository.open(work) as repo, pytest.raises(UnsupportedFormatError, match="'ranks'"):
            verb(repo)
    with Repository.open(work) as repo:
        assert [info.step for info in repo.log("main")] == [2, 1, 0]
        assert content(repo, "main~1")
        assert {problem.kind for problem in repo.fsck().problems} == {"commit"}
        assert stored(work) == before
        repo.commit(state(9), step=9)
    with pytest.raises(UnsupportedFormatError, match="'ranks'"):
        Repository.clone(str(work), tmp_path / "clone")
    with Repository.open(tmp_path / "clone") as clone:
        assert [info.step for info in clone.log("main")] == [9, 2, 1, 0]
        assert [branch.name for branch in clone.branches()] == ["main"]


def test_what_may_be_left_alone_of_a_commit_is(work: Path, tmp_path: Path) -> None:
    extensions: list[cbor.Value] = [
        ["merge", False, ["average", [0.5, 0.5]]],
        ["org.example.notes", False, None],
    ]
    identifier = publish(work, "main", extensions)
    with Repository.open(work) as repo:
        assert repo.head().id == identifier.hex()
        assert content(repo, "main") == content(repo, "main~1")
        assert repo.fsck().ok
    with Repository.clone(str(work), tmp_path / "clone") as clone:
        assert clone.head().id == identifier.hex()
        assert content(clone, "main") == content(clone, "main~1")
    fields = Store(work / ".mvcs").commit(identifier)
    assert fields["extensions"] == extensions


# Bases of later commits.


@dataclass(frozen=True)
class Needed:
    """What the value layer of a commit needs."""

    revision: Revision
    tree: Tree
    objects: dict[ObjectId, tuple[Kind, bytes]]

    @classmethod
    def of(cls, work: Path, rev: str) -> "Needed":
        with Repository.open(work) as repo:
            revision = repo._session.resolver.resolve(rev)
        store = ObjectStore(backend_of(work))
        store.catalog.attach_commit(revision.id)
        tree = store.tree(revision.commit.tree)
        named = {chunk for leaf in tree.leaves for chunk in chunks_of(leaf)}
        objects = {chunk: (Kind.CHUNK, bytes(store.read(Kind.CHUNK, chunk))) for chunk in named}
        return cls(revision, tree, objects | {revision.commit.tree: (Kind.TREE, tree.encode())})


def chunks_of(leaf: Leaf) -> list[ObjectId]:
    tensor = leaf.tensor
    return tensor.chunk_ids() if isinstance(tensor, QuantizedTensor) else list(tensor.chunks)


def codes_of(tree: Tree) -> list[tuple[ObjectId, int]]:
    """The chunks of codes of a tree, each with the bytes of a code."""
    coded = (leaf.tensor for leaf in tree.leaves if isinstance(leaf.tensor, QuantizedTensor))
    return [(chunk, tensor.width) for tensor in coded for chunk in tensor.codes]


def put_all(writer: ObjectWriter, needed: Needed, bases: dict[ObjectId, ObjectId]) -> None:
    widths = dict(codes_of(needed.tree))
    for identifier, (kind, data) in needed.objects.items():
        if identifier in widths:
            writer.put_codes(StoredCodes(data, width=widths[identifier]), bases.get(identifier))
        else:
            writer.put(kind, data)


def turned_round(work: Path) -> None:
    """Store the first commit near the last, the others alone, say so, and delete the old packs."""
    backend = backend_of(work)
    old = backend.list("packs")
    first, *others = (Needed.of(work, f"main~{back}") for back in reversed(range(COMMITS)))
    newer = zip(codes_of(first.tree), codes_of(others[-1].tree), strict=True)
    bases = {older: later for (older, _), (later, _) in newer}
    values = ObjectWriter(ObjectStore(backend))
    for needed in others:
        put_all(values, needed, {})
    values.finish()
    (alone,) = values.packs
    for needed in (first, *others):
        store = ObjectStore(backend)
        store.catalog.attach_all([alone])
        writer, written = ObjectWriter(store), needed.revision.written
        put_all(writer, needed, bases)  # what lies there is not stored again
        writer.put(Kind.COMMIT, written.content)
        writer.finish(LastEntry(written.sizes, written.exact_packs))
        now = Placement((*writer.packs,), (alone,))
        store.manifests.append(written.id, now, store.manifests.placement(written.id))
    for path in old:
        backend.delete(path)


def test_the_base_of_an_object_may_be_of_a_later_commit(work: Path) -> None:
    expected = restored(work)
    turned_round(work)
    assert restored(work) == expected
    store = Store(work / ".mvcs")
    assert sorted(store.commit(own)["step"] for own in store.history()) == [0, 1, 2]
    with Repository.open(work) as repo:
        assert [info.step for info in repo.log()] == [2, 1, 0]
        assert repo.fsck().ok
        repo.commit(state(COMMITS), step=COMMITS, step_size=0.5)
        garbage = repo.gc(grace_days=0, execute=True).garbage
        assert [item for item in garbage if item.path.startswith("packs/")] == []
    assert restored(work)[1:] == expected[:-1]


def restored(work: Path) -> list[dict[str, Any]]:
    with Repository.open(work) as repo:
        return [content(repo, f"main~{back}") for back in range(COMMITS)]
