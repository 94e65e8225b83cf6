"""A write whose answer was lost is recognised as one's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from mvcs import Repository
from mvcs.errors import ConflictError
from mvcs.local import Trust
from mvcs.refs.refstore import HEADS, RefChange, RefStore
from mvcs.store.backend import open_backend
from tests.store.servers import Server, wire


class Forgetful(MemoryFileSystem):
    """Keeps what it is given and then says that it failed."""

    protocol = "forgetful"
    forgets: tuple[str, int] = ("", 0)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        super().pipe_file(path, value, mode, **options)
        part, times = Forgetful.forgets
        if times and part in path:
            Forgetful.forgets = (part, times - 1)
            raise TimeoutError("no answer")


@pytest.fixture
def forgetful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    Trust.of_user().config.set("safe.protocol", "forgetful")
    fsspec.register_implementation("forgetful", Forgetful, clobber=True)
    Forgetful.forgets = ("", 0)
    yield f"forgetful://{tmp_path.parent.name}-{tmp_path.name}"
    assert Forgetful.forgets[1] == 0


def test_a_create_whose_answer_is_lost_succeeded(forgetful: str) -> None:
    backend = Trust.of_user().open(forgetful)
    Forgetful.forgets = ("record", 1)
    backend.create("refs/record", b"mine")
    assert backend.read("refs/record") == b"mine"
    with pytest.raises(ConflictError):
        backend.create("refs/record", b"theirs")


def test_a_ref_update_recognises_its_own_record(forgetful: str) -> None:
    refs = RefStore(Trust.of_user().open(forgetful))
    Forgetful.forgets = ("99999999", 1)
    first = refs.update(HEADS, "main", None, RefChange(None, "me", "one"))
    second = refs.update(HEADS, "main", first, RefChange(None, "me", "two"))
    assert list(refs.history(HEADS, "main")) == [second, first]
    with pytest.raises(ConflictError):
        refs.update(HEADS, "main", first, RefChange(None, "me", "late"))


@pytest.mark.parametrize(
    "part", ["manifests/", "refs/heads/", "refs/tags/", "refs/notes/", "retention/drops"]
)
def test_a_repository_goes_on_as_if_nothing_happened(forgetful: str, tmp_path: Path, part: str) -> None:
    states = [{"w": np.full((64, 64), number, np.float32)} for number in range(3)]
    with Repository.init(tmp_path / "work", store=forgetful) as repo:
        repo.commit(states[0], bins=16)
        Forgetful.forgets = (part, 1)
        second = repo.commit(states[1], bins=16)
        repo.create_tag("v1")
        repo.note("HEAD", {"loss": 0.5})
        third = repo.commit(states[2], bins=16)
        assert [commit.parents for commit in repo.log()][:2] == [[second.id], second.parents]
        assert repo.head().id == third.id
        assert [branch.name for branch in repo.branches()] == ["main"]
        assert repo.fsck().problems == []


@pytest.mark.s3
def test_s3_loses_the_answer_to_a_ref_update(s3_server: Server, tmp_path: Path) -> None:
    url = f"s3://{s3_server.bucket}/{tmp_path.parent.name}-{tmp_path.name}"
    with wire(s3_server) as line:
        through = open_backend(url, {"endpoint_url": f"http://127.0.0.1:{line.port}"})
        refs = RefStore(through)
        first = refs.update(HEADS, "main", None, RefChange(None, "me", "one"))
        line.losing = "99999998"
        second = refs.update(HEADS, "main", first, RefChange(None, "me", "two"))
        assert line.lost == 1
    there = RefStore(open_backend(url, s3_server.options))
    assert list(there.history(HEADS, "main")) == [second, first]
    with pytest.raises(ConflictError):
        there.update(HEADS, "main", first, RefChange(None, "other", "late"))
