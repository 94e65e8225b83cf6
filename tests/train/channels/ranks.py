"""Real processes on loopback that train together: each runs a function and tells what it came to."""

import io
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

_LONGEST = 60  # seconds


def run(
    forked: ForkServerContext, folder: Path, world: int, work: Callable[..., Any], *arguments: Any
) -> list[Any]:
    """What `work(rank, *arguments)` returned on each rank, or the text of what it raised, with its hint.

    It is None of a rank that was killed, and "hangs" of one that did not end.
    """
    folder.mkdir(exist_ok=True)
    store = folder / f"store-{len(list(folder.iterdir()))}"
    ends, processes = [], []
    for rank in range(world):
        here, there = forked.Pipe()
        task = (there, store, rank, world, work, _packed(arguments))
        processes.append(forked.Process(target=_rank, args=task))
        processes[-1].start()
        there.close()
        ends.append(here)
    found = []
    for end, process in zip(ends, processes, strict=True):
        if not end.poll(_LONGEST):
            process.kill()
            found.append("hangs")
        else:
            try:
                found.append(_unpacked(end.recv_bytes()))
            except EOFError:
                found.append(None)
        process.join()
    return found


def _rank(
    end: Connection, store: Path, rank: int, world: int, work: Callable[..., Any], arguments: bytes
) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(str(store), world), rank=rank, world_size=world)
    try:
        end.send_bytes(_packed(work(rank, *_unpacked(arguments))))
    except Exception as error:  # noqa: BLE001  # it is the answer
        said = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
        end.send_bytes(_packed(" ".join(said)))


def _packed(value: object) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def _unpacked(data: bytes) -> Any:
    return torch.load(io.BytesIO(data), weights_only=False)
