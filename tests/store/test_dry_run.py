"""A dry run writes like a store and leaves the store as it was."""

from pathlib import Path

import pytest

from mvcs.errors import UsageError
from mvcs.objects.ids import Kind
from mvcs.store.backend.dry_run import DryRun
from mvcs.store.backend.local import LocalBackend
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.writing.writer import ObjectWriter
from tests.store.packing import last_pack


def test_nothing_is_written(tmp_path: Path) -> None:
    real = LocalBackend(tmp_path)
    kept = ObjectWriter(ObjectStore(real))
    known = kept.put(Kind.BLOB, b"known")
    name = last_pack(kept)
    before = real.list("")
    dry_run = DryRun(real)
    store = ObjectStore(dry_run)
    store.catalog.attach(str(name))
    writer = ObjectWriter(store)
    assert writer.put(Kind.BLOB, b"known") == known
    assert last_pack(writer) is None
    writer.put(Kind.BLOB, b"new")
    assert last_pack(writer) is not None
    assert writer.stored_bytes > len(b"new")
    with pytest.raises(UsageError, match="dry run"):
        dry_run.create("refs/heads/main/0", b"")
    with pytest.raises(UsageError, match="dry run"):
        dry_run.delete(before[0])
    assert real.list("") == dry_run.list("") == before
