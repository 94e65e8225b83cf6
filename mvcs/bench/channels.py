"""Training in stages over links that send few bits (AQ-SGD, arXiv 2206.01299): losses, bytes, speed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Self, cast

import numpy as np
import torch

from mvcs.bench.ledger import Ledger
from mvcs.bench.networks import NoNetworkError, bits_a_second, slow_network
from mvcs.bench.pipeline import MICRO_BATCHES, train_stages
from mvcs.bench.runs.run_maker import one_thread
from mvcs.bench.runs.tasks import Cosine
from mvcs.bench.tasks.next_byte import SMALL, FinetuneTask, GptTask, Sizes, last_weights
from mvcs.errors import ConflictError, FileFormatError, UsageError
from mvcs.local_files import scratch_folder
from mvcs.progress import Progress
from mvcs.reports import Report

FLOAT32 = "float32"
_FOLDER, _PLAN, _ARM = "channels", "plan", "arm-"
_NAME = re.compile(r"(?:float32|(direct|aq):(\d+):(\d+)(?::m(\d+))?)(?::([ga])(\d+))?")
_STORED = (2, 4, 8, 16, 32)
_SCRATCH = Cosine(peak=1e-3, floor=0.0, warm=15)
_FINETUNE = Cosine(peak=2e-4, floor=0.0, warm=15)
_TIMED = 8  # batches of an epoch that is timed over a slow link


@dataclass(frozen=True)
class Arm:
    """What the links of an arm send.

    Attributes:
        name: as it was written: float32, direct:F:B or aq:F:B for bits of activations and gradients; :mZ for
            messages stored in Z bits; :gN for gradients of replicas in N bits, :aN for 1-bit Adam's moments.
        kind: of activations: float32, direct or aq.
        forward: bits of an activation; None for float32.
        backward: bits of its gradient.
        stored: bits of a stored message.
        gradients: bits of what replicas average; None for gradients in float32.
        adam: whether QuantizedAdam averages.
    """

    name: str
    kind: str
    forward: int | None
    backward: int | None
    stored: int
    gradients: int | None
    adam: bool

    @classmethod
    def of(cls, name: str) -> Self:
        """Read an arm.

        Raises:
            UsageError: there is no such arm.
        """
        found = _NAME.fullmatch(name)
        hint = "give one such as float32, direct:2:4, aq:2:4, aq:2:4:m8 or aq:3:6:g4"
        if found is None or (found[4] and (found[1] != "aq" or int(found[4]) not in _STORED)):
            raise UsageError(f"there is no arm '{name}'", hint=hint)
        forward, backward, stored, gradients = (int(one) if one else None for one in found.group(2, 3, 4, 6))
        for bits in (forward, backward, gradients):
            if bits is not None and not 1 <= bits <= 8:
                raise UsageError(f"'{name}' cannot send {bits} bits a value", hint="give 1 to 8")
        return cls(name, found[1] or FLOAT32, forward, backward, stored or 16, gradients, found[5] == "a")


@dataclass(frozen=True)
class ChannelsPlan:
    """How all arms are trained.

    Attributes:
        stages: of the pipeline, each a process.
        replicas: of the pipeline.
        pieces: of text, the same in each epoch and in another order.
        epochs: over all pieces.
        batch: pieces of a step, of all replicas together.
        seed: of weights, pieces and their order.
    """

    stages: int = 2
    replicas: int = 1
    pieces: int = 256
    epochs: int = 10
    batch: int = 16
    seed: int = 0


@dataclass(frozen=True)
class LinkSpeed(Report):
    """What an arm does over links of a limited rate.

    Attributes:
        rate: of what each process sends, such as 100mbit.
        bits_a_second: the same as a number.
        steps_a_second: after the first epoch.
        wire: seconds a micro-batch of the process that sends most, at that rate.
        how: "real" where processes were in network namespaces with such links; else "computed": the larger
            of a step's seconds without limit and those of its bytes.
    """

    rate: str
    bits_a_second: float
    steps_a_second: float
    wire: float
    how: str


@dataclass(frozen=True)
class ArmResult(Report):
    """What an arm came to.

    Attributes:
        arm: its name.
        loss: mean over the pieces of each epoch, in nats a byte.
        forward: bytes sent forward in each epoch, headers and scales among them.
        backward: bytes sent back.
        forward_bits: bits a value of the last epoch.
        backward_bits: likewise.
        averaged: bytes sent to average gradients of replicas in all epochs; where torch does that, those of
            its all-reduce as computed.
        error: of the activations of the last epoch at each edge, |a-m'|/|a|; None where they go in float32.
        steps_a_second: over loopback, the median of the epochs after the first.
        busiest: bytes a step of the process that sends most, in the last epoch.
        compute: seconds of the processor a micro-batch, of the stage that takes longest.
        coding: seconds a micro-batch of quantizing, packing and storing, likewise.
        memory: bytes of messages in memory, of all processes.
        disk: bytes of messages on disk.
        peak: bytes of memory of the largest process.
        edges: what the links report, by epoch, edge and direction.
        links: of limited rates.
    """

    arm: str
    loss: list[float]
    forward: list[int]
    backward: list[int]
    forward_bits: float
    backward_bits: float
    averaged: int
    error: list[float | None]
    steps_a_second: float
    busiest: float
    compute: float
    coding: float
    memory: int
    disk: int
    peak: int
    edges: list[dict[str, Any]]
    links: list[LinkSpeed]

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(**{**row, "links": [LinkSpeed(**one) for one in row["links"]]})


@dataclass(frozen=True)
class ChannelsReport(Report):
    """The arms of an output folder.

    Attributes:
        plan: how they were trained: the fields of `ChannelsPlan`, and "task".
        arms: float32 first.
    """

    plan: dict[str, Any]
    arms: list[ArmResult]

    @classmethod
    def of(cls, out: Path) -> Self | None:
        """Read an output folder; None where no arm is."""
        ledger = Ledger(out / _FOLDER, {})
        names = sorted(path.stem for path in ledger.folder.glob(f"{_ARM}*.json"))
        rows = [row for row in map(ledger.known, names) if row is not None]
        plan = ledger.known(_PLAN)
        arms = sorted(map(ArmResult.read, rows), key=lambda one: (one.arm != FLOAT32, one.arm))
        return cls(plan, arms) if plan and arms else None


def channels_task(base: Path | None) -> GptTask:
    """Return a GPT of 0.9 million parameters to be trained from scratch, or one that was, to be fine-tuned.

    Args:
        base: the folder of a run of a GPT of float32 weights, such as those of gpt and muon.

    Raises:
        NotFoundError, ConflictError, FileFormatError: as `last_weights` says.
    """
    if base is None:
        return GptTask(sizes=SMALL, schedule=_SCRATCH)
    weights = last_weights(base)
    float32 = all(one.dtype == torch.float32 for one in weights.values())
    if not float32 or not {"tok.weight", "pos.weight"} <= weights.keys():
        raise FileFormatError(
            f"the run in '{base}' is not one of a GPT of float32 weights",
            hint="name the folder of a run of gpt or muon that 'mvcs bench make' made",
        )
    layers = len({name.split(".")[1] for name in weights if name.startswith("blocks.")})
    sizes = Sizes(weights["tok.weight"].shape[1], layers, Sizes.heads, len(weights["pos.weight"]))
    return FinetuneTask(base=base, sizes=sizes, schedule=_FINETUNE)


def run_channels(
    task: GptTask,
    names: Sequence[str],
    rates: Sequence[str],
    out: Path,
    plan: ChannelsPlan,
    *,
    progress: Progress,
) -> ChannelsReport:
    """Train each arm from the same weights on the same pieces, unless the output folder has it.

    Args:
        task: gives the model, its rates and the text.
        names: of arms.
        rates: of links that steps are timed over, such as 100mbit.
        out: the folder of the ledger.
        plan: how arms are trained.
        progress: shows how many arms are done.

    Raises:
        UsageError: there is no such arm or rate, the model has too few layers for so many stages, or pieces
            do not fit batches, replicas or the text.
        ConflictError: the folder has arms of another plan.
        EvaluationError: a stage failed.
    """
    arms = [Arm.of(name) for name in dict.fromkeys(names)]
    limits = {rate: bits_a_second(rate) for rate in dict.fromkeys(rates)}
    _check(task, arms, plan)
    decided = about(task, plan)
    ledger = Ledger(out / _FOLDER, {})
    ledger.folder.mkdir(parents=True, exist_ok=True)
    if (known := ledger.known(_PLAN)) not in (None, decided):
        differing = ", ".join(name for name in decided if known.get(name) != decided[name])
        raise ConflictError(
            f"'{out}' has arms that were trained otherwise: {differing}",
            hint="name another folder with --out, or give the options of those arms",
        )
    ledger.keep(_PLAN, decided)
    progress.start("training arms", len(arms), "arms")
    for arm in arms:
        with scratch_folder(out) as scratch:
            _measure(task, arm, limits, ledger, plan, scratch, progress)
        progress.advance(1)
    progress.finish()
    return cast("ChannelsReport", ChannelsReport.of(out))


def about(task: GptTask, plan: ChannelsPlan) -> dict[str, Any]:
    """Return what decides the bits of all arms."""
    own = {"task": task.name, "data": task.data, "sizes": asdict(task.sizes), "schedule": repr(task.schedule)}
    return {**asdict(plan), **own}


def _check(task: GptTask, arms: Sequence[Arm], plan: ChannelsPlan) -> None:
    if not arms:
        raise UsageError("no arm is named", hint="give --arms float32,aq:2:4")
    if not 2 <= plan.stages <= task.sizes.layers:
        raise UsageError(
            f"a model of {task.sizes.layers} layers cannot have {plan.stages} stages",
            hint=f"give 2 to {task.sizes.layers}",
        )
    if plan.batch % (MICRO_BATCHES * plan.replicas) or plan.pieces % plan.batch:
        raise UsageError(
            f"{plan.pieces} pieces cannot be cut into batches of {plan.batch}, and these into {MICRO_BATCHES}"
            f" micro-batches for each of {plan.replicas} replicas",
            hint="let --pieces be a multiple of --batch, and that one of micro-batches times replicas",
        )
    there = len(task.corpus.train) // (task.context + 1)
    if plan.pieces > there:
        raise UsageError(f"the text has {there} pieces, not {plan.pieces}", hint="give fewer --pieces")
    for arm in arms:
        if arm.gradients and plan.replicas == 1:
            raise UsageError(f"'{arm.name}' averages gradients of replicas", hint="give --replicas 2")


def _measure(
    task: GptTask,
    arm: Arm,
    limits: Mapping[str, float],
    ledger: Ledger,
    plan: ChannelsPlan,
    scratch: Path,
    progress: Progress,
) -> None:
    """Train an arm and time it over links, unless the ledger has that."""
    name = _ARM + arm.name.replace(":", "-")
    row = ledger.known(name)
    if row is None:
        ranks = train_stages(_work(task, arm, plan), scratch / "all", [[]] * plan.stages * plan.replicas)
        row = _result(arm, plan, ranks).to_json()
        ledger.keep(name, row)
    result = ArmResult.read(row)
    progress.note(f"{arm.name}: loss {result.loss[-1]:.4f} in the last epoch")
    for rate in [rate for rate in limits if rate not in {one.rate for one in result.links}]:
        wire = 8 * result.busiest / limits[rate]
        try:
            speed = _timed(task, arm, plan, rate, scratch / rate)
            how = "real"
        except NoNetworkError as error:
            progress.note(f"{arm.name} over {rate} is computed: {error.message}")
            speed, how = 1 / max(1 / result.steps_a_second, wire), "computed"
        link = LinkSpeed(rate, limits[rate], speed, wire / MICRO_BATCHES, how)
        result = replace(result, links=[*result.links, link])
        ledger.keep(name, result.to_json())
        progress.note(f"{arm.name} over {rate}: {speed:.2f} steps a second, {how}")


def _timed(task: GptTask, arm: Arm, plan: ChannelsPlan, rate: str, folder: Path) -> float:
    """Return the steps a second of an epoch over a real link, behind one whose activations go in full."""
    short = replace(plan, pieces=min(plan.pieces, _TIMED * plan.batch), epochs=2)
    with slow_network(plan.stages * plan.replicas, rate) as prefixes:
        return _steps_a_second(train_stages(_work(task, arm, short), folder, prefixes), short)


def _steps_a_second(ranks: Sequence[Mapping[str, Any]], plan: ChannelsPlan) -> float:
    slowest: list[float] = [max(epoch) for epoch in zip(*(rank["seconds"] for rank in ranks), strict=True)]
    return plan.pieces / plan.batch / median(slowest[1:] or slowest)


def _work(task: GptTask, arm: Arm, plan: ChannelsPlan) -> dict[str, Any]:
    """Return what all processes of an arm are given: the same for every arm, but for the arm."""
    drawn, width = np.random.default_rng(plan.seed), task.context + 1
    starts = drawn.permutation(len(task.corpus.train) // width)[: plan.pieces] * width
    pieces = np.stack([task.corpus.train[start : start + width] for start in starts]).astype(np.int64)
    # A replica has the same pieces in each epoch: messages of others are not held there.
    own = np.arange(plan.pieces).reshape(plan.replicas, -1)
    order = [drawn.permuted(own, axis=1).reshape(plan.replicas, -1, plan.batch // plan.replicas)]
    order += [drawn.permuted(own, axis=1).reshape(order[0].shape) for _ in range(plan.epochs - 1)]
    steps = plan.epochs * plan.pieces // plan.batch
    with one_thread(plan.seed):
        weights = task.model().state_dict()
    return {
        "arm": asdict(arm),
        "stages": plan.stages,
        "epochs": plan.epochs,
        "sizes": asdict(task.sizes),
        "model": weights,
        "pieces": torch.from_numpy(pieces),
        "order": torch.from_numpy(np.concatenate(order, axis=1)).transpose(0, 1),
        "rates": [task.schedule.rate(step, steps) for step in range(steps)],
    }


def _result(arm: Arm, plan: ChannelsPlan, ranks: Sequence[Mapping[str, Any]]) -> ArmResult:
    edges, last = [line for one in ranks for line in one["edges"]], plan.epochs - 1

    def total(what: str, **where: object) -> int:
        return sum(line[what] for line in edges if where.items() <= line.items())

    def error(edge: int) -> float | None:
        if arm.forward is None:
            return None
        where = {"edge": edge, "epoch": last, "direction": "forward"}
        return total("error", **where) / plan.replicas

    ways: dict[str, Any] = {
        way: [total("bytes", epoch=epoch, direction=way) for epoch in range(plan.epochs)]
        for way in ("forward", "backward")
    }
    values = {way: total("values", epoch=last, direction=way) for way in ways}
    sent = [
        total("bytes", epoch=last, rank=rank) + one["averaged"] / plan.epochs
        for rank, one in enumerate(ranks)
    ]
    losses = [rank["loss"] for rank in ranks[plan.stages - 1 :: plan.stages]]
    most = {what: max(rank[what] for rank in ranks) for what in ("compute", "coding", "peak")}
    sums = {what: sum(rank[what] for rank in ranks) for what in ("averaged", "memory", "disk")}
    return ArmResult(
        arm=arm.name,
        loss=[sum(epoch) / len(losses) for epoch in zip(*losses, strict=True)],
        **ways,
        forward_bits=8 * ways["forward"][-1] / values["forward"],
        backward_bits=8 * ways["backward"][-1] / values["backward"],
        error=[error(edge) for edge in range(plan.stages - 1)],
        steps_a_second=_steps_a_second(ranks, plan),
        busiest=max(sent) * plan.batch / plan.pieces,
        **most,
        **sums,
        edges=edges,
        links=[],
    )
