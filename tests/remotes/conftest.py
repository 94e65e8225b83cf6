"""Remotes of every kind."""

from pathlib import Path

import pytest

from tests.store.servers import Server

Remote = tuple[str, dict[str, object]]


S3 = pytest.mark.s3
# S3 is reached as a store in memory is; what differs is asked of every test in the slow suite.
everywhere = pytest.mark.parametrize(
    "remote", ["local", "memory", pytest.param("s3", marks=S3)], indirect=True
)


@pytest.fixture(params=["local", "memory", pytest.param("s3", marks=[S3, pytest.mark.slow])])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Remote:
    """Where a remote may lie: its URL and the options that reach it."""
    unique = f"{tmp_path.parent.name}-{tmp_path.name}"
    if request.param == "local":
        return str(tmp_path / "far"), {}
    if request.param == "memory":
        return f"memory://{unique}", {}
    server: Server = request.getfixturevalue("s3_server")
    return f"s3://{server.bucket}/{unique}", server.options
