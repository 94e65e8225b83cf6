"""What every test shares: one torch thread, the same draws, hypothesis, what is garbage, S3 servers."""

import gc
import os
import random
import signal
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.loaded import forked
from tests.store.servers import careless_server, credentials, s3_server

__all__ = ["careless_server", "credentials", "forked", "s3_server"]

# Before torch is imported anywhere: two workers with two threads each on two cores spin instead of working.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

# What a shell runs in the background ignores Ctrl-C, and so would programs that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test fails on time. The same examples every run; `pytest --hypothesis-profile=search` looks for new ones.
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", parent=settings.get_profile("ci"), derandomize=False, max_examples=2_000)
settings.load_profile("ci")

# Modules and collected tests live as long as the process: there is no garbage to look for in them.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_runtest_setup() -> None:
    """Begin the global generators anew: what a test draws does not depend on which ran before it."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - the generator that modules without one draw from
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give every process of the tests a home of their own: a person's settings neither help nor harm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.delenv("XDG_CONFIG_HOME", raising=False)
        for name in ("SUDO_UID", "COLUMNS", "PAGER", "MVCS_PAGER", "LESS"):
            patch.delenv(name, raising=False)
        yield
