"""What does not fit is refused on either end, names what it is, and says how to return."""

import logging
import os
import resource
import signal
from collections.abc import Callable
from datetime import timedelta
from logging.handlers import QueueHandler
from multiprocessing.context import ForkServerContext
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed.pipelining import ScheduleGPipe, ScheduleInterleaved1F1B

from mvcs.channels import Flag, Header, Kind, MessageStore, checksum_of_ids
from mvcs.train.channels import QuantizedLink
from tests.train.channels.pipelines import Pipeline, store_of
from tests.train.channels.ranks import run


def send(link: QuantizedLink, rank: int, ids: list[int], shape: tuple[int, ...] = (8, 3)) -> torch.Tensor:
    """Name samples, and send an activation of them from rank 0 to rank 1."""
    link.samples(ids)
    tensor = torch.ones(len(ids), *shape)
    if rank == 0:
        dist.send(tensor, 1, group=link)
    else:
        dist.recv(tensor, 0, group=link)
    return tensor


def another_order(rank: int, folder: Path) -> None:
    link = QuantizedLink(store=store_of(rank, folder))
    send(link, rank, [1, 2] if rank == 0 else [2, 1])


def a_batch_less(rank: int, folder: Path) -> None:
    link = QuantizedLink(store=store_of(rank, folder))
    for ids in ([1, 2], [3, 4], [5]) if rank == 0 else ([1, 2], [3, 4], [1, 2]):
        send(link, rank, ids)


def a_repeated_id(rank: int, folder: Path) -> None:
    QuantizedLink(store=store_of(rank, folder)).samples([4, 7, 4])


def no_views(rank: int, folder: Path) -> None:
    QuantizedLink(store=store_of(rank, folder), crops=(28, 8)).samples([4, 7])


def views_out_of_range(rank: int, folder: Path) -> None:
    QuantizedLink(store=store_of(rank, folder), crops=(28, 8)).samples([4], [[0, 9, 0]])


def views_without_crops(rank: int, folder: Path) -> None:
    QuantizedLink(store=store_of(rank, folder)).samples([4], [[0, 1, 0]])


def no_whole_number(rank: int, folder: Path) -> None:
    QuantizedLink(store=store_of(rank, folder)).samples([0.5])  # type: ignore[list-item]


def missing_ids(rank: int, folder: Path) -> None:
    link = QuantizedLink(store=store_of(rank, folder))
    if rank == 0:
        dist.send(torch.ones(2, 8), 1, group=link)


def too_few_carried(rank: int, folder: Path) -> None:
    link = QuantizedLink(store=store_of(rank, folder))
    link.samples([1, 2, 3])
    if rank == 0:
        dist.send(torch.ones(2, 8), 1, group=link)
        link.samples([4, 5, 6])
    else:
        dist.recv(torch.ones(2, 8), 0, group=link)


def other_settings(rank: int, folder: Path) -> None:
    send(QuantizedLink(forward=2 + rank, store=store_of(rank, folder)), rank, [1, 2])


def nothing_held(rank: int, folder: Path) -> None:
    link = QuantizedLink(store=store_of(rank, folder))
    send(link, rank, [1, 2])
    if rank == 1:
        link._store.forget(0)  # type: ignore[union-attr]
    link.samples([1, 2])
    if rank == 0:
        dist.send(torch.ones(2, 8, 3), 1, group=link)
    else:
        dist.recv(torch.ones(2, 8, 3), 0, group=link)


def other_commits_of_one_step(rank: int, folder: Path) -> None:
    """Two runs have come to step 1; one end resumes from the first, the other from the second."""
    states = []
    for _ in range(2):
        link = QuantizedLink(store=store_of(rank, folder))
        link.samples([1, 2])
        tensor = torch.full((2, 8, 3), float(len(states)))
        dist.send(tensor, 1, group=link) if rank == 0 else dist.recv(tensor, 0, group=link)
        states.append(link.state_dict())
    link.load_state_dict(states[rank])
    send(link, rank, [1, 2])


def not_finite(rank: int, folder: Path) -> None:
    link = QuantizedLink(store=store_of(rank, folder))
    link.samples([11, 12, 13])
    if rank == 0:
        dist.send(torch.tensor([[1.0], [float("nan")], [2.0]]), 1, group=link)


def a_flipped_bit(rank: int, _folder: Path) -> None:
    link = QuantizedLink(forward=None, backward=None)
    if rank == 1:
        dist.recv(torch.ones(4), 0, group=link)
        return
    payload = bytearray(torch.ones(4).numpy().tobytes())
    header = Header.of(payload, Kind.FULL, edge=0, step=0)
    payload[5] ^= 4
    send_raw(header, payload)


def send_raw(header: Header, payload: bytes | bytearray) -> None:
    """Send rank 1 a message of the first link of the group, without a link."""
    for number, data in enumerate((header.pack(), payload)):
        dist.send(torch.frombuffer(bytearray(data), dtype=torch.uint8), 1, tag=(1 << 16) + number)


def hostile(rank: int, folder: Path, header: dict[str, Any], payload: bytes, stored: bool) -> None:
    """Rank 0 sends a message whose checksums are right."""
    link = QuantizedLink(store=store_of(rank, folder)) if stored else QuantizedLink(direct=True)
    if rank == 0:
        send_raw(Header.of(payload, **header), payload)
        return
    link.samples([1, 2])
    dist.recv(torch.ones(2, 4), 0, group=link)


CODED = bytes(8)
FIRST = {"edge": 0, "step": 1, "samples": checksum_of_ids([1, 2, 0])}


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "direct"])
@pytest.mark.parametrize(
    ("header", "payload"),
    [
        ({**FIRST, "kind": Kind.HANDSHAKE}, b"[" * 1000),
        ({**FIRST, "kind": Kind.HANDSHAKE}, b"\xff"),
        ({**FIRST, "kind": Kind.HANDSHAKE}, b"7"),
        ({**FIRST, "kind": Kind.DELTA, "bits": 0}, CODED),
        ({**FIRST, "kind": Kind.DELTA, "bits": 2, "samples": 0}, CODED),
        ({**FIRST, "kind": Kind.DELTA, "bits": 2, "flags": Flag.SOME_LOST}, CODED),
        ({**FIRST, "kind": Kind.DELTA, "bits": 2, "flags": Flag.SOME_FULL}, bytes(33)),
        ({**FIRST, "kind": Kind.DIRECT, "bits": 3}, CODED),
        ({**FIRST, "kind": Kind.GRADIENT, "bits": 4}, CODED),
        ({**FIRST, "kind": Kind.FULL, "edge": 777}, bytes(32)),
        ({**FIRST, "kind": Kind.FULL, "flags": Flag.SOME_FULL}, bytes(32)),
    ],
)
def test_a_message_that_no_link_sends_is_refused(
    forked: ForkServerContext, tmp_path: Path, header: dict[str, Any], payload: bytes, *, stored: bool
) -> None:
    said = run(forked, tmp_path, 2, hostile, tmp_path, header, payload, stored)[1]
    assert said.startswith("CorruptionError")


def not_followed(rank: int, folder: Path) -> None:
    link = QuantizedLink(store=store_of(rank, folder))
    pipeline = Pipeline(rank, ScheduleInterleaved1F1B, link, stages=2, follow=False)
    pipeline.step()


def other_shape(rank: int, _folder: Path) -> None:
    link = QuantizedLink(forward=None, backward=None)
    if rank == 0:
        dist.send(torch.ones(4, 8), 1, group=link)
    else:
        dist.recv(torch.ones(4, 7), 0, group=link)


@pytest.mark.parametrize(
    ("program", "rank", "said"),
    [
        (another_order, 1, "rank 0 sends other samples along edge 0"),
        (a_batch_less, 1, "name the same samples in the same order on all ranks"),
        (a_repeated_id, 0, "sample 4 is twice in a batch"),
        (no_views, 0, "2 samples cannot have views [] with crops=(28, 8) hint: give crops=(SIZE, LARGEST"),
        (views_out_of_range, 0, "1 samples cannot have views [1, 3] with crops=(28, 8)"),
        (views_without_crops, 0, "1 samples cannot have views [1, 3] with crops=None"),
        (no_whole_number, 0, "the id of a sample cannot be 0.5 hint: return the index from the dataset"),
        (missing_ids, 0, "return the index from the dataset beside its item, and call link.samples(ids)"),
        (too_few_carried, 0, "edge 0 carried 2 of the 3 samples of step 1"),
        (other_settings, 1, "rank 0 has forward=2, and this link forward=3"),
        (nothing_held, 1, "a change of sample 1 at step 2, of which nothing is held here hint: resume all"),
        (
            other_commits_of_one_step,
            1,
            "resume all from commits of one step (link.align(repo, branch) finds it)",
        ),
        (not_finite, 0, "the activation of edge 0 is not finite at sample 12, step 1"),
        (a_flipped_bit, 1, "CorruptionError: the payload of edge 0 at step 0 is damaged"),
        (not_followed, 0, "where a rank has several stages, call link.follow(schedule)"),
        (other_shape, 1, "128 bytes came for torch.float32 [4, 7]"),
    ],
)
def test_it_is_refused(
    forked: ForkServerContext, tmp_path: Path, program: Callable[..., None], rank: int, said: str
) -> None:
    assert said in run(forked, tmp_path, 2, program, tmp_path)[rank]


def killed(rank: int, folder: Path) -> None:
    pipeline = Pipeline(rank, ScheduleGPipe, QuantizedLink(store=store_of(rank, folder)))
    for step in range(5):
        if rank == 1 and step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        pipeline.step()


def test_a_killed_rank_ends_the_other_which_names_it(forked: ForkServerContext, tmp_path: Path) -> None:
    first, second = run(forked, tmp_path, 2, killed, tmp_path)
    assert second is None
    assert first.startswith("StorageError: rank 1 is gone")


def another_length(rank: int, folder: Path) -> Any:
    link = QuantizedLink(forward=8, store=store_of(rank, folder))
    came = [send(link, rank, [1, 2], shape) for shape in ((8, 3), (8, 3), (6, 3), (6, 3), (5, 3))]
    quantized = [line["quantized"] for line in link.report()]
    return quantized, came[-1].numpy()


def test_activations_of_another_length_begin_anew(forked: ForkServerContext, tmp_path: Path) -> None:
    (quantized, sent), (_, came) = run(forked, tmp_path, 2, another_length, tmp_path)
    assert quantized == [0, 2, 0, 2, 0]
    assert np.array_equal(sent, came)


def lost(rank: int, folder: Path) -> Any:
    """Rank 0 lost its messages, as on a disk that is full; rank 1 has them."""
    link = QuantizedLink(forward=8, store=store_of(rank, folder))
    send(link, rank, [1, 2])
    if rank == 0:
        link._store.forget(0)  # type: ignore[union-attr]
    return send(link, rank, [1, 2]).numpy()


def test_what_the_sender_lost_comes_in_full(forked: ForkServerContext, tmp_path: Path) -> None:
    sent, came = run(forked, tmp_path, 2, lost, tmp_path)
    assert np.array_equal(sent, came)


def two_links(rank: int, _folder: Path) -> list[float]:
    """Rank 0 sends over the first link before the second, and rank 1 receives over the second before."""
    links = [QuantizedLink(forward=None, backward=None) for _ in range(2)]
    came = [torch.full((4,), float(number + 1)) for number in range(2)]
    works = [
        dist.isend(came[number], 1, group=links[number])
        if rank == 0
        else dist.irecv(came[number], 0, group=links[number])
        for number in ((0, 1) if rank == 0 else (1, 0))
    ]
    for work in works:
        work.wait()  # type: ignore[union-attr]
    return [float(one[0]) for one in came]


def test_messages_of_two_links_over_one_group_are_apart(forked: ForkServerContext, tmp_path: Path) -> None:
    assert run(forked, tmp_path, 2, two_links, tmp_path)[1] == [1, 2]


def full_disk(rank: int, folder: Path) -> Any:
    """Rank 1 can keep two samples of three; return what came, and how many samples were quantized."""
    store = MessageStore(folder / str(rank), memory=0, bits=32)
    if rank == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (18_000, 18_000))
    link = QuantizedLink(forward=8, store=store)
    for _ in range(3):
        came = send(link, rank, [1, 2, 3], (2000,))
        gradient = torch.ones(3, 2000)
        dist.recv(gradient, 1, group=link) if rank == 0 else dist.send(gradient, 0, group=link)
    forward = [line for line in link.report() if line["direction"] == "forward"]
    return came.numpy(), gradient.numpy(), [line["quantized"] for line in forward]


def test_what_the_receivers_disk_does_not_take_comes_in_full(
    forked: ForkServerContext, tmp_path: Path
) -> None:
    (sent, gradient, quantized), (came, of_gradient, _) = run(forked, tmp_path, 2, full_disk, tmp_path)
    assert quantized == [0, 2, 2]
    assert np.allclose(sent, came, atol=0.01)
    assert np.allclose(gradient, of_gradient, atol=0.2)


def stopped(rank: int, folder: Path) -> None:
    inner = dist.new_group(backend="gloo", timeout=timedelta(seconds=2))
    link, pids = QuantizedLink(inner, store=store_of(rank, folder)), [0, 0]
    dist.all_gather_object(pids, os.getpid())
    send(link, rank, [1, 2])
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        for _ in range(3):
            send(link, rank, [1, 2])
    finally:
        os.kill(pids[1], signal.SIGKILL)


def test_a_rank_that_hangs_is_named_after_the_timeout(forked: ForkServerContext, tmp_path: Path) -> None:
    assert run(forked, tmp_path, 2, stopped, tmp_path)[0].startswith("StorageError: rank 1 is gone, or did")


def shapes_in_turn(rank: int, folder: Path) -> int:
    link, said = QuantizedLink(store=store_of(rank, folder)), QueueHandler(SimpleQueue())
    logging.getLogger("mvcs.train").addHandler(said)
    for shape in ((8, 3), (6, 3)) * 3:
        send(link, rank, [1, 2], shape)
    return said.queue.qsize()  # type: ignore[union-attr]


def test_shapes_in_turn_are_warned_about_once(forked: ForkServerContext, tmp_path: Path) -> None:
    assert run(forked, tmp_path, 2, shapes_in_turn, tmp_path) == [1, 1]


def test_a_group_of_nccl_is_refused(forked: ForkServerContext, tmp_path: Path) -> None:
    assert "cannot use NCCL" in run(forked, tmp_path, 1, over_another_backend, tmp_path)[0]


def over_another_backend(_rank: int, _folder: Path) -> None:
    dist.Backend.register_backend("other", lambda *_: dist.ProcessGroup(0, 1), devices=["cpu"])
    QuantizedLink(dist.new_group(backend="other"), forward=None, backward=None)
