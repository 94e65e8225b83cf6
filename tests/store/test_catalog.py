"""What the catalog remembers is what the packs it was told to keep hold."""

from pathlib import Path

from mvcs.objects.ids import Kind, object_id
from mvcs.store.backend import open_backend
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import pack_path
from mvcs.store.writing.writer import ObjectWriter
from tests.store.packing import last_pack


def written(store: ObjectStore, *contents: bytes) -> str:
    """Write contents into a pack of their own, whatever lies elsewhere."""
    store.catalog.keep(())
    writer = ObjectWriter(store)
    for content in contents:
        writer.put(Kind.CHUNK, content)
    return last_pack(writer) or ""


def test_an_object_of_two_packs_is_found_in_the_one_that_is_kept(tmp_path: Path) -> None:
    store = ObjectStore(open_backend(str(tmp_path)))
    first = written(store, b"shared", b"one")
    second = written(store, b"shared", b"two")
    store.catalog.keep(())
    store.catalog.attach_all([first])
    store.catalog.attach_all([second])
    store.catalog.keep([second])
    (tmp_path / pack_path(first)).unlink()
    shared = object_id(Kind.CHUNK, b"shared")
    assert store.catalog.locate(shared).pack == second
    assert store.read(Kind.CHUNK, shared) == b"shared"
    assert store.catalog.find(object_id(Kind.CHUNK, b"one")) is None


def test_a_pack_in_the_folder_of_others_is_left_alone(tmp_path: Path) -> None:
    backend = open_backend(str(tmp_path))
    name = written(ObjectStore(backend), b"moved by hand")
    path = pack_path(name)
    elsewhere = path.replace(f"/{name[:2]}/", f"/{'00' if name[:2] != '00' else '01'}/")
    backend.put(elsewhere, backend.read(path))
    backend.delete(path)
    store = ObjectStore(backend)
    assert store.catalog.attach_everything() == []
    assert store.catalog.find(object_id(Kind.CHUNK, b"moved by hand")) is None
