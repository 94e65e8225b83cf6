"""S3 servers on loopback: one that keeps conditions, one that ignores them, and a wire that loses replies."""

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from fcntl import LOCK_EX, LOCK_SH, LOCK_UN, flock
from pathlib import Path

import fsspec
import pytest

KEY, SECRET, BUCKET = "testkey", "testsecret", "mvcs-test"
TRIES = 3000  # a tenth of a second each: a safety net, not a limit
STARTS = 3  # another process may take a free port first


@dataclass(frozen=True)
class Server:
    """An S3 server: its port, and the options that reach it."""

    port: int
    bucket: str = BUCKET

    @property
    def options(self) -> dict[str, object]:
        return {"endpoint_url": f"http://127.0.0.1:{self.port}"}


def free_ports(count: int) -> list[int]:
    # All are held until all are known, so that none is given out twice.
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def find(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"'{name}' is not installed; the extra 'dev' brings it")
    return found


@contextmanager
def running(
    command_for: Callable[[list[int]], list[str]], count: int, folder: Path, environment: dict[str, str]
) -> Iterator[Server]:
    """Start a server on so many free ports; clients ask the first."""
    log = folder / "log"
    for _ in range(STARTS):
        ports = free_ports(count)
        with log.open("wb") as written:
            command = command_for(ports)
            process = subprocess.Popen(command, cwd=folder, env=environment, stdout=written, stderr=written)
        try:
            if is_up(process, ports[0]):
                yield Server(ports[0])
                return
        finally:
            process.kill()
            process.wait()
    pytest.fail(f"the server does not start: {log.read_text()[-2000:]}")


def is_up(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until a server answers; tell whether it does."""
    for _ in range(TRIES):
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
            return False
        if answers(port):
            return True
    return False


def answers(port: int) -> bool:
    """Tell whether the server runs and its bucket can be listed."""
    with socket.socket() as attempt:
        attempt.settimeout(1)
        if attempt.connect_ex(("127.0.0.1", port)):
            return False
    fs = fsspec.filesystem(
        "s3", endpoint_url=f"http://127.0.0.1:{port}", key=KEY, secret=SECRET, skip_instance_cache=True
    )
    try:
        return fs.ls(BUCKET) is not None
    except OSError:
        return False


@contextmanager
def seaweed(folder: Path, environment: dict[str, str]) -> Iterator[Server]:
    names = (
        "s3.port",
        "s3.port.grpc",
        "master.port",
        "master.port.grpc",
        "volume.port",
        "volume.port.grpc",
        "filer.port",
        "filer.port.grpc",
        "admin.port",
        "admin.port.grpc",
    )
    command = [find("weed"), "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    command += ["-master.telemetry=false", "-admin.ui=false", "-webdav=false", f"-bucket={BUCKET}"]
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]

    def on(ports: list[int]) -> list[str]:
        return [*command, *(f"-{name}={port}" for name, port in zip(names, ports, strict=True))]

    with running(on, len(names), folder, environment) as server:
        yield server


@contextmanager
def rclone(folder: Path, environment: dict[str, str]) -> Iterator[Server]:
    (folder / "data" / BUCKET).mkdir(parents=True)
    command = [find("rclone"), "serve", "s3", "--config", str(folder / "none")]
    command += ["--auth-key", f"{KEY},{SECRET}", str(folder / "data")]
    with running(
        lambda ports: [*command, "--addr", f"127.0.0.1:{ports[0]}"], 1, folder, environment
    ) as server:
        yield server


@pytest.fixture(scope="session")
def credentials() -> Iterator[dict[str, str]]:
    """Put the servers' credentials where every S3 client looks, and give them to the servers as well."""
    known = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in known.items():
            patch.setenv(name, value)
        yield known | {"GOMEMLIMIT": "400MiB"}


@contextmanager
def shared(folder: Path, environment: dict[str, str]) -> Iterator[Server]:
    """One server for all processes of a test run: it costs also while nobody asks it anything.

    Whoever comes first starts it, and waits for the others before it ends it.
    """
    folder.mkdir(exist_ok=True)
    told, data = folder / "port", folder / "data"
    with (
        (folder / "starting").open("w") as starting,
        (folder / "using").open("w") as using,
        ExitStack() as ours,
    ):
        flock(starting, LOCK_EX)
        if not told.exists():
            data.mkdir(exist_ok=True)
            told.write_text(str(ours.enter_context(seaweed(data, environment)).port))
            for step in ((told.unlink,), (flock, using, LOCK_EX), (flock, starting, LOCK_EX)):
                ours.callback(*step)  # the last of them first
        flock(using, LOCK_SH)
        flock(starting, LOCK_UN)
        yield Server(int(told.read_text()))


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory, credentials: dict[str, str]) -> Iterator[Server]:
    base = tmp_path_factory.getbasetemp()
    together = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with shared(together / "seaweed", credentials) as server:
        yield server


@pytest.fixture(scope="session")
def careless_server(
    tmp_path_factory: pytest.TempPathFactory, credentials: dict[str, str]
) -> Iterator[Server]:
    with rclone(tmp_path_factory.mktemp("rclone"), credentials) as server:
        yield server


@dataclass
class Wire:
    """A proxy in front of a server that can lose the answer to a PUT after the server has done it."""

    upstream: int
    port: int = 0
    losing: str | None = None
    lost: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with client, closing(socket.create_connection(("127.0.0.1", self.upstream))) as server:
            asked: list[bytes] = []
            back = threading.Thread(target=self._answer, args=(server, client, asked), daemon=True)
            back.start()
            with suppress(OSError):
                while data := client.recv(1 << 16):
                    asked[:] = [data] if data[:4] in (b"PUT ", b"GET ", b"HEAD", b"POST", b"DELE") else asked
                    server.sendall(data)
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            back.join()

    def _answer(self, server: socket.socket, client: socket.socket, asked: list[bytes]) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                if b" 100 " not in data[:32] and self._loses(asked[0] if asked else b""):
                    break
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def _loses(self, request: bytes) -> bool:
        with self._lock:
            line = request.partition(b"\r\n")[0].decode("latin-1")
            if self.losing is None or not line.startswith("PUT ") or self.losing not in line:
                return False
            self.losing, self.lost = None, self.lost + 1
            return True


@contextmanager
def wire(server: Server) -> Iterator[Wire]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Wire(server.port, listener.getsockname()[1])
        threading.Thread(target=made.serve, args=(listener,), daemon=True).start()
        yield made
        listener.shutdown(socket.SHUT_RDWR)
