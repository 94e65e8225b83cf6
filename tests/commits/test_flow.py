"""The flow of a bounded commit: a reader opens each file once, for no call goes back to a file that waits."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import mvcs

ROOT = f"{Path(mvcs.__file__).parent}/"
MOST_CLIMBS = 9


class Climbs:
    """Calls into a file that already stands on the stack, below the caller's: pairs of files."""

    def __init__(self) -> None:
        self.pairs: set[tuple[str, str]] = set()
        self.files: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Look at one call, as `sys.setprofile` gives it."""
        called = frame.f_code.co_filename
        if event != "call" or not called.startswith(ROOT):
            return
        self.files.add(called)
        waiting = list(_own_files(frame.f_back))
        is_nameless = frame.f_code.co_name.startswith("<")
        if waiting and waiting[0] != called and called in waiting and not is_nameless:
            self.pairs.add((waiting[0].removeprefix(ROOT), called.removeprefix(ROOT)))

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count in all threads."""
        sys.setprofile(self)
        threading.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def _own_files(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        if frame.f_code.co_filename.startswith(ROOT):
            yield frame.f_code.co_filename
        frame = frame.f_back


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Any]:
    """Return what trains on for two steps, and commits with the settings it is given."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(50, 32), torch.nn.Linear(32, 64), torch.nn.LayerNorm(64), torch.nn.Linear(64, 50)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    with mvcs.open_or_init(tmp_path) as repo:

        def commit(**settings: Any) -> None:
            for _ in range(2):
                batch = torch.randint(0, 50, (16,))
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(batch), batch).backward()
                optimizer.step()
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            repo.commit(state=state, message="on", **settings)

        yield commit


@pytest.mark.parametrize(
    "settings", [{"step_size": 0.5}, {"step_size": 0.5, "moments": "resume"}, {"bins": 16}]
)
def test_a_bounded_commit_hardly_ever_climbs_back_to_a_file_it_has_left(run, settings):
    for _ in range(2):
        run(**settings)
    climbs = Climbs()
    with climbs.counted():
        run(**settings)
    assert len(climbs.files) > 100
    assert len(climbs.pairs) <= MOST_CLIMBS, sorted(climbs.pairs)
