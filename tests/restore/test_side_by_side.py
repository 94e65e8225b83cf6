"""Leaves that are read side by side: the same as one after another."""

from pathlib import Path

import pytest
import torch

from mvcs import CorruptionError, Repository


def trained() -> dict[str, torch.Tensor]:
    """A flat state: tensors of several chunks, of one, many small ones, none, and Adam's moments."""
    drawn = torch.Generator().manual_seed(0)
    found = {name: torch.randn(shape, generator=drawn) for name, shape in SHAPES.items()}
    layer = torch.nn.Linear(1100, 1000)
    torch.nn.init.normal_(layer.weight, generator=drawn)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.01)
    layer(found["large"]).square().sum().backward()
    optimizer.step()
    moments = optimizer.state_dict()["state"][0]
    found["half"] = found["half"].bfloat16()
    return found | {"weight": layer.weight.detach().clone()} | moments


SHAPES = {"chunks": (2200, 2000), "large": (1000, 1100), "half": (1200, 1024), "none": (0, 3), "one": (1,)}
SHAPES |= {f"row.{number}": (700, 300) for number in range(12)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("history")
    with Repository.init(place) as repo:
        state = trained()
        for _ in range(3):
            state["chunks"] += 0.01 * state["chunks"].roll(1)
            repo.commit({"model": state}, step_size=0.5)
    return place


@pytest.mark.parametrize("exact", [False, True])
def test_threads_restore_what_one_alone_does(folder: Path, *, exact: bool) -> None:
    states = []
    for threads in (1, 3):
        with Repository.open(folder) as repo:
            repo.config_set("commit.threads", str(threads))
            states.append(repo.checkout("HEAD", exact=exact)["model"])
    one, three = states
    assert list(one) == list(three)
    assert all(torch.equal(one[name], three[name]) for name in one)


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_threads_write_the_file_that_one_alone_does(folder: Path, tmp_path: Path, suffix: str) -> None:
    for threads in (1, 3):
        with Repository.open(folder) as repo:
            repo.config_set("commit.threads", str(threads))
            repo.export("HEAD", tmp_path / f"{threads}.{suffix}")
    assert (tmp_path / f"1.{suffix}").read_bytes() == (tmp_path / f"3.{suffix}").read_bytes()


def test_of_two_damaged_leaves_the_first_is_named(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        repo.commit({f"part.{number}": torch.randn(1100, 1000) for number in range(6)})
    pack = max((path for path in (tmp_path / ".mvcs").rglob("*") if path.is_file()), key=size_of)
    data = bytearray(pack.read_bytes())
    for share in (0.3, 0.9):
        data[int(len(data) * share)] ^= 1
    pack.write_bytes(data)
    named = set()
    for threads in (1, 3):
        with Repository.open(tmp_path) as repo:
            repo.config_set("commit.threads", str(threads))
            with pytest.raises(CorruptionError) as caught:
                repo.checkout()
            named.add(caught.value.message)
    assert len(named) == 1


def size_of(path: Path) -> int:
    return path.stat().st_size
