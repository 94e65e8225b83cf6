"""A remote that is damaged or lies: refused before any ref moves, and nothing of it is kept as ours."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError, MvcsError, UnsupportedFormatError
from mvcs.objects.commit import Note, Tag
from mvcs.objects.ids import ObjectId
from mvcs.refs.names import encode_name
from mvcs.refs.refstore import HEADS, NOTES, TAGS, RefChange, RefStore
from mvcs.store.backend import open_backend
from mvcs.store.reading.pack_files import pack_path
from tests.remotes.forging import tip_pack
from tests.repository.states import content, copied, own_packs, state


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A remote with two commits; `near` has the first."""
    folder = tmp_path_factory.mktemp("exchanged")
    with Repository.init(folder / "ada") as ada:
        ada.add_remote("origin", str(folder / "far"))
        ada.commit(state(0))
        ada.push()
        Repository.clone(str(folder / "far"), folder / "near").close()
        ada.commit(state(1))
        ada.create_tag("v1")
        ada.push(tags=True)
    return folder


@pytest.fixture
def far(exchanged: Path, tmp_path: Path) -> Path:
    """A copy of it, and of who uses it."""
    copied(exchanged, tmp_path)
    return tmp_path / "far"


@pytest.fixture
def near(far: Path) -> Repository:
    return Repository.open(far.parent / "near")


def newest_pack(far: Path) -> Path:
    return far / pack_path(tip_pack(far))


def refs(repo: Repository) -> dict[str, bytes]:
    root = repo.top / ".mvcs"
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted((root / "refs").rglob("*"))
        if path.is_file()
    }


def refused(near: Repository, *errors: type[MvcsError]) -> None:
    before, packs = refs(near), set((near.top / ".mvcs/packs").rglob("*.pack"))
    head = content(near, "HEAD")
    for action in (near.fetch, near.pull):
        with pytest.raises(errors or CorruptionError):
            action()
        assert refs(near) == before
    assert set((near.top / ".mvcs/packs").rglob("*.pack")) == packs
    assert content(near, "HEAD") == head
    assert near.fsck().problems == []


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.999])
def test_a_flipped_bit_in_a_pack(far: Path, near: Repository, share: float) -> None:
    pack = newest_pack(far)
    flip(pack, int(pack.stat().st_size * share))
    refused(near, CorruptionError, UnsupportedFormatError)


def test_a_pack_under_the_name_of_another(far: Path, near: Repository) -> None:
    """Every checksum inside is right; only the name is not the hash of the bytes."""
    pack = newest_pack(far)
    other = next(path for path in (far / "packs").rglob("*.pack") if path != pack)
    pack.write_bytes(other.read_bytes())
    refused(near, CorruptionError, MvcsError)


def test_a_pack_that_was_cut(far: Path, near: Repository) -> None:
    pack = newest_pack(far)
    pack.write_bytes(pack.read_bytes()[:-100])
    refused(near)


def test_a_pack_with_something_put_between(far: Path, near: Repository) -> None:
    pack = newest_pack(far)
    data = pack.read_bytes()
    pack.write_bytes(data[:16] + data[16:20] + data[16:])
    refused(near)


def change(commit: str, content: bytes, target: ObjectId | None = None) -> RefChange:
    return RefChange(target or ObjectId(bytes.fromhex(commit)), "eve", "test", content)


def forge_tag(store: RefStore, head: str, first: str) -> None:
    tag = Tag(ObjectId(bytes.fromhex(first)), "eve", 0, "")
    store.update(TAGS, "forged", None, change(head, tag.encode()))


def forge_note(store: RefStore, head: str, first: str) -> None:
    note = Note(ObjectId(bytes.fromhex(first)), (("loss", 0.0),), "eve", 0)
    store.append(NOTES, head, RefChange(note.id, "eve", "note", note.encode()))


def forge_note_id(store: RefStore, head: str, first: str) -> None:
    note = Note(ObjectId(bytes.fromhex(head)), (("loss", 0.0),), "eve", 0)
    store.append(NOTES, head, change(first, note.encode()))


def garbage_note(store: RefStore, head: str, first: str) -> None:
    store.append(NOTES, head, change(first, b"\x00garbage"))


def odd_note_name(store: RefStore, head: str, _first: str) -> None:
    note = Note(ObjectId(bytes.fromhex(head)), (("loss", 0.0),), "eve", 0)
    store.append(NOTES, "no-id", RefChange(note.id, "eve", "note", note.encode()))


def garbage_tag(store: RefStore, head: str, _first: str) -> None:
    store.update(TAGS, "forged", None, change(head, b"\xff"))


def odd_branch(store: RefStore, _head: str, _first: str) -> None:
    record = store.read(HEADS, "main")
    # As a program other than ours would: our own refuses the name.
    forged = replace(record, number=0, previous=None, author="eve", action="test")
    store._backend.create(f"refs/heads/{encode_name('../..')}/{forged.key}", forged.encode())


def tag_like_an_id(store: RefStore, head: str, first: str) -> None:
    tag = Tag(ObjectId(bytes.fromhex(head)), "eve", 0, "")
    store.update(TAGS, first, None, change(head, tag.encode()))


FORGERIES = [forge_tag, forge_note, forge_note_id, garbage_note, odd_note_name, garbage_tag, odd_branch]
FORGERIES += [tag_like_an_id]


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda each: each.__name__)
def test_forged_names_and_notes(
    far: Path, near: Repository, forge: Callable[[RefStore, str, str], None]
) -> None:
    with Repository.open(far) as repo:
        head, first = repo.resolve("main").id, repo.resolve("main~1").id
    forge(RefStore(open_backend(str(far))), head, first)
    before = refs(near)
    for action in (near.fetch, near.pull):
        with pytest.raises(CorruptionError):
            action()
        assert refs(near) == before
    assert near.fsck().problems == []
    assert list(near.log())
    assert near.tags() == []


def test_a_branch_over_there_that_points_nowhere(far: Path, near: Repository) -> None:
    store = RefStore(open_backend(str(far)))
    lost = RefChange(ObjectId(bytes(32)), "eve", "test")
    store.update(HEADS, "lost", None, lost)
    with pytest.raises(CorruptionError, match="branch 'lost' of 'origin' was not taken; the others were"):
        near.fetch()
    with Repository.open(far) as repo:
        assert near.resolve("origin/main").id == repo.resolve("main").id
    assert "origin/lost" not in {name for names in near.decorations().values() for name in names}
    assert near.fsck().problems == []


def test_a_damaged_pack_here_is_not_pushed(tmp_path: Path) -> None:
    with Repository.init(tmp_path / "ada") as ada:
        ada.add_remote("origin", str(tmp_path / "far"))
        ada.commit(state(0))
        ada.push()
        head = ada.head().id
        ada.commit(state(1))
        name = own_packs(ada, "HEAD")[-1]
    flip(tmp_path / "ada/.mvcs/packs" / name[:2] / f"{name}.pack", 300)
    with Repository.open(tmp_path / "ada") as ada:
        with pytest.raises(CorruptionError) as caught:
            ada.push()
        assert caught.value.hint
    with Repository.open(tmp_path / "far") as there:
        assert there.resolve("main").id == head
        assert there.fsck().problems == []
