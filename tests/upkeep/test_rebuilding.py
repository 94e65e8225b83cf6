"""Packs that no other store has are made again from their own bytes, as far as these are left."""

import shutil
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.store.backend import open_backend
from mvcs.store.packs.footer import HEADER_BYTES, TRAILER_BYTES, Footer
from mvcs.store.reading.pack_files import read_footer
from tests.repository.states import content, state


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
        if max(one.length for one in footer.entries) > 30_000:
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
        pack = repo._session.resolver.resolve("step:2").written.pack
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
