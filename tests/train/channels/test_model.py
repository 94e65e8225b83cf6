"""Two ends of a link against a model of algorithm 1 in numpy: any order, drops, crashes and resumes.

Whenever nothing is raised, both ends hold the same bits, and what is received is what the model says.
"""

import io
from collections.abc import Iterator
from itertools import pairwise
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from numpy.typing import NDArray

from mvcs.channels import MessageStore
from mvcs.errors import MvcsError
from mvcs.train.channels import QuantizedLink

Floats = NDArray[np.float32]

ALL = range(8)  # samples
LAYOUTS = [
    ((5, 3), torch.float32),
    ((4, 3), torch.float32),
    ((6,), torch.bfloat16),
    ((2, 3, 2), torch.float32),
]


class End:
    """One end, in a process that stays: each call is a message to it."""

    def __init__(self, rank: int, folder: Path) -> None:
        self.rank, self.folder, self.states = rank, folder, {}
        self.link: Any = None

    def open(self, options: dict[str, Any], memory: int, bits: int, states: list[int | None]) -> None:
        """Begin as a new process does, from what was committed or from nothing."""
        if self.link is not None:
            self.store.close()
        self.store = MessageStore(self.folder / f"messages-{self.rank}", memory * (1 + self.rank), bits)
        self.link = QuantizedLink(store=self.store, **options)
        if (state := states[self.rank]) is not None:
            self.link.load_state_dict(self.states[state])

    def commit(self, number: int) -> None:
        file = io.BytesIO()
        torch.save(self.link.state_dict(), file)
        self.states[number] = torch.load(io.BytesIO(file.getvalue()), weights_only=False)

    def samples(self, ids: list[int]) -> None:
        self.link.samples(ids)

    def carry(self, tensors: list[torch.Tensor], sender: int, *, evaluates: bool) -> list[torch.Tensor]:
        """Send micro-batches, or receive as many; return what came."""
        with self.link.evaluating() if evaluates else torch.enable_grad():
            if self.rank == sender:
                for tensor in tensors:
                    dist.send(tensor, 1 - sender, group=self.link)
                return []
            came = [torch.empty_like(tensor) for tensor in tensors]
            for tensor in came:
                dist.recv(tensor, sender, group=self.link)
            return came

    def send_and_die(self, ids: list[int], tensor: torch.Tensor) -> None:
        self.link.samples(ids)
        dist.isend(tensor, 1, group=self.link)

    def held(self) -> dict[int, Floats]:
        seen = [one for one in ALL if self.store.seen(0, [one])[0]]
        return dict(zip(seen, self.store.read(0, seen), strict=True)) if seen else {}


def serve(rank: int, folder: Path, calls: Connection) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/ranks", rank=rank, world_size=2)
    end = End(rank, folder)
    while call := calls.recv():
        name, arguments, named = call
        try:
            calls.send(getattr(end, name)(*arguments, **named))
        except MvcsError as error:
            calls.send(f"{type(error).__name__}: {error}")


class Ends:
    """Both ends."""

    def __init__(self, ends: list[Connection]) -> None:
        self.ends = ends

    def __call__(self, name: str, *arguments: Any, only: tuple[int, ...] = (0, 1), **named: Any) -> list[Any]:
        for rank in only:
            self.ends[rank].send((name, arguments, named))
        return [self.answer(self.ends[rank]) for rank in only]

    def answer(self, end: Connection) -> Any:
        assert end.poll(20), "an end hangs"
        return end.recv()


@pytest.fixture(scope="module")
def ends(forked: ForkServerContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ends]:
    folder, here, processes = tmp_path_factory.mktemp("ends"), [], []
    for rank in range(2):
        mine, its = forked.Pipe()
        processes.append(forked.Process(target=serve, args=(rank, folder, its)))
        processes[-1].start()
        its.close()
        here.append(mine)
    yield Ends(here)
    for process in processes:
        process.kill()


def quantized(rows: Floats, bits: int) -> Floats:
    """Section 4.1, from 2 bits on; the scale is a bfloat16, rounded up."""
    largest = np.abs(rows).max(axis=1, initial=0)
    scale = ((largest.view(np.uint32) + 0xFFFF) & 0xFFFF0000).view(np.float32)
    step = np.ldexp(scale, 1 - bits)[:, None]
    half = 2 ** (bits - 1)
    codes = np.divide(rows, step, out=np.zeros_like(rows), where=step > 0)
    return np.clip(np.rint(codes), -half, half - 1) * step


def in_groups(tensor: torch.Tensor) -> Floats:
    """Return [n, ...] as [n, channels, width]."""
    values = tensor.float().numpy()
    if values.ndim == 3:
        return np.ascontiguousarray(values.transpose(0, 2, 1))
    return values.reshape(len(values), values.shape[1] if values.ndim > 3 else 1, -1)


def as_tensor(values: Floats, like: torch.Tensor) -> torch.Tensor:
    if like.dim() == 3:
        values = values.transpose(0, 2, 1)
    return torch.from_numpy(np.ascontiguousarray(values)).reshape(like.shape).to(like.dtype)


def by_group(values: Floats, bits: int) -> Floats:
    return quantized(values.reshape(-1, values.shape[-1]), bits).reshape(values.shape)


class TwoEnds(RuleBasedStateMachine):
    """Rank 0 sends activations to rank 1, which sends gradients back."""

    ends: Ends

    @initialize(
        forward=st.integers(2, 8),
        backward=st.sampled_from([4, 8, None]),
        bits=st.sampled_from([4, 16, 32]),
        renew=st.booleans(),
        entropy=st.booleans(),
        memory=st.sampled_from([0, 200, 100_000]),
    )
    def begin(
        self, forward: int, backward: int | None, bits: int, renew: bool, entropy: bool, memory: int
    ) -> None:
        self.options = {"forward": forward, "backward": backward, "renew": renew, "entropy": entropy}
        self.bits, self.memory, self.batches = bits, memory, 0
        self.commits: list[int] = []
        self.models: dict[int | None, Any] = {None: ((), {}, None, 0, frozenset())}
        self.resume(None, None)

    def resume(self, sender: int | None, receiver: int | None) -> None:
        self.ends("open", self.options, self.memory, self.bits, [sender, receiver])
        self.history, held, self.layout, self.epoch, self.epoch_ids = self.models[sender]
        self.held = dict(held)
        self.agree = self.history == self.models[receiver][0]

    @rule(
        ids=st.lists(st.sampled_from(ALL), min_size=1, max_size=6, unique=True),
        cuts=st.sets(st.integers(1, 5), max_size=2),
        layout=st.sampled_from([0, 0, 0, 1, 2, 3]),
        scale=st.sampled_from([0.1, 3.0]),
        commits=st.booleans(),
    )
    def batch(self, ids: list[int], cuts: set[int], layout: int, scale: float, commits: bool) -> None:
        """Carry a batch in micro-batches, and its gradients back; both ends may commit then."""
        self.batches += 1
        shape, dtype = LAYOUTS[layout]
        random = torch.Generator().manual_seed(self.batches)
        base = torch.randn(8, *shape, generator=torch.Generator().manual_seed(0))
        a = (base[ids] + scale * torch.randn(len(ids), *shape, generator=random)).to(dtype)
        places = [0, *sorted(cut for cut in cuts if cut < len(ids)), len(ids)]
        parts = [(ids[i:j], a[i:j]) for i, j in pairwise(places)]
        self.ends("samples", ids)
        if not self.agree:
            _, came = self.ends("carry", [parts[0][1]], 0, evaluates=False)
            assert "sends other samples along edge 0" in came
            newest = self.commits[-1] if self.commits else None
            self.resume(newest, newest)
            return
        sent, came = self.ends("carry", [part for _, part in parts], 0, evaluates=False)
        assert not isinstance(sent, str), sent
        assert not isinstance(came, str), came
        self.history = (*self.history, self.batches)
        if self.layout != layout:
            self.held, self.layout = {}, layout
        for (names, part), got in zip(parts, came, strict=True):
            assert torch.equal(got, self.restored(names, part))
        if not self.epoch_ids.isdisjoint(ids):
            self.epoch, self.epoch_ids = self.epoch + 1, frozenset()
        self.epoch_ids |= frozenset(ids)
        back, _ = self.ends("carry", [part for _, part in parts], 1, evaluates=False)
        bits = self.options["backward"]
        for (_, part), got in zip(parts, back, strict=True):
            values = in_groups(part)
            assert torch.equal(
                got, as_tensor(by_group(values, bits) if bits and self.epoch else values, part)
            )

        if commits:
            number = len(self.commits)
            self.ends("commit", number)
            self.commits.append(number)
            self.models[number] = self.history, dict(self.held), self.layout, self.epoch, self.epoch_ids

    def restored(self, ids: list[int], a: torch.Tensor) -> torch.Tensor:
        """Algorithm 1: what the receiver computes with; both ends keep it, rounded."""
        values = in_groups(a)
        for index, sample in enumerate(ids):
            if (m := self.held.get(sample)) is not None:
                change = values[index] - m
                if not self.options["renew"] or np.linalg.norm(change) <= np.linalg.norm(values[index]):
                    values[index] = m + quantized(change, self.options["forward"])
            m = values[index].copy()
            self.held[sample] = m if self.bits == 32 else quantized(m, self.bits)
        return as_tensor(values, a)

    @precondition(lambda self: self.agree)
    @rule(seed=st.integers(0, 99))
    def evaluate(self, seed: int) -> None:
        a = torch.randn(3, 5, 3, generator=torch.Generator().manual_seed(seed))
        _, (came,) = self.ends("carry", [a], 0, evaluates=True)
        assert torch.equal(came, a)

    @rule(data=st.data(), alone=st.booleans())
    def crash(self, data: st.DataObject, alone: bool) -> None:
        """Both processes end, whichever died; they resume from one commit, or each from one of its own."""
        commits = st.sampled_from([None, *self.commits])
        sender = data.draw(commits)
        self.resume(sender, data.draw(commits) if alone else sender)

    @rule()
    def two_runs(self) -> None:
        """From one commit two runs come to the same step; each end resumes from another of them."""
        newest = self.commits[-1] if self.commits else None
        for _ in range(2):
            self.resume(newest, newest)
            self.batch([1, 2], set(), 0, 0.1, commits=True)
        self.resume(*self.commits[-2:])

    @rule(ids=st.lists(st.sampled_from(ALL), min_size=1, max_size=6, unique=True))
    def crash_in_a_step(self, ids: list[int]) -> None:
        """The receiver never gets what was sent."""
        self.ends("send_and_die", ids, torch.ones(len(ids), 5, 3), only=(0,))
        newest = self.commits[-1] if self.commits else None
        self.resume(newest, newest)

    @precondition(lambda self: self.agree)
    @invariant()
    def both_hold_what_the_model_does(self) -> None:
        for held in self.ends("held"):
            assert held.keys() == self.held.keys()
            for sample, expected in self.held.items():
                assert np.array_equal(held[sample], expected)


@pytest.mark.parametrize("examples", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_two_ends_do_what_the_model_says(ends: Ends, examples: int) -> None:
    machine = type("Machine", (TwoEnds,), {"ends": ends})
    few = settings(
        max_examples=examples,
        stateful_step_count=15,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    run_state_machine_as_test(machine, settings=few)
