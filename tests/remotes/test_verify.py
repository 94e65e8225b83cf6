"""What a copy is checked for before a ref may name it."""

import pathlib

import pytest

from mvcs.errors import CorruptionError, StorageError
from mvcs.progress import SILENT
from mvcs.remotes.pack_transfer import Route
from mvcs.store.backend.local import LocalBackend
from mvcs.store.packs.pack import name_of
from mvcs.store.reading.pack_files import pack_path

PACK = bytes(range(256)) * 64


class Spoiling(LocalBackend):
    """A disk that flips one bit of everything it is given, at a place counted from the start or the end."""

    place = 0

    def put(self, name: str, data: bytes) -> None:
        damaged = bytearray(data)
        damaged[self.place] ^= 1
        super().put(name, bytes(damaged))


def route(folder: pathlib.Path, place: int, *, read_back: bool) -> Route:
    source, target = LocalBackend(folder / "here"), Spoiling(folder / "there")
    target.place = place
    source.put(pack_path(name_of(PACK)), PACK)
    return Route(source, target, SILENT, read_back)


def test_damage_at_the_end_is_always_noticed(tmp_path: pathlib.Path) -> None:
    with pytest.raises(StorageError, match="did not arrive whole"):
        route(tmp_path, -1, read_back=False).copy([name_of(PACK)])


@pytest.mark.parametrize("place", [0, len(PACK) // 2, -1])
def test_reading_back_notices_damage_anywhere(tmp_path: pathlib.Path, place: int) -> None:
    with pytest.raises(CorruptionError, match="does not hash to its name"):
        route(tmp_path, place, read_back=True).copy([name_of(PACK)])
