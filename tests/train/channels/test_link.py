"""A pipeline over a link trains as one without, in fewer bytes, and both ends hold the same messages."""

from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import (
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)

from mvcs import Repository
from mvcs.train import Checkpointer
from mvcs.train.channels import QuantizedLink
from tests.train.channels.pipelines import Pipeline, store_of
from tests.train.channels.ranks import run

SINGLE = [ScheduleGPipe, Schedule1F1B]
SEVERAL = [ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble]


def train(rank: int, folder: Path, schedule: Any, stages: int, settings: dict[str, Any] | None) -> Any:
    link = None
    if settings is not None:
        aq = settings["forward"] is not None and not settings.get("direct")
        link = QuantizedLink(**settings, store=store_of(rank, folder) if aq else None)
    pipeline = Pipeline(rank, schedule, link, stages)
    losses = [pipeline.step() for _ in range(6)]
    return losses, pipeline.values(), link.report() if link else []


def both(forked: ForkServerContext, folder: Path, *arguments: object) -> list[Any]:
    folder.mkdir()
    return run(forked, folder, 2, train, folder, *arguments)


@pytest.mark.parametrize("schedule", SINGLE)
def test_a_link_without_compression_trains_bit_for_bit_as_gloo(
    forked: ForkServerContext, tmp_path: Path, schedule: Any
) -> None:
    plain = both(forked, tmp_path / "plain", schedule, 1, None)
    linked = both(forked, tmp_path / "linked", schedule, 1, {"forward": None, "backward": None})
    assert [rank[:2] for rank in linked] == [rank[:2] for rank in plain]


@pytest.mark.parametrize(("schedule", "stages"), [*((s, 1) for s in SINGLE), *((s, 2) for s in SEVERAL)])
def test_changes_in_two_bits_train_as_float32_does(
    forked: ForkServerContext, tmp_path: Path, schedule: Any, stages: int
) -> None:
    plain = both(forked, tmp_path / "plain", schedule, stages, None)[1][0]
    linked = both(forked, tmp_path / "linked", schedule, stages, {"forward": 2, "backward": 4})[1][0]
    assert linked[-1] < 0.99 * linked[0]
    assert linked[-1] == pytest.approx(plain[-1], rel=0.005)


def exchange(rank: int, folder: Path, settings: dict[str, Any], shape: list[int], dtype: torch.dtype) -> Any:
    """Send activations three times; return what both ends hold and what came."""
    store = store_of(rank, folder)
    link, ids = QuantizedLink(store=store, **settings), range(shape[0])
    came = torch.empty(shape, dtype=dtype)
    for _ in range(3):
        link.samples(ids)
        if rank == 0:
            sent = torch.randn(shape).to(dtype)
            dist.send(sent, 1, group=link)
        else:
            dist.recv(came, 0, group=link)
    return store.read(0, list(ids)), (sent if rank == 0 else came).float().numpy(), link.report()


@pytest.mark.parametrize(
    ("settings", "shape", "dtype"),
    [
        ({"forward": 2}, [4, 32, 8], torch.float32),
        ({"forward": 3, "entropy": True}, [4, 32, 8], torch.bfloat16),
        ({"forward": 2, "stochastic": True}, [4, 3, 8, 8], torch.float32),
        ({"forward": 1, "renew": True}, [4, 16], torch.float32),
        ({"forward": 4, "group": "batch"}, [4, 32, 8], torch.float32),
        ({"forward": 4, "group": "batch"}, [4, 32], torch.bfloat16),
    ],
)
def test_both_ends_hold_the_same_bits(
    forked: ForkServerContext, tmp_path: Path, settings: dict[str, Any], shape: list[int], dtype: torch.dtype
) -> None:
    (held, *_), (there, *_) = run(forked, tmp_path, 2, exchange, tmp_path, settings, shape, dtype)
    assert np.array_equal(held, there)


def test_eight_bits_restore_what_was_sent_to_a_hundredth(forked: ForkServerContext, tmp_path: Path) -> None:
    settings = {"forward": 8}
    (_, sent, _), (_, came, _) = run(
        forked, tmp_path, 2, exchange, tmp_path, settings, [4, 32, 8], torch.float32
    )
    assert np.linalg.norm(came - sent) < 0.01 * np.linalg.norm(sent)


def test_after_the_first_pass_a_value_takes_its_bits_and_a_tenth(
    forked: ForkServerContext, tmp_path: Path
) -> None:
    ((_, _, report), _) = run(
        forked, tmp_path, 2, exchange, tmp_path, {"forward": 2}, [4, 128, 16], torch.float32
    )
    bits = [8 * line["bytes"] / line["values"] for line in report]
    assert bits[0] > 32
    assert max(bits[1:]) <= 2.2


def resumed(rank: int, folder: Path, first: int, settings: dict[str, Any]) -> Any:
    """Train six steps, of which the link's state is saved and loaded into another after the first few."""
    link = QuantizedLink(store=store_of(rank, folder), **settings)
    pipeline = Pipeline(rank, ScheduleGPipe, link)
    for _ in range(first):
        pipeline.step()
    state, weights = link.state_dict(), [weight.detach().clone() for weight in pipeline.weights]
    again = QuantizedLink(store=store_of(rank, folder / "again"), **settings)
    pipeline = Pipeline(rank, ScheduleGPipe, again)
    again.load_state_dict(state)
    with torch.no_grad():
        for weight, value in zip(pipeline.weights, weights, strict=True):
            weight.copy_(value)
    for _ in range(6 - first):
        pipeline.step()
    return pipeline.values()


@pytest.mark.parametrize("settings", [{"forward": 2, "backward": 4}, {"forward": 3, "stochastic": True}])
def test_a_resumed_run_is_the_same_bit_for_bit(
    forked: ForkServerContext, tmp_path: Path, settings: dict[str, Any]
) -> None:
    weights = []
    for first in (0, 3):
        (tmp_path / str(first)).mkdir()
        weights.append(run(forked, tmp_path / str(first), 2, resumed, tmp_path / str(first), first, settings))
    assert weights[0] == weights[1]


def committed(rank: int, folder: Path, stop: int) -> Any:
    """Train up to a step, from the commits of a branch for each stage."""
    link = QuantizedLink(store=store_of(rank, folder))
    pipeline = Pipeline(rank, ScheduleGPipe, link)
    with (
        Repository.open(folder) as repo,
        Checkpointer(
            repo,
            nn.ParameterList(pipeline.weights),
            pipeline.optimizer,
            extra={"link": link},
            branch=f"stage-{rank}",
            every=100,
        ) as checkpointer,
    ):
        for step in range(checkpointer.resume(), stop):
            pipeline.step()
            checkpointer.after_step(step)
    return pipeline.values()


def test_stages_resume_from_their_commits_bit_for_bit(forked: ForkServerContext, tmp_path: Path) -> None:
    weights = []
    for stops in ((6,), (3, 6)):
        folder = tmp_path / str(len(stops))
        Repository.init(folder).close()
        for stop in stops:
            found = run(forked, tmp_path / f"{len(stops)}-{stop}", 2, committed, folder, stop)
        weights.append(found)
    assert weights[0] == weights[1]


def evaluated(rank: int, folder: Path, how: str) -> Any:
    link = QuantizedLink(store=store_of(rank, folder))
    pipeline = Pipeline(rank, ScheduleGPipe, link)
    for _ in range(4):
        pipeline.step()
        if how == "no_grad":
            with torch.no_grad():
                pipeline.run(pipeline.schedule.eval, list(range(32, 48)), [])
        if how == "evaluating":
            with link.evaluating():
                pipeline.run(pipeline.schedule.eval, list(range(32, 48)), [])
    return pipeline.values()


@pytest.mark.parametrize("how", ["no_grad", "evaluating"])
def test_evaluations_between_steps_touch_no_message(
    forked: ForkServerContext, tmp_path: Path, how: str
) -> None:
    weights = []
    for name in ("not", how):
        (tmp_path / name).mkdir()
        weights.append(run(forked, tmp_path / name, 2, evaluated, tmp_path / name, name))
    assert weights[0] == weights[1]


def crop(pictures: torch.Tensor, views: list[tuple[int, int, int]], size: int) -> torch.Tensor:
    """Return of each picture [c, h, w], flipped or not, what begins at its top and left."""
    flipped = [one.flip(-1) if flip else one for one, (flip, _, _) in zip(pictures, views, strict=True)]
    parts = [
        one[:, top : top + size, left : left + size]
        for one, (_, top, left) in zip(flipped, views, strict=True)
    ]
    return torch.stack(parts)


def augmented(rank: int, folder: Path, views: list[list[tuple[int, int, int]]], settings: Any) -> Any:
    """Send crops of two pictures that stay; return the messages, what was sent and what came last."""
    link = QuantizedLink(forward=8, store=store_of(rank, folder, bits=32), **settings)
    pictures = torch.randn(2, 3, 9, 9, generator=torch.Generator().manual_seed(0))
    for given in views:
        link.samples([0, 1], given if settings else None)
        sent = crop(pictures, given, 6)
        came = sent if rank == 0 else torch.empty_like(sent)
        dist.send(sent, 1, group=link) if rank == 0 else dist.recv(came, 0, group=link)
    forward = [line for line in link.report() if line["direction"] == "forward"]
    return link.state_dict()["store"], came.numpy(), forward


ONE, OTHER = [(0, 0, 1), (0, 3, 0)], [(1, 2, 0), (0, 1, 3)]


def test_both_ends_hold_the_same_frames(forked: ForkServerContext, tmp_path: Path) -> None:
    arguments = (tmp_path, [ONE, OTHER, ONE], {"crops": (6, 3)})
    (held, *_), (there, *_) = run(forked, tmp_path, 2, augmented, *arguments)
    here, there = held["edges"]["0"], there["edges"]["0"]
    assert here["ids"].tolist() == there["ids"].tolist() == [0, 1, ~0]
    assert np.array_equal(here["codes"], there["codes"])


def test_a_crop_changes_only_its_part_and_a_flip_has_its_own_message(
    forked: ForkServerContext, tmp_path: Path
) -> None:
    (_, sent, report), (_, came, _) = run(
        forked, tmp_path, 2, augmented, tmp_path, [ONE, OTHER, ONE], {"crops": (6, 3)}
    )
    assert np.allclose(sent, came, atol=1e-6)  # what was sent in full, and another crop left as it was
    assert [line["quantized"] for line in report] == [0, 1, 2]


def test_crops_without_views_change_by_much(forked: ForkServerContext, tmp_path: Path) -> None:
    changes = []
    for number, settings in enumerate(({}, {"crops": (6, 3)})):
        folder = tmp_path / str(number)
        folder.mkdir()
        ((_, _, report), _) = run(forked, folder, 2, augmented, folder, [ONE, OTHER, ONE], settings)
        changes.append(report[-1]["change"])
    assert changes[0] > 1
    assert changes[1] < 0.01


def coarser(rank: int, folder: Path) -> Any:
    """Half the resolution of pictures: an offset of 2 of 4 is 1 of 2, and of 3 is 2."""
    link = QuantizedLink(forward=8, store=store_of(rank, folder, bits=32), crops=(8, 4))
    for offset in (2, 3):
        link.samples([0], [[0, offset, 0]])
        sent = torch.full((1, 1, 4, 4), float(offset))
        dist.send(sent, 1, group=link) if rank == 0 else dist.recv(sent, 0, group=link)
    return link._store.read(0, [0]).reshape(6, 6)[:, 0].tolist()  # type: ignore[union-attr]


def test_offsets_are_those_of_the_nearest_pixels(forked: ForkServerContext, tmp_path: Path) -> None:
    first, second = run(forked, tmp_path, 2, coarser, tmp_path)
    assert first == second
    assert [round(value) for value in first] == [2, 2, 3, 3, 3, 3]


def many_at_once(rank: int) -> bool:
    """Post 200 messages each way before the first is waited for."""
    link = QuantizedLink(forward=None, backward=None)
    link.follow([(0, "forward"), (0, "backward")])
    sent, came = (
        [torch.full((4, 3), float(one)) for one in range(200)],
        [torch.zeros(4, 3) for _ in range(200)],
    )
    works = [dist.isend(one, 1 - rank, group=link) for one in sent]
    works += [dist.irecv(one, 1 - rank, group=link) for one in came]
    for work in works:
        work.wait()
    dist.barrier()
    return all(map(torch.equal, sent, came))


def test_any_number_of_messages_may_be_on_their_way(forked: ForkServerContext, tmp_path: Path) -> None:
    assert run(forked, tmp_path, 2, many_at_once) == [True, True]


def sent_directly(rank: int, values: torch.Tensor, times: int) -> torch.Tensor:
    """Send activations without naming samples, and return what came, [times, ...]."""
    link = QuantizedLink(forward=4, direct=True, stochastic=True)
    came = []
    for _ in range(times):
        if rank == 0:
            dist.send(values, 1, group=link)
        else:
            came.append(torch.empty_like(values))
            dist.recv(came[-1], 0, group=link)
    return torch.stack(came) if came else values


def test_rounding_at_random_differs_from_message_to_message(
    forked: ForkServerContext, tmp_path: Path
) -> None:
    values = torch.tensor([[1.0, *[0.04] * 63]])
    came = run(forked, tmp_path, 2, sent_directly, values, 40)[1]
    assert came[:, 0, 1:].mean() == pytest.approx(0.04, abs=0.01)  # a step is 0.125


def test_the_largest_float16_stays_finite(forked: ForkServerContext, tmp_path: Path) -> None:
    values = torch.full((1, 8), -65504.0, dtype=torch.float16)
    assert run(forked, tmp_path, 2, sent_directly, values, 1)[1].isfinite().all()


@pytest.mark.parametrize("shape", [(0, 4), (4, 0)])
def test_tensors_without_values_pass(
    forked: ForkServerContext, tmp_path: Path, shape: tuple[int, ...]
) -> None:
    assert run(forked, tmp_path, 2, sent_directly, torch.empty(shape), 1)[1].shape == (1, *shape)


def aligned(rank: int, folder: Path, steps: list[list[int]]) -> Any:
    """Commit steps on a branch of each rank, and return where aligning them leaves it."""
    branch, weights = f"stage-{rank}", {"w": torch.zeros(4)}
    link = QuantizedLink(forward=None, backward=None)
    with Repository.init(folder / f"{rank}") as repo:
        for step in steps[rank]:
            repo.commit({"model": weights}, branch=branch, step=step)
        found = link.align(repo, branch)
        return found, [one.step for one in repo.log(branch)] if steps[rank] else []


@pytest.mark.parametrize(
    ("steps", "left"),
    [
        ([[2, 5, 8], [2, 5]], [(5, [5, 2]), (5, [5, 2])]),
        ([[2, 5], [2, 5]], [(5, [5, 2]), (5, [5, 2])]),
        ([[], []], [(None, []), (None, [])]),
    ],
)
def test_ranks_go_back_to_the_newest_step_that_all_have(
    forked: ForkServerContext, tmp_path: Path, steps: list[list[int]], left: Any
) -> None:
    assert run(forked, tmp_path / "ranks", 2, aligned, tmp_path, steps) == left


def test_ranks_without_a_common_step_say_so(forked: ForkServerContext, tmp_path: Path) -> None:
    said = run(forked, tmp_path / "ranks", 2, aligned, tmp_path, [[2], []])
    assert all("the ranks have no commit of one step" in one for one in said)


def named_twice(rank: int, folder: Path) -> list[object]:
    link = QuantizedLink(forward=8, store=store_of(rank, folder))
    for _ in range(3):
        link.samples([1, 2])
        link.samples([1, 2])
        if rank == 0:
            dist.send(torch.ones(2, 8), 1, group=link)
        else:
            dist.recv(torch.ones(2, 8), 0, group=link)
    dist.barrier()
    return [line["epoch"] for line in link.report()]


def test_samples_named_twice_before_a_step_count_once(forked: ForkServerContext, tmp_path: Path) -> None:
    assert run(forked, tmp_path, 2, named_twice, tmp_path) == [[0, 1, 2], [0, 1, 2]]
