"""Runs on a CUDA device: resumed bit for bit, copied whole at any moment, evaluated and left as they were."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mvcs.repository import Repository
from mvcs.train import Checkpointer
from tests.train.runs import CudaRun, steps_of, train, undisturbed

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

CHILD = Path(__file__).with_name("child.py")
SPUN = 100_000_000
"""Cycles of the device that a stream is kept busy for: some hundredths of a second."""


def rate_on_device() -> dict[str, Any]:
    return {"capturable": True, "lr": torch.tensor(1e-2, device="cuda")}


@pytest.mark.parametrize("precision", [None, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "adam",
    [dict, lambda: {"fused": True}, lambda: {"foreach": False, "amsgrad": True}, rate_on_device],
    ids=["default", "fused", "one by one", "capturable"],
)
def test_resume_continues_bit_for_bit(repo: Repository, adam: Any, precision: torch.dtype | None) -> None:
    first = CudaRun(precision=precision, **adam())
    with Checkpointer(repo, *first.parts, **first.options, every=5, final=False) as checkpointer:
        train(checkpointer, first, range(13))
    second = CudaRun(99, precision, **adam())
    with Checkpointer(repo, *second.parts, **second.options, every=5) as checkpointer:
        assert checkpointer.resume() == 10
        assert not checkpointer.restored.lossy
        train(checkpointer, second, range(10, 20))
        assert checkpointer.failures == []
    assert second.weights() == undisturbed(20, CudaRun(precision=precision, **adam())).weights()
    assert type(second.optimizer.param_groups[0]["lr"]) is type(adam().get("lr", 1.0))


def test_a_rate_and_plain_tensors_come_back_to_where_they_were(repo: Repository) -> None:
    noise = torch.Generator("cuda").manual_seed(5)
    seen = {
        "mean": torch.ones(3, device="cuda"),
        "count": torch.ones(3),
        "list": [torch.ones(2, device="cuda")],
    }
    run = CudaRun(**rate_on_device())
    with Checkpointer(repo, *run.parts, every=1, extra={"noise": noise, "seen": seen}) as checkpointer:
        checkpointer.after_step(0, {"loss": run.step()})
    expected = torch.rand(3, generator=noise, device="cuda").tolist()
    again, other = torch.Generator("cuda"), CudaRun(1, **rate_on_device())
    zeros = {
        "mean": torch.zeros(3, device="cuda"),
        "count": torch.zeros(3),
        "list": [torch.zeros(2, device="cuda")],
    }
    with Checkpointer(repo, *other.parts, extra={"noise": again, "seen": zeros}) as checkpointer:
        checkpointer.resume()
        back = checkpointer.extra["seen"]
    assert other.optimizer.param_groups[0]["lr"].device.type == "cuda"
    assert {value.device.type for state in other.optimizer.state.values() for value in state.values()} == {
        "cuda"
    }
    assert [back["mean"].device.type, back["count"].device.type, back["list"][0].device.type] == [
        "cuda",
        "cpu",
        "cuda",
    ]
    assert back["mean"].tolist() == [1, 1, 1]
    assert torch.rand(3, generator=again, device="cuda").tolist() == expected


class Child:
    """The run in a process of its own, which no other has made use the device before."""

    def __init__(self, folder: Path, steps: int, *device: str, **environment: str) -> None:
        self.result = folder / "weights.json"
        self.process = subprocess.Popen(
            [sys.executable, str(CHILD), str(folder), str(steps), "3", str(self.result), *device],
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.start = int(self.process.stdout.readline().split()[1])

    def allow(self, steps: int) -> None:
        self.process.stdin.write("\n" * steps)
        self.process.stdin.flush()


def test_killed_at_any_moment_then_the_same_weights(tmp_path: Path) -> None:
    Repository.init(tmp_path).close()
    moments, starts = random.Random(3), []
    for _ in range(2):
        child = Child(tmp_path, 21, "cuda")
        starts.append(child.start)
        child.allow(8)
        for _ in range(moments.randint(4, 8)):
            child.process.stdout.readline()
        child.process.kill()
        child.process.communicate()
        assert child.process.returncode == -signal.SIGKILL
    last = Child(tmp_path, 21, "cuda")
    last.allow(21)
    _, errors = last.process.communicate()
    assert last.process.returncode == 0, errors
    assert last.start > 0
    assert starts == sorted(starts)
    assert json.loads(last.result.read_text()) == undisturbed(21, CudaRun()).weights()
    with Repository.open(tmp_path) as repo:
        assert repo.fsck().problems == []
        assert {commit.lineage_exact for commit in repo.log()} == {True}


def test_a_run_goes_on_where_there_is_no_device(tmp_path: Path) -> None:
    run = CudaRun()
    with (
        Repository.init(tmp_path) as repo,
        Checkpointer(repo, *run.parts, **run.options, every=3) as checkpointer,
    ):
        train(checkpointer, run, range(3))
    child = Child(tmp_path, 6, CUDA_VISIBLE_DEVICES="")
    assert child.start == 3
    child.allow(3)
    _, errors = child.process.communicate()
    assert child.process.returncode == 0, errors
    assert "random generators of 1 CUDA devices are not restored" in errors
    back = CudaRun(1)
    with Repository.open(tmp_path) as repo, Checkpointer(repo, *back.parts, **back.options) as checkpointer:
        assert checkpointer.resume() == 6
    assert back.weights() == json.loads(child.result.read_text())


def copies(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("where", ["default", "current", "other"])
@pytest.mark.parametrize("queue", [1, 3])
def test_a_commit_holds_its_step_though_training_goes_on(repo: Repository, where: str, queue: int) -> None:
    """Steps are made on the default stream, on the current one, or on one that is no longer current."""
    model = (
        nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 512))
        .cuda()
        .to(memory_format=torch.contiguous_format)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    x = torch.randn(64, 512, device="cuda")
    stream = torch.cuda.current_stream() if where == "default" else torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    expected = {}

    def step(number: int) -> None:
        torch.cuda._sleep(SPUN)
        optimizer.zero_grad()
        (model(x) - number).square().mean().backward()
        optimizer.step()
        expected[number] = copies(model)

    with Checkpointer(repo, model, optimizer, every=1, queue=queue) as checkpointer:
        for number in range(6):
            with torch.cuda.stream(stream):
                step(number)
                if where != "other":
                    checkpointer.after_step(number)
            if where == "other":
                checkpointer.after_step(number)
        assert checkpointer.failures == []
    torch.cuda.synchronize()
    assert steps_of(repo) == [5, 4, 3, 2, 1, 0]
    for commit in repo.log():
        found = repo.checkout(commit.id)["model"]
        assert all(torch.equal(found[name], one.cpu()) for name, one in expected[commit.step].items())


def test_a_step_that_is_replayed_as_a_graph(repo: Repository) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.1), nn.Linear(64, 64)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-2, device="cuda"), capturable=True)
    x = torch.randn(16, 64, device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        model(x).square().mean().backward()
        optimizer.step()

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    expected = []
    with Checkpointer(repo, model, optimizer, every=1) as checkpointer:
        for number in range(4):
            graph.replay()
            expected.append(copies(model))
            checkpointer.after_step(number)
        assert checkpointer.failures == []
    for commit in repo.log():
        found = repo.checkout(commit.id)["model"]
        assert all(torch.equal(found[name], one.cpu()) for name, one in expected[commit.step].items())


def test_a_compiled_model_resumes_as_it_is(repo: Repository) -> None:
    def compiled(seed: int) -> tuple[CudaRun, Any]:
        run = CudaRun(seed)
        run.model = torch.compile(run.model, backend="aot_eager")
        return run, run.options

    first, options = compiled(0)
    with Checkpointer(repo, *first.parts, **options, every=4, final=False) as checkpointer:
        train(checkpointer, first, range(6))
    second, options = compiled(9)
    with Checkpointer(repo, *second.parts, **options, every=4) as checkpointer:
        assert checkpointer.resume() == 4
        train(checkpointer, second, range(4, 8))
    assert second.weights() == undisturbed(8, compiled(0)[0]).weights()


def test_gradients_between_backward_and_step(repo: Repository) -> None:
    first = CudaRun()
    with Checkpointer(repo, *first.parts, **first.options) as checkpointer:
        first.step()
        first.backward()
        checkpointer.save(0)
    first.step()
    second = CudaRun(7)
    with Checkpointer(repo, *second.parts, **second.options) as checkpointer:
        assert checkpointer.resume() == 1
        assert {parameter.grad.device.type for parameter in second.model.parameters()} == {"cuda"}
        second.step()
    assert second.weights() == first.weights()


def test_a_commit_takes_no_memory_of_the_device(repo: Repository) -> None:
    model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(8)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    model(torch.ones(2, 512, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    with Checkpointer(repo, model, optimizer, every=1, step_size=0.5) as checkpointer:
        for step in range(3):
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            checkpointer.after_step(step)
            checkpointer.flush()
            assert torch.cuda.max_memory_allocated() == before
        assert checkpointer.failures == []


def measured(model: nn.Module) -> Any:
    """Draw on the device, as an evaluation may, and measure batch for batch."""
    torch.manual_seed(5)
    for _ in range(8):
        x = torch.randn(64, 24, device="cuda")
        torch.rand(3, device="cuda")
        yield (model(x) - x.sin().sum(1, keepdim=True)).square().sum().item(), 64


@pytest.mark.parametrize("precision", [None, torch.float16], ids=str)
def test_evaluating_leaves_the_run_as_it_was(repo: Repository, precision: torch.dtype | None) -> None:
    run = CudaRun(precision=precision, fused=True)
    bounds = {"evaluate": measured, "max_degradation": 0.05}
    with Checkpointer(repo, *run.parts, **run.options, every=4, **bounds) as checkpointer:
        train(checkpointer, run, range(12))
        assert (checkpointer.failures, checkpointer.not_evaluated) == ([], [])
    assert run.weights() == undisturbed(12, CudaRun(precision=precision, fused=True)).weights()
    assert {commit.exactness for commit in repo.log()} == {"bounded"}
    assert all(commit.degradation <= 0.05 for commit in repo.log())


def test_an_evaluation_without_memory_costs_the_search_alone(repo: Repository) -> None:
    def evaluate(_model: nn.Module) -> float:
        torch.empty(2**50, dtype=torch.uint8, device="cuda")
        return 1.0

    run = CudaRun()
    with Checkpointer(
        repo, *run.parts, **run.options, every=2, evaluate=evaluate, final=False
    ) as checkpointer:
        train(checkpointer, run, range(4))
        checkpointer.flush()
        assert list(checkpointer.not_evaluated) == [1, 3]
    assert "OutOfMemoryError" in repo.head().not_evaluated
    assert run.weights() == undisturbed(4, CudaRun()).weights()


def test_a_run_goes_on_from_values_alone(repo: Repository) -> None:
    first = CudaRun()
    with Checkpointer(
        repo, *first.parts, **first.options, every=2, step_size=0.25, moments="light"
    ) as checkpointer:
        train(checkpointer, first, range(12))
    repo.switch("again", create_from="step:3")
    second = CudaRun(5)
    with Checkpointer(
        repo, *second.parts, **second.options, every=2, step_size=0.25, moments="light"
    ) as checkpointer:
        assert checkpointer.resume() == 4
        assert checkpointer.restored.lossy
        train(checkpointer, second, range(4, 10))
        assert checkpointer.failures == []
    assert all(bool(value.isfinite().all()) for value in second.model.state_dict().values())


def test_weights_alone_and_states_in_turn(repo: Repository) -> None:
    run, expected = CudaRun(), {}
    with Checkpointer(repo, *run.parts, **run.options, every=4, weights_every=1, final=False) as checkpointer:
        for step in range(8):
            run.step()
            expected[step] = copies(run.model)
            checkpointer.after_step(step)
    for commit in repo.log():
        found = repo.checkout(commit.id)["model"]
        assert all(torch.equal(found[name], one.cpu()) for name, one in expected[commit.step].items())
