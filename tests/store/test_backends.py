"""Every backend keeps the contract; the probe tells which one does not keep racing writers apart."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import fsspec
import numpy as np
import pytest

from mvcs import Repository
from mvcs.errors import StorageError, UsageError
from mvcs.store.backend import Backend, open_backend
from mvcs.store.backend.local import LocalBackend
from mvcs.store.backend.probe import probe_exclusive_create
from tests.store.backend_contract import ExclusiveContract, SharedContract
from tests.store.servers import Server, free_ports

NAMES = [f"duel/{number}" for number in range(12)]


def unique(tmp_path: Path) -> str:
    return f"{tmp_path.parent.name}-{tmp_path.name}"


class TestLocal(SharedContract):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Backend:
        return open_backend(str(tmp_path / "store"))

    @pytest.fixture
    def address(self, tmp_path: Path) -> str:
        return json.dumps([str(tmp_path / "store"), {}, NAMES])

    @pytest.fixture(autouse=True)
    def nothing_stays_behind(self, tmp_path: Path):
        yield
        assert list((tmp_path / "store").glob("tmp/*")) == []


class TestMemory(ExclusiveContract):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Backend:
        return open_backend(f"memory://{unique(tmp_path)}")


@pytest.mark.s3
class TestS3(SharedContract):
    @pytest.fixture
    def backend(self, s3_server: Server, tmp_path: Path) -> Backend:
        return open_backend(f"s3://{s3_server.bucket}/{unique(tmp_path)}", s3_server.options)

    @pytest.fixture
    def address(self, s3_server: Server, tmp_path: Path) -> str:
        return json.dumps([f"s3://{s3_server.bucket}/{unique(tmp_path)}", s3_server.options, NAMES])

    def test_what_stands_for_a_folder_is_no_file_in_it(self, s3_server: Server, tmp_path: Path) -> None:
        url = f"s3://{s3_server.bucket}/{unique(tmp_path)}"
        backend = open_backend(url, s3_server.options)
        files = fsspec.filesystem("s3", **s3_server.options)
        for folder in ("", "tmp/", "refs/", "refs/heads/"):
            files.call_s3("put_object", Bucket=s3_server.bucket, Key=f"{unique(tmp_path)}/{folder}", Body=b"")
        assert backend.children("") == ["refs", "tmp"]
        assert backend.children("tmp") == []
        assert backend.children("refs") == ["heads"]


@pytest.mark.s3
class TestCarelessS3:
    """rclone's server overwrites what a conditional PUT should leave alone."""

    @pytest.fixture
    def url(self, careless_server: Server, tmp_path: Path) -> str:
        return f"s3://{careless_server.bucket}/{unique(tmp_path)}"

    def test_the_probe_finds_it_out(self, careless_server: Server, url: str) -> None:
        assert not probe_exclusive_create(open_backend(url, careless_server.options))

    def test_the_repository_says_so_and_serves_one_writer(
        self, careless_server: Server, url: str, tmp_path: Path
    ) -> None:
        state = {"w": np.arange(5000, dtype=np.float32).reshape(50, 100)}
        with Repository.init(tmp_path / "work", store=url, options=careless_server.options) as repo:
            assert not repo.writable_together
            assert any("second writer" in warning for warning in repo.warnings)
            first = repo.commit(state, bins=16)
            second = repo.commit({"w": state["w"] + 1}, bins=16)
            assert [commit.id for commit in repo.log()] == [second.id, first.id]
        with Repository.open(tmp_path / "work") as repo:
            assert not repo.writable_together
            assert repo.warnings
            restored = repo.restore(first.id, numpy=True)
            assert (restored.layer, restored.state["w"].tobytes()) == ("exact", state["w"].tobytes())
            assert repo.fsck().problems == []

    def test_a_clone_of_it_may_have_several_writers(
        self, careless_server: Server, url: str, tmp_path: Path
    ) -> None:
        with Repository.init(tmp_path / "work", store=url, options=careless_server.options) as repo:
            repo.commit({"x": 1})
        with Repository.clone(url, tmp_path / "clone", options=careless_server.options) as repo:
            assert repo.writable_together
            assert repo.checkout() == {"x": 1}
            assert any("second writer" in warning for warning in repo.warnings)


@pytest.mark.s3
def test_a_bucket_that_does_not_exist_is_named(careless_server: Server, tmp_path: Path) -> None:
    url, options = "s3://no-such-bucket/runs", careless_server.options
    backend = open_backend(url, options)
    folder = tmp_path / "work"
    calls: list[Callable[[], object]] = [
        lambda: backend.read("format.toml"),
        lambda: backend.create("format.toml", b""),
        lambda: backend.put("format.toml", b""),
        lambda: backend.newest("refs"),
        lambda: Repository.init(folder, store=url, options=options),
        lambda: Repository.clone(url, tmp_path / "clone", options=options),
    ]
    for call in calls:
        with pytest.raises(StorageError, match="bucket 'no-such-bucket' does not exist") as caught:
            call()
        assert "mvcs makes no buckets" in (caught.value.hint or "")
    assert not (folder / ".mvcs" / "HEAD").exists()  # the next init begins anew


def test_an_unknown_protocol_is_a_usage_error() -> None:
    with pytest.raises(UsageError) as caught:
        open_backend("nosuch://place")
    assert caught.value.hint


ONCE = {"retries": {"max_attempts": 1}}


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(
    ("name", "hint"), [("endpoint", "did you mean 'endpoint_url'?"), ("colour", "such as endpoint_url")]
)
def test_an_option_that_is_not_known_is_named(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"'s3://bucket/store': there is no option '{name}'") as caught:
        open_backend("s3://bucket/store", {name: "x"}).read("mvcs.json")
    assert hint in (caught.value.hint or "")


@pytest.mark.usefixtures("credentials")
def test_who_names_no_server_hears_how_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_names(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", no_names)  # no test asks Amazon
    with pytest.raises(StorageError) as caught:
        open_backend("s3://bucket/store", {"config_kwargs": ONCE}).read("mvcs.json")
    assert "--option endpoint_url=URL, or AWS_ENDPOINT_URL" in (caught.value.hint or "")


@pytest.mark.usefixtures("credentials")
def test_a_server_that_is_not_there_is_a_storage_error() -> None:
    options = {"endpoint_url": f"http://127.0.0.1:{free_ports(1)[0]}"}
    backend = open_backend("s3://bucket/store", {**options, "config_kwargs": ONCE})
    with pytest.raises(StorageError, match="connect") as caught:
        backend.read("mvcs.json")
    assert caught.value.hint
    assert "endpoint_url" not in caught.value.hint


def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mvcs.json")
    backend = LocalBackend(tmp_path)
    for read in (backend.read, lambda name: backend.read_small(name, 10)):
        with pytest.raises(StorageError, match="is not a file"):
            read("mvcs.json")
