"""Packs that no other store has are made again from their own bytes, as far as these are left."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.store.backend import open_backend
from mvcs.store.packs.footer import HEADER_BYTES, TRAILER_BYTES, Footer
from mvcs.store.reading.pack_files import read_footer
from tests.repository.states import content, own_packs, state


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of small and bounded commits, without a remote. To be copied."""
    folder = tmp_path_factory.mktemp("made") / "work"
    with Repository.init(folder) as repo:
        for number in range(5):
            options = {"step_size": 0.5} if number % 2 else {}
            repo.commit(state(number), step=number, message=f"step {number}", **options)
    return folder


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "work")) / ".mvcs"


def packs(store: Path) -> dict[Path, Footer]:
    backend = open_backend(str(store))
    paths = sorted(path for layer in ("packs", "exact") for path in (store / layer).rglob("*.pack"))
    return {path: read_footer(backend, path.stem, exact=path.parts[-3] == "exact") for path in paths}


def places(footer: Footer) -> dict[str, int]:
    """One byte of each part of a pack."""
    first, last = footer.entries[0], footer.entries[-1]
    assert footer.tail is not None
    end = footer.tail.pack_length
    return {
        "magic": 3,
        "version": 8,
        "magic of an entry": first.offset + 1,
        "length of a header": first.offset + 4,
        "length of a payload": last.offset + 9,
        "checksum of an entry": last.offset + 20,
        "header of an entry": first.offset + 35,
        "payload": first.offset + first.length - 2,
        "encoding of the footer": footer.tail.footer_offset,
        "footer": footer.tail.footer_offset + footer.tail.footer_length // 2,
        "trailer": end - TRAILER_BYTES + 2,
        "version of the trailer": end - TRAILER_BYTES + 16,
        "checksum of the footer": end - 20,
        "end": end - 1,
    }


PARTS = list(range(14))


@pytest.mark.parametrize("part", PARTS)
def test_a_flipped_bit_anywhere_is_put_right(store: Path, part: int) -> None:
    found = packs(store)
    whole = {path: path.read_bytes() for path in found}
    assert {path.parts[-3] for path in found} == {"packs", "exact"}
    for number, (path, footer) in enumerate(found.items()):
        if max(one.length for one in footer.entries) > 30_000 or (number + part) % 3:
            continue
        place = list(places(footer).values())[part]
        data = bytearray(whole[path])
        data[place] ^= 1 << (number + part) % 8
        path.write_bytes(data)
        with Repository.open(store.parent) as repo:
            report = repo.repair()
            assert report.ok, (list(places(footer))[part], report)
        assert path.read_bytes() == whole[path]


def test_a_pack_whose_end_is_gone_is_whole_again(store: Path) -> None:
    """As after a power cut: what the entries tell is all that its footer said."""
    found = packs(store)
    whole = {path: path.read_bytes() for path in found}
    for number, (path, footer) in enumerate(found.items()):
        assert footer.tail is not None
        cut = (footer.tail.footer_offset, len(whole[path]) - 1)[number % 2]
        path.write_bytes(whole[path][:cut] + bytes(300 * (number % 3 == 0)))
    with Repository.open(store.parent) as repo:
        report = repo.repair()
        assert report.ok, report
        assert {one.how for one in report.mended} == {"its footer was made again from its entries"}
    assert {path: path.read_bytes() for path in found} == whole


def test_of_a_torn_pack_what_is_whole_can_be_read_again(store: Path) -> None:
    found = packs(store)
    with Repository.open(store.parent) as repo:
        before = {info.id: content(repo, info.id) for info in repo.log()}
        pack = own_packs(repo, "step:2")[-1]
    path = next(path for path in found if path.stem == pack)
    footer, data = found[path], bytearray(path.read_bytes())
    largest = max(footer.entries, key=lambda one: one.length)
    data[largest.offset + 40 : largest.offset + largest.length] = bytes(largest.length - 40)
    path.write_bytes(data[:-30])
    with Repository.open(store.parent) as repo:
        report = repo.repair()
        assert not report.ok
        [mended] = report.mended
        assert not mended.whole
        lost = {loss.commit: loss.tensors for loss in report.losses if loss.layer == "value"}
        assert lost
        assert all(tensors for tensors in lost.values())
        readable = before.keys() - lost.keys()
        assert readable
        assert all(content(repo, commit) == before[commit] for commit in readable)
        again = repo.repair()
        assert (again.mended, again.losses) == ([], report.losses)
    [kept] = (store / "damaged" / "packs" / pack[:2]).iterdir()
    assert kept.read_bytes() == data[:-30]
    # Whoever has it whole makes it good later.
    assert HEADER_BYTES < len(path.read_bytes()) < len(data)


def blank(path: Path, footer: Footer, number: int) -> None:
    """Most of one entry is gone."""
    one, data = footer.entries[number], bytearray(path.read_bytes())
    data[one.offset + 40 : one.offset + one.length] = bytes(one.length - 40)
    path.write_bytes(data)


def test_contents_that_lie_in_another_pack_are_encoded_again(made: Path, tmp_path: Path) -> None:
    """The same values, committed without a parent, lie alone in their packs: whatever is lost is there."""
    store = Path(shutil.copytree(made, tmp_path / "work")) / ".mvcs"
    found = packs(store)
    with Repository.init(tmp_path / "other") as other:
        shutil.copy(store / "mvcs.json", other.top / ".mvcs/mvcs.json")
    with Repository.open(tmp_path / "other") as other:
        for number in reversed(range(5)):
            other.commit(state(number), step=100 + number, branch=f"b{number}")
    whole = {path: path.read_bytes() for path in found}
    with Repository.open(store.parent) as repo:
        before = {info.id: content(repo, info.id) for info in repo.log()}
        first = own_packs(repo, "step:0")[-1]
        repo.add_remote("other", str(tmp_path / "other/.mvcs"))
    path = next(path for path in found if path.stem == first)
    largest = max(range(len(found[path].entries)), key=lambda number: found[path].entries[number].length)
    blank(path, found[path], largest)
    with Repository.open(store.parent) as repo:
        assert not repo.fsck().ok
        report = repo.repair()
        assert report.losses == []
        [mended] = report.mended
        assert mended.whole == (path.read_bytes() == whole[path])
        assert {commit: content(repo, commit) for commit in before} == before
        assert report.ok == mended.whole


def test_what_two_copies_of_the_store_lost_in_different_places_is_whole_again(
    made: Path, tmp_path: Path
) -> None:
    store = Path(shutil.copytree(made, tmp_path / "work")) / ".mvcs"
    shutil.copytree(made / ".mvcs", tmp_path / "far")
    found = packs(store)
    whole = {path: path.read_bytes() for path in found}
    for path, footer in found.items():
        if path.parts[-3] == "packs" and len(footer.entries) > 2:
            blank(path, footer, 0)
            blank(tmp_path / "far" / path.relative_to(store), footer, 1)
    with Repository.open(store.parent) as repo:
        repo.add_remote("far", str(tmp_path / "far"))
        report = repo.repair()
        assert report.ok, report
        assert {one.how for one in report.mended} == {
            "what it held lies elsewhere too, and was encoded again"
        }
    assert {path: path.read_bytes() for path in found} == whole


def test_exact_values_that_nothing_was_lost_of_come_from_the_values_beside_them(tmp_path: Path) -> None:
    drawn = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    with Repository.init(tmp_path / "before") as repo:
        repo.commit({"w": drawn}, step_size=0.5)
        values = repo.checkout("HEAD", numpy=True)["w"]
    with Repository.init(tmp_path) as repo:
        repo.commit({"w": values}, step_size=0.5)
        assert repo.checkout("HEAD", numpy=True)["w"].tobytes() == values.tobytes()
    [(path, footer)] = [item for item in packs(tmp_path / ".mvcs").items() if item[0].parts[-3] == "exact"]
    whole = path.read_bytes()
    for number, one in enumerate(footer.entries):
        if one.entry.bases:
            data = bytearray(path.read_bytes())
            end = one.offset + one.length
            data[end - 1] ^= 0xFF
            data[one.offset + 20] ^= 1  # of the checksum: no bit that is turned back proves itself
            path.write_bytes(data)
            assert number == 0
    with Repository.open(tmp_path) as repo:
        report = repo.repair()
        assert report.losses == []
        assert repo.checkout("HEAD", exact=True, numpy=True)["w"].tobytes() == values.tobytes()
    assert report.mended
    assert path.read_bytes() == whole
