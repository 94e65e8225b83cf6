"""A pack whose footer is damaged or cut off: fsck finds its entries without it, and says what is whole."""

import shutil
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.objects.ids import Kind, half
from mvcs.objects.trees.tree import Tree
from mvcs.store.backend import open_backend
from mvcs.store.packs.footer import HEADER_BYTES, Footer
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import EXACT_FOLDER, VALUE_FOLDER, pack_name, pack_path, read_footer
from mvcs.store.reading.salvage import salvage
from tests.repository.states import own_packs, state


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine") / "work"
    with Repository.init(folder) as repo:
        for number in range(3):
            repo.commit(state(number), step=number, bins=16 if number else None)
    return folder


@pytest.fixture
def store(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "work")) / ".mvcs"


def packs(store: Path) -> dict[tuple[str, bool], Footer]:
    backend = open_backend(str(store))
    found = [(pack_name(path), False) for path in backend.list(VALUE_FOLDER)]
    found += [(pack_name(path), True) for path in backend.list(EXACT_FOLDER)]
    return {(name, exact): read_footer(backend, name, exact=exact) for name, exact in found if name}


def tip(store: Path) -> str:
    with Repository.open(store.parent) as repo:
        return own_packs(repo, "HEAD")[-1]


def notes(store: Path, *, full: bool = True) -> list[str]:
    with Repository.open(store.parent) as repo:
        report = repo.fsck(full=full)
        assert not report.ok
        return [note for note in report.notes if "without its footer" in note]


def trees(store: Path) -> list[tuple[Tree, tuple[str, ...]]]:
    """The tree of every commit, with the packs of its exact layer."""
    with Repository.open(store.parent) as repo:
        session = repo._session
        revisions = [session.resolver.resolve(info.id) for info in repo.log(all_branches=True)]
        return [
            (session.store.tree(revision.commit.tree), revision.written.exact_packs) for revision in revisions
        ]


def leaning(store: Path, known: list[tuple[Tree, tuple[str, ...]]]) -> ObjectStore:
    """A fresh view that knows the tensors of every commit, as somebody's who reads an exact layer."""
    view = ObjectStore(open_backend(str(store)))
    for tree, packs in known:
        view.lean_on(tree, packs)
    return view


def test_what_a_scan_finds_is_what_the_footer_named(store: Path) -> None:
    found, known = packs(store), trees(store)
    assert {exact for _, exact in found} == {False, True}
    assert any(placed.entry.bases for footer in found.values() for placed in footer.entries)
    for (name, exact), footer in found.items():
        path = store / pack_path(name, exact=exact)
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        saved = salvage(leaning(store, known), name, exact=exact)
        path.write_bytes(whole)
        assert (saved.entries, saved.length) == (footer.entries, len(whole) - 1)
        holds_commit = any(kind is Kind.COMMIT for kind, _ in saved.objects)
        assert (saved.told is not None) == (holds_commit and not exact)
        assert saved.told is None or saved.told.exact_packs in [layer for _, layer in known]


def test_fsck_says_what_a_pack_without_its_footer_still_holds(store: Path) -> None:
    name = tip(store)
    path, footer = store / pack_path(name), packs(store)[name, False]
    data = bytearray(path.read_bytes())
    data[-60] ^= 1
    path.write_bytes(data)
    objects = sum(len(placed.ids) for placed in footer.entries)
    size = sum(placed.length for placed in footer.entries)
    (note,) = notes(store)
    assert note.startswith(f"'{pack_path(name)}' without its footer: ")
    assert f"{len(footer.entries)} entries" in note
    assert f"{objects} objects" in note
    assert f"{size} of {len(data)} bytes" in note
    with Repository.open(store.parent) as repo:
        revision = repo._session.resolver.resolve("HEAD")
    assert revision.id.hex()[:12] in note
    assert f"which also has {pack_path(revision.written.exact_packs[0], exact=True)}" in note
    assert notes(store, full=False) == []  # no content is read


def test_behind_a_damaged_commit_no_pack_is_called_a_leftover(store: Path) -> None:
    path = store / pack_path(tip(store))
    path.write_bytes(path.read_bytes()[:-1])
    with Repository.open(store.parent) as repo:
        report = repo.fsck()
    assert not any("belongs to no commit" in note for note in report.notes)
    assert any("hides which packs nobody needs" in note for note in report.notes)
    (hint,) = [problem.hint for problem in report.problems if problem.kind == "pack"]
    assert hint is not None
    assert "copy the file" in hint


def test_of_a_pack_that_was_cut_short_the_entries_before_the_cut_are_whole(store: Path) -> None:
    ((name, footer),) = (
        (name, footer) for (name, exact), footer in packs(store).items() if name == tip(store)
    )
    path, last = store / pack_path(name), footer.entries[-1]
    path.write_bytes(path.read_bytes()[: last.offset + last.length - 1])
    assert salvage(ObjectStore(open_backend(str(store))), name, exact=False).entries == footer.entries[:-1]
    data = bytearray(path.read_bytes())
    data[HEADER_BYTES + 40] ^= 1
    path.write_bytes(data)
    found = salvage(ObjectStore(open_backend(str(store))), name, exact=False).entries
    needed = {half(identifier) for identifier in footer.entries[0].ids}
    assert found == tuple(one for one in footer.entries[1:-1] if needed.isdisjoint(one.entry.base_ids))
    assert found
    (note,) = notes(store)
    assert f"{len(found)} entries" in note


def test_what_cannot_be_decoded_for_want_of_a_base_is_not_called_whole(store: Path) -> None:
    name, found = tip(store), packs(store)
    footer = found[name, False]
    for other, exact in found:
        if not exact and other != name:
            (store / pack_path(other)).unlink()
    path = store / pack_path(name)
    path.write_bytes(path.read_bytes()[:-1])
    own = {half(identifier) for placed in footer.entries for identifier in placed.ids}
    alone = tuple(placed for placed in footer.entries if own.issuperset(placed.entry.base_ids))
    assert len(alone) < len(footer.entries)
    assert salvage(ObjectStore(open_backend(str(store))), name, exact=False).entries == alone
