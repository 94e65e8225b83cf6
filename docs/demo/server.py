"""A real S3 server on loopback, for as long as a block runs."""

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from stage import DemoError, command

PORTS = (
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
BUCKET = "mvcs-demo"
START_SECONDS = 60


@dataclass(frozen=True)
class Server:
    """Where the server listens, and the environment that leads S3 clients there."""

    endpoint: str
    environment: dict[str, str]


@contextmanager
def s3_server(folder: Path) -> Iterator[Server]:
    """Run SeaweedFS with its data in `folder`; sets the environment's AWS variables for the block."""
    folder.mkdir(parents=True)
    ports = _free_ports(len(PORTS))
    endpoint = f"http://127.0.0.1:{ports[0]}"
    environment = {
        "AWS_ACCESS_KEY_ID": secrets.token_hex(8),
        "AWS_SECRET_ACCESS_KEY": secrets.token_hex(16),
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": endpoint,
    }
    before = dict(os.environ)
    os.environ.update(environment)
    with (folder.parent / "s3.log").open("wb") as log:
        process = subprocess.Popen(
            _command(folder, ports), stdout=log, stderr=log, env={**os.environ, "GOMEMLIMIT": "400MiB"}
        )
        try:
            _wait_for(endpoint, process)
            yield Server(endpoint, environment)
        finally:
            os.environ.clear()
            os.environ.update(before)
            _stop(process)


def _command(folder: Path, ports: list[int]) -> list[str]:
    quiet = ["-master.telemetry=false", "-admin.ui=false", "-webdav=false"]
    unused = ["-s3.port.iceberg=0", "-s3.port.lance=0"]
    local = [f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-bucket={BUCKET}"]
    chosen = [f"-{name}={port}" for name, port in zip(PORTS, ports, strict=True)]
    return command("weed", "mini", *local, *quiet, *unused, *chosen)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [held.getsockname()[1] for held in sockets]


def _wait_for(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            urlopen(f"{endpoint}/{BUCKET}", timeout=2).close()  # noqa: S310 - loopback, a scheme of our own
        except HTTPError as answer:
            # 403: the bucket is there and wants our key. 404 and 503: not yet.
            if answer.code == 403:
                return
        except (URLError, OSError):
            pass
        else:
            return
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
        raise DemoError(f"the S3 server ended with {process.returncode}, see s3.log")
    raise DemoError(f"the S3 server did not answer within {START_SECONDS} s, see s3.log")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
