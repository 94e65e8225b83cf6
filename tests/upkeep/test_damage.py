"""Any file of a repository damaged, missing or from a newer version: the right error, nothing else lost."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import (
    ConflictError,
    CorruptionError,
    MvcsError,
    NotFoundError,
    StorageError,
    UnsupportedFormatError,
)
from mvcs.objects.ids import ObjectId
from mvcs.refs.refstore import HEADS, RefChange, RefStore
from mvcs.store.backend import open_backend
from mvcs.store.packs.pack import Tail
from tests.repository.states import content, leaves, own_packs, state, through_faults

COMMITS = 3


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine") / "work"
    with Repository.init(folder) as repo:
        for number in range(COMMITS):
            repo.commit(state(number), step=number, bins=16 if number else None)
        repo.create_tag("v1", "HEAD~1")
        repo.note("HEAD", {"loss": 1.0})
        repo.create_branch("side", "HEAD~2")
    return folder


@pytest.fixture
def work(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "work"))


@pytest.fixture
def repo(work: Path) -> Iterator[Repository]:
    with Repository.open(work) as opened:
        yield opened


def store(work: Path) -> Path:
    return work / ".mvcs"


def pack_of(work: Path, rev: str) -> Path:
    with Repository.open(work) as repo:
        name = own_packs(repo, rev)[-1]
    return store(work) / "packs" / name[:2] / f"{name}.pack"


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)


def cut(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


def footer(path: Path) -> int:
    return Tail.parse(path.read_bytes()).footer_offset


DAMAGE: dict[str, Callable[[Path], None]] = {
    "an entry": lambda path: flip(path, 200),
    "the footer": lambda path: flip(path, footer(path) + 10),
    "the trailer": lambda path: flip(path, -30),
    "the last byte": lambda path: flip(path, -1),
    "cut in half": lambda path: cut(path, path.stat().st_size // 2),
    "cut by one": lambda path: cut(path, path.stat().st_size - 1),
    "empty": lambda path: cut(path, 0),
    "other bytes": lambda path: path.write_bytes(os.urandom(path.stat().st_size)),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_pack_is_corruption_and_the_other_commits_are_whole(
    work: Path, damage: Callable[[Path], None]
) -> None:
    tip, first = pack_of(work, "HEAD"), pack_of(work, "HEAD~2")
    assert tip != first
    damage(tip)
    with Repository.open(work) as repo:
        with pytest.raises((CorruptionError, UnsupportedFormatError)) as caught:
            repo.checkout("main", numpy=True)
        assert caught.value.exit_code in (5, 6)
        assert caught.value.hint
        assert content(repo, "side") == leaves(state(0))
        report = repo.fsck()
        assert not report.ok
        assert any(tip.name[:12] in problem.subject + problem.message for problem in report.problems)
    with Repository.open(work) as repo:
        repo.switch("side", force=True)
        assert repo.commit(state(9)).parents == [repo.resolve("side~1").id]


def test_what_is_stored_near_a_damaged_pack_blames_that_one(work: Path) -> None:
    base, own = pack_of(work, "HEAD~1"), pack_of(work, "HEAD")
    data = bytearray(base.read_bytes())
    end = footer(base)
    data[64:end] = bytes(byte ^ 4 for byte in data[64:end])
    base.write_bytes(data)
    with (
        Repository.open(work) as repo,
        pytest.raises(CorruptionError, match="stored near is damaged") as told,
    ):
        repo.checkout("HEAD", numpy=True)
    assert base.name in told.value.message
    assert own.name not in told.value.message


def test_a_missing_pack_says_what_is_missing(work: Path) -> None:
    pack_of(work, "HEAD").unlink()
    with Repository.open(work) as repo:
        with pytest.raises(NotFoundError) as caught:
            repo.checkout("main")
        assert caught.value.exit_code == 5
        assert "fsck" in caught.value.hint
        assert not repo.fsck().ok
        assert content(repo, "side") == leaves(state(0))


def test_a_lost_exact_layer_differs_from_a_dropped_one(work: Path) -> None:
    (gone,) = {path for path in store(work).glob("exact/*/*") if exact_pack(work, "HEAD") == path.stem}
    gone.unlink()
    with Repository.open(work) as repo:
        assert [problem.kind for problem in repo.fsck().problems] == ["exact layer"]
        assert repo.restore("HEAD").layer == "value"
        with pytest.raises(NotFoundError):
            repo.checkout("HEAD", exact=True)
        for number in (7, 8):
            repo.commit(state(number), bins=16)
        assert [problem.kind for problem in repo.fsck().problems] == ["exact layer"]


def exact_pack(work: Path, rev: str) -> str:
    with Repository.open(work) as repo:
        (name,) = repo._session.resolver.resolve(rev).written.exact_packs
    return name


def record(work: Path, name: str = "main") -> Path:
    return min((store(work) / "refs/heads" / name).iterdir())


@pytest.mark.parametrize("place", [0, 7, 20, -20, -1])
def test_a_damaged_record_is_corruption_and_older_ones_are_whole(work: Path, place: int) -> None:
    flip(record(work), place)
    with Repository.open(work) as repo:
        with pytest.raises((CorruptionError, UnsupportedFormatError)) as caught:
            repo.log().__next__()
        assert caught.value.exit_code in (5, 6)
        assert caught.value.hint
        assert content(repo, "side") == leaves(state(0))
        assert content(repo, "v1")
        assert [problem.kind for problem in repo.fsck().problems] == ["ref"]


def test_a_cut_record_is_corruption(work: Path) -> None:
    for length in (0, 1, 8, 30):
        cut(record(work), length)
        with Repository.open(work) as repo, pytest.raises(CorruptionError):
            repo.head()


def test_a_record_of_a_newer_version(work: Path) -> None:
    path = record(work)
    path.write_bytes(path.read_bytes().replace(b"MVCSREF1", b"MVCSREF2"))
    with Repository.open(work) as repo, pytest.raises(UnsupportedFormatError) as caught:
        repo.head()
    assert caught.value.exit_code == 6
    assert "upgrade" in caught.value.hint


def test_a_pack_of_a_newer_version(work: Path) -> None:
    path = pack_of(work, "HEAD")
    data = bytearray(path.read_bytes())
    data[8] = 2
    path.write_bytes(data)
    with Repository.open(work) as repo:
        assert not repo.fsck().ok


def test_a_damaged_older_record_is_seen_in_the_reflog_and_by_fsck_only(work: Path) -> None:
    flip(max((store(work) / "refs/heads/main").iterdir()), 30)
    with Repository.open(work) as repo:
        assert len(list(repo.log())) == COMMITS
        assert [entry.damage is None for entry in repo.reflog()] == [True, True, False]
        with pytest.raises(CorruptionError):
            repo.resolve("main@{2}")
        assert not repo.fsck().ok
        repo.commit(state(5))


def test_a_ref_that_points_nowhere(work: Path) -> None:
    refs = RefStore(open_backend(str(store(work))))
    lost = RefChange(ObjectId(bytes(32)), "me", "test")
    before = refs.update(HEADS, "main", refs.newest(HEADS, "main"), lost)
    with Repository.open(work) as repo:
        for action in (repo.head, repo.checkout, lambda: list(repo.log()), lambda: repo.commit({"x": 1})):
            with pytest.raises(NotFoundError) as caught:
                action()
            assert "mvcs repair" in caught.value.hint
        assert "main" in caught.value.message or "000000" in caught.value.message
        assert content(repo, "main@{1}")
        assert [problem.kind for problem in repo.fsck().problems] == ["manifest"]
    refs.update(HEADS, "main", before, RefChange(refs_target(refs), "me", "mended"))
    with Repository.open(work) as repo:
        assert len(list(repo.log())) == COMMITS


def refs_target(refs: RefStore) -> ObjectId:
    target = next(item.target for item in list(refs.history(HEADS, "main"))[1:])
    assert target is not None
    return target


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", CorruptionError),
        ("ref: ", CorruptionError),
        ("main", CorruptionError),
        ("zz" * 32, CorruptionError),
        ("00" * 32, NotFoundError),
    ],
)
def test_a_damaged_head(work: Path, text: str, error: type[MvcsError]) -> None:
    (store(work) / "HEAD").write_text(text)
    with Repository.open(work) as repo:
        with pytest.raises(error) as caught:
            repo.head()
        assert caught.value.hint
        assert content(repo, "side")
        assert [problem.kind for problem in repo.fsck().problems] == ["HEAD"]


def test_a_missing_head_is_made_again_by_init(work: Path) -> None:
    (store(work) / "HEAD").unlink()
    with Repository.open(work) as repo, pytest.raises(CorruptionError):
        repo.head()
    with Repository.init(work) as repo:
        assert len(list(repo.log())) == COMMITS
    with pytest.raises(ConflictError):
        Repository.init(work)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"{")])
def test_a_lost_description_is_written_anew_by_init_as_it_was(
    work: Path, damage: Callable[[Path], object]
) -> None:
    description = store(work) / "mvcs.json"
    with Repository.open(work) as repo:
        repo.commit(state(7))
    before = description.read_bytes()
    damage(description)
    with pytest.raises(MvcsError) as caught:
        Repository.open(work)
    assert caught.value.hint == "'mvcs init' writes it again"
    with Repository.init(work) as repo:
        assert len(list(repo.log())) == COMMITS + 1
    assert description.read_bytes() == before
    (store(work) / "local" / "store.json").unlink()
    description.unlink()
    with Repository.init(work) as repo:
        repo.commit(state(8))
        assert repo.fsck().ok
    with pytest.raises(ConflictError):
        Repository.init(work)


def test_a_store_elsewhere_that_is_not_there_is_not_made_anew(tmp_path: Path) -> None:
    with Repository.init(tmp_path / "here", store=str(tmp_path / "disk")) as repo:
        repo.commit(state(1))
    (tmp_path / "disk").rename(tmp_path / "unmounted")
    (tmp_path / "disk").mkdir()
    with pytest.raises(NotFoundError) as caught:
        Repository.init(tmp_path / "here")
    assert "mounted" in caught.value.hint
    assert list((tmp_path / "disk").iterdir()) == []


GOOD = {"format": 1, "features": ["manifests"], "store": "ab", "project": "cd", "default_branch": "main"}


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (b"", CorruptionError),
        (b"{", CorruptionError),
        (b"[1, 2]", CorruptionError),
        (b"\xff\xfe", CorruptionError),
        (b"[" * 60_000, CorruptionError),
        ({}, CorruptionError),
        ({**GOOD}, CorruptionError),
        ({**GOOD, "exclusive_create": True, "format": "one"}, CorruptionError),
        ({**GOOD, "exclusive_create": True, "store": None}, CorruptionError),
        ({**GOOD, "exclusive_create": True, "default_branch": "../x"}, CorruptionError),
        ({**GOOD, "exclusive_create": True, "default_branch": "x\nref: y"}, CorruptionError),
        ({"format": 2, "features": []}, UnsupportedFormatError),
        ({**GOOD, "exclusive_create": True, "format": 2}, UnsupportedFormatError),
        ({**GOOD, "exclusive_create": True, "features": ["shards"]}, UnsupportedFormatError),
        ({**GOOD, "exclusive_create": True, "features": ["manifests", "shards"]}, UnsupportedFormatError),
        ({**GOOD, "exclusive_create": True, "features": []}, UnsupportedFormatError),
    ],
)
def test_a_damaged_description(work: Path, values: bytes | dict[str, object], error: type[MvcsError]) -> None:
    data = values if isinstance(values, bytes) else json.dumps(values).encode()
    (store(work) / "mvcs.json").write_bytes(data)
    with pytest.raises(error) as caught:
        Repository.open(work)
    assert caught.value.hint
    with pytest.raises(error):
        Repository.clone(str(work), work.with_name("clone"))
    assert not work.with_name("clone").exists()


def test_a_store_that_was_upgraded_is_left_alone(work: Path) -> None:
    with Repository.open(work) as repo:
        (store(work) / "format").mkdir()
        (store(work) / "format/99999999").write_bytes(b"whatever a newer version writes")
        for change in (
            lambda: repo.commit(state(9)),
            lambda: repo.create_tag("late"),
            lambda: Repository.open(work),
            lambda: Repository.clone(str(work), work.with_name("clone")),
        ):
            with pytest.raises(UnsupportedFormatError) as caught:
                change()
            assert caught.value.hint
    (store(work) / "format/99999999").unlink()
    with Repository.open(work) as repo:
        assert "late" not in [tag.name for tag in repo.tags()]
        assert repo.fsck().ok


def test_a_damaged_configuration(work: Path) -> None:
    deep = ("x = " + "[" * 5000, "x = " + "{a = " * 5000, "a." * 5000 + "b = 1\n", "x = 1" + "0" * 5000)
    shallow = ("[compaction\n", "[compaction]\nmax_depth = 'deep'\n", "[nonsense]\nx = 1\n", "\xff")
    for text in (*shallow, *deep):
        (store(work) / "config.toml").write_bytes(text.encode("latin-1"))
        with pytest.raises(CorruptionError) as caught:
            Repository.open(work)
        assert caught.value.hint
    (store(work) / "config.toml").unlink()
    with Repository.open(work) as repo:
        assert content(repo, "side") == leaves(state(0))


@pytest.mark.parametrize(
    "text",
    [b"", b"nonsense", b"[]", b"[" * 100_000, b'{"files": {"x": 1}, "places": {}, "looked_ns": 0}'],
)
def test_a_damaged_index_of_files_costs_a_comparison(work: Path, text: bytes) -> None:
    (store(work) / "index").write_bytes(text)
    with Repository.open(work) as repo:
        assert repo.status().entries == []


@pytest.mark.parametrize(
    "break_it",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(os.urandom(5000)),
        lambda path: path.write_bytes(b""),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["deleted", "garbage", "empty", "a folder"],
)
def test_the_log_does_not_need_the_lineage_index(work: Path, break_it: Callable[[Path], object]) -> None:
    with Repository.open(work) as repo:
        expected = [info.to_json() for info in repo.log(limit=2)]
        short = repo.head().short
    break_it(store(work) / "lineage.sqlite")
    with Repository.open(work) as repo:
        assert [info.to_json() for info in repo.log(limit=2)] == expected
        assert repo.resolve(short).id == repo.head().id
        assert repo.commit(state(6), bins=16).parents == [expected[0]["id"]]
        assert repo.fsck().ok


def test_a_locked_lineage_index_is_not_waited_for(work: Path) -> None:
    with Repository.open(work) as repo:
        expected = [info.to_json() for info in repo.log(limit=2)]
    lock = sqlite3.connect(store(work) / "lineage.sqlite", isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    with Repository.open(work) as repo:
        assert [info.to_json() for info in repo.log(limit=2)] == expected
        assert repo.commit(state(6)).parents == [expected[0]["id"]]
        assert content(repo, "HEAD") == leaves(state(6))
    lock.close()


def test_every_bit_that_flips_on_the_way_is_seen(work: Path) -> None:
    """A value comes back right or not at all, wherever in the pack the bit flips."""
    path = pack_of(work, "HEAD~2")
    expected, size = leaves(state(0)), path.stat().st_size
    wrong = 0
    for bit in range(0, 8 * size, 8 * size // 97):
        repo, backend = through_faults(work)
        backend.flip[path.relative_to(store(work)).as_posix()] = bit
        try:
            assert content(repo, "side") == expected
        except (CorruptionError, UnsupportedFormatError):
            wrong += 1
    assert wrong > 50


def test_short_reads_are_errors(work: Path) -> None:
    path = pack_of(work, "HEAD~2")
    repo, backend = through_faults(work)
    backend.short.add(path.relative_to(store(work)).as_posix())
    with pytest.raises((CorruptionError, StorageError)):
        repo.checkout("side")


def test_after_an_error_that_passes_the_same_call_works(work: Path) -> None:
    repo, backend = through_faults(work)
    before = repo.head().id
    for count in range(12):
        tip = repo.head().id
        backend.fails_after = count
        with suppress(StorageError):
            repo.commit(state(20 + count), bins=16)
        backend.fails_after = None
        assert tip in {info.id for info in repo.log(limit=2)}
        assert leaves(repo.restore(repo.commit(state(40 + count), bins=16).id, numpy=True).state) == leaves(
            state(40 + count)
        )
    assert before in {info.id for info in repo.log()}
    with Repository.open(work) as again:
        assert again.fsck().problems == []


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"{"), lambda path: path.unlink()])
def test_a_running_process_writes_the_description_of_its_store_again(tmp_path: Path, damage) -> None:
    with Repository.init(tmp_path) as repo:
        repo.commit(state(0))
        path = tmp_path / ".mvcs/mvcs.json"
        path.chmod(0o644)
        before = path.read_bytes()
        damage(path)
        repo.commit(state(1))
        assert path.read_bytes() == before
    with Repository.open(tmp_path) as repo:
        assert content(repo, "HEAD") == leaves(state(1))
