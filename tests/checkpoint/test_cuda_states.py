"""States on a CUDA device: the same objects as of the same state in host memory."""

from pathlib import Path
from typing import Any

import pytest
import torch

from mvcs.checkpoint.state.state import capture_state
from mvcs.objects.chunk_grid import DTYPES
from mvcs.repository import Repository
from mvcs.train.state.host_copies import HostBuffers

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

STORED = [getattr(torch, name) for name in DTYPES if hasattr(torch, name)]


def contents(state: object) -> tuple[object, list[bytes]]:
    captured = capture_state(state)
    return captured.root, [leaf.source.read().tobytes() for leaf in captured.leaves]


def odd_views(device: str) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    base = torch.randn(4, 6, dtype=torch.complex64, generator=generator).to(device)
    image = torch.randn(2, 3, 4, 5, generator=generator).to(device)
    plain = torch.arange(24.0).to(device)
    return [
        *(base, base.t(), base.conj(), base.imag, base.conj().imag, base[::2], base[0, 0]),
        *(image.to(memory_format=torch.channels_last), image.expand(3, 2, 3, 4, 5), plain[3:9], plain[1:1]),
        *(plain.as_strided((3, 4), (2, 3)), plain, plain),
        torch.nn.Parameter(torch.ones(3, device=device)),
    ]


@pytest.mark.parametrize("copied", [False, True])
def test_views_are_read_as_on_the_host(*, copied: bool) -> None:
    buffers = HostBuffers()
    for _ in range(2):
        there = odd_views("cuda")
        assert contents(buffers.copy(there) if copied else there) == contents(odd_views("cpu"))


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_every_bit_of_every_type(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    raw = torch.randint(0, 256, (24, 16), dtype=torch.uint8, generator=generator)
    here = (raw % 2).view(dtype) if dtype is torch.bool else raw.view(dtype)
    there = here.cuda()
    expected = contents([here, here.t(), here[::2]])
    assert contents([there, there.t(), there[::2]]) == expected
    assert contents(HostBuffers().copy([there, there.t(), there[::2]])) == expected


def training_state() -> dict[str, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(8, 64, 3), torch.nn.BatchNorm2d(64), torch.nn.Conv2d(64, 64, 3)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 8, 8, 8)).square().sum().backward()
    optimizer.step()
    return {"model": dict(model.state_dict()), "optimizer": optimizer.state_dict(), "step": 3}


def moved(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.cuda()
    if isinstance(value, dict):
        return {key: moved(item) for key, item in value.items()}
    return [moved(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "settings", [{}, {"step_size": 0.25}, {"step_size": 0.25, "moments": "light"}, {"bins": 16}], ids=str
)
def test_a_commit_has_the_same_objects(tmp_path: Path, settings: dict[str, Any]) -> None:
    state = training_state()
    found = []
    for name, given in (("host", state), ("device", moved(state))):
        with Repository.init(tmp_path / name) as repo:
            commit = repo.commit(given, **settings)
            tensors = repo.show(commit.id).tensors
            found.append([(one.path, one.value_id, one.exact_id, one.stored_bytes) for one in tensors])
    assert found[0] == found[1]


def test_what_another_stream_still_computes_is_waited_for(tmp_path: Path) -> None:
    weights = torch.zeros(1024, 1024, device="cuda")
    with Repository.init(tmp_path) as repo, torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(500_000_000)
        weights.fill_(3)
        repo.commit({"weights": weights})
        assert repo.checkout()["weights"].unique().tolist() == [3]
