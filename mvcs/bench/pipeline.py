"""A GPT trained in stages, each a process over gloo, whose links send float32 or few bits (torch's 1F1B)."""

import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from mvcs.bench.data.text import Corpus
from mvcs.bench.networks import INTERFACE
from mvcs.bench.tasks.next_byte import Gpt, GptTask, Sizes
from mvcs.channels import MessageStore
from mvcs.errors import EvaluationError, MvcsError
from mvcs.train.channels import QuantizedAdam, QuantizedGradients, QuantizedLink

MICRO_BATCHES = 4
"""Of a batch of a replica."""
_WORK = "work.pt"
_FROZEN = 6  # QuantizedAdam averages gradients exactly in a sixth of all steps
_PROGRAM = "from mvcs.bench.pipeline import stage; stage()"


def train_stages(
    work: Mapping[str, Any], folder: Path, prefixes: Sequence[Sequence[str]]
) -> list[dict[str, Any]]:
    """Train in a process for each stage of each replica, and return what each came to.

    Args:
        work: "arm", "stages", "sizes" and "model" of the GPT, "pieces" int64 [pieces, context + 1], their
            numbers as "order" [steps, replicas, pieces of a batch], and "rates" of all steps; "epochs".
        folder: for files of the processes.
        prefixes: what the command of each process begins with: those of a network, or nothing for loopback.

    Raises:
        EvaluationError: a process ended too early; all others were ended then.
    """
    folder.mkdir(parents=True)
    torch.save(dict(work), folder / _WORK)
    logs, processes = [folder / f"{rank}.log" for rank in range(len(prefixes))], list[Any]()
    try:
        for rank, prefix in enumerate(prefixes):
            interface = f"GLOO_SOCKET_IFNAME={INTERFACE if prefix else 'lo'}"
            command = [*prefix, "env", interface, "OMP_NUM_THREADS=1", sys.executable, "-c", _PROGRAM]
            # stdin ends with this process, and then the stage ends itself; Ctrl-C is for this process alone.
            piped = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "start_new_session": True}
            with logs[rank].open("w") as errors:
                words = [*command, str(folder), str(rank), str(len(prefixes))]
                processes.append(subprocess.Popen(words, stderr=errors, **piped))  # type: ignore[call-overload] # noqa: S603
        pool = ThreadPoolExecutor(len(processes))
        ranks = {pool.submit(process.wait): rank for rank, process in enumerate(processes)}
        for ended in as_completed(ranks):  # what fails first is what the others then miss
            if code := ended.result():
                rank, name = ranks[ended], work["arm"]["name"]
                last = logs[rank].read_text(errors="replace").strip().rpartition("\n")[2] or "it said nothing"
                raise EvaluationError(f"rank {rank} of {name} ended with exit code {code}: {last}")
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return [json.loads((folder / f"{rank}.json").read_bytes()) for rank in range(len(prefixes))]


class _Stage(nn.Module):
    """What one stage computes of a GPT: a run of its blocks, and at the ends the tables."""

    def __init__(self, model: Gpt, number: int, stages: int) -> None:
        super().__init__()
        cuts = [len(model.blocks) * place // stages for place in (number, number + 1)]
        self.blocks = model.blocks[slice(*cuts)]
        self.begin = nn.ModuleList([model.tok, model.pos] if number == 0 else [])
        self.end = nn.Sequential(*([model.lnf, model.head] if number == stages - 1 else []))

    def forward(self, x: Tensor) -> Tensor:
        """Return the next stage's input [pieces, context, width], or logits [pieces, context, 256]."""
        if self.begin:
            tok, pos = self.begin
            x = tok(x) + cast("Tensor", pos.weight)
        for block in self.blocks:
            x = block(x)
        return cast("Tensor", self.end(x))


def stage() -> None:
    """Train the stage that the command line names, and write down what it came to."""
    folder, rank, world = Path(sys.argv[1]), *map(int, sys.argv[2:])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=(folder.resolve() / "ranks").as_uri(), rank=rank, world_size=world
    )
    try:
        found = _train(torch.load(folder / _WORK, weights_only=True), folder, rank, world)
    except MvcsError as error:
        sys.exit(error.message)  # the last line says what is wrong
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def _train(work: Mapping[str, Any], folder: Path, rank: int, world: int) -> dict[str, Any]:
    """Train one stage of one replica through all epochs, and return what it came to."""
    arm, sizes, stages, epochs = work["arm"], Sizes(**work["sizes"]), work["stages"], work["epochs"]
    replica, number = divmod(rank, stages)
    replicas = world // stages
    model = Gpt(sizes)
    model.load_state_dict(work["model"])
    module: nn.Module = _Stage(model, number, stages)
    # Every process takes part in making every group.
    lines = [dist.new_group(list(range(at, at + stages))) for at in range(0, world, stages)]
    sides = [dist.new_group(list(range(at, world, stages))) for at in range(stages)]
    order = work["order"][:, replica]
    text = Corpus(np.zeros(0, np.uint8), np.zeros(0, np.uint8))  # the pieces are given
    optimizer = GptTask(corpus=text).optimizer(module)
    weights = sum(one.numel() for one in module.parameters())
    averaging: QuantizedAdam | QuantizedGradients | None = None
    if arm["adam"]:
        groups = [
            {name: one[name] for name in ("params", "betas", "weight_decay")}
            for one in optimizer.param_groups
        ]
        warmup = max(len(order) // _FROZEN, 1)
        averaging = optimizer = QuantizedAdam(
            groups, warmup=warmup, bits=arm["gradients"], group=sides[number]
        )
    if replicas > 1:
        module = DistributedDataParallel(module, process_group=sides[number])
        if arm["gradients"] and averaging is None:
            averaging = QuantizedGradients(arm["gradients"], module, sides[number])
        if averaging is not None:
            module.register_comm_hook(averaging, type(averaging).hook)
    store = None
    if arm["kind"] == "aq":
        pieces = len(work["pieces"]) // replicas
        store = MessageStore(folder / f"messages-{rank}", bits=arm["stored"], samples=pieces)
    bits, direct = {way: arm[way] for way in ("forward", "backward")}, arm["kind"] == "direct"
    link = QuantizedLink(lines[replica], **bits, store=store, direct=direct)
    part = PipelineStage(module, number, stages, torch.device("cpu"), group=link)
    # QuantizedAdam wants gradients that nobody scales: the loss is a share of the batch's.
    schedule = Schedule1F1B(part, MICRO_BATCHES, loss_fn=_share, scale_grads=False)
    losses, seconds, busy, steps = list[float](), list[float](), 0.0, len(order) // epochs
    for step, ids in enumerate(order):
        if step % steps == 0:
            dist.barrier()
            began = time.perf_counter()
        link.samples(ids)
        for group in optimizer.param_groups:
            group["lr"] = work["rates"][step]
        computing, given = time.thread_time(), work["pieces"][ids]
        if number < stages - 1:
            schedule.step(*([given[:, :-1]] if number == 0 else []))
        else:
            found = list[Tensor]()
            schedule.step(target=given[:, 1:], losses=found)
            losses += [one.item() for one in found]
        busy += time.thread_time() - computing
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % steps == 0:
            dist.barrier()
            seconds.append(time.perf_counter() - began)
    edges, batches = link.report(), MICRO_BATCHES * len(order)
    memory, disk = store.reserved if store else (0, 0)
    coding = sum(float(str(line["seconds"])) for line in edges)
    return {
        "loss": (MICRO_BATCHES * torch.tensor(losses).reshape(epochs, -1).mean(1)).tolist(),
        "seconds": seconds,
        "compute": (busy - coding) / batches,
        "coding": coding / batches,
        "edges": [{"rank": rank, **line} for line in edges if line["direction"] in ("forward", "backward")],
        # An all-reduce of float32 sends twice the share of the others.
        "averaged": averaging.sent if averaging else 8 * weights * (replicas - 1) // replicas * len(order),
        "memory": memory,
        "disk": disk,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _share(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean loss in nats a byte, over the number of micro-batches."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten()) / MICRO_BATCHES
