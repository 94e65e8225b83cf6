"""A process group between the stages of a pipeline: activations as quantized changes, gradients quantized.

AQ-SGD (Wang et al. 2022, arXiv:2206.01299), algorithms 1 and 2. The bytes are in docs/format/channels.md.
"""

import json
import logging
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from math import sqrt
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import ArrayLike, NDArray

from mvcs.channels import (
    HEADER_BYTES,
    Flag,
    Header,
    Kind,
    MessageStore,
    Quantizer,
    checksum_of_ids,
)
from mvcs.errors import CorruptionError, StorageError, UsageError, one_of, whole

if TYPE_CHECKING:
    from mvcs.repository import Repository

_logger = logging.getLogger("mvcs.train")

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Ids = NDArray[np.int64]
Tally = dict[str, float]
Peer = tuple[int, int]  # a rank, and the caller's tag
Route = tuple[int, bool]  # an edge, and whether activations go along it

_TAGS = 1 << 16  # the tags of a link begin at a multiple of this; the caller's are below half of it
_links: Counter[str] = Counter()  # by the name of the group inside, so far
_FLOAT16_MOST = torch.finfo(torch.float16).max
_HANDSHAKE = 4096  # bytes at most
_BOUND = sqrt(0.5)  # of c_Q, in theorem 3.1
_RETURN = (
    "resume all from commits of one step (link.align(repo, branch) finds it), or begin with empty stores on "
    "all"
)
_IDS = (
    "return the index from the dataset beside its item, and call link.samples(ids) before schedule.step; "
    "evaluate under torch.no_grad() or link.evaluating(); "
    "where a rank has several stages, call link.follow(schedule)"
)


class QuantizedLink(dist.ProcessGroup):
    """A process group for `PipelineStage(group=link)`, whose sends and receives of floats are compressed.

    When a sample crosses an edge for the first time, its activation goes in full and both ends keep it. From
    then on they exchange the quantized difference from what they keep. Edge e is between stages e and e+1.
    Integers, and all that is no send or receive, are left to the group inside.

    Args:
        inner: the group that carries the bytes, gloo on CPU; by default the default group.
        forward: bits a value of an activation; None sends activations as they are.
        backward: bits a value of a gradient; None sends gradients as they are.
        store: what keeps the last message of each sample; each rank has its own.
        direct: quantize activations, not their changes ("DirectQ"); needs no store.
        warmup: epochs in which gradients go in full, where there is a store. An epoch ends when a sample
            comes again.
        renew: send a sample in full again when it changed by more than its own size.
        group: values that share a scale: a channel of one "sample", or of the whole "batch". The channel
            is dimension 1 of four and more, else the last; [n, m] has one scale a sample.
        backward_share: of the values of gradients, those largest in magnitude, that are sent.
        stochastic: round up or down at random, so that the expectation is the value.
        entropy: codes go through the entropy coder.
        crops: for `samples(ids, views)`: the pixels of a side of what is cropped from padded pictures, and
            the largest offset, as (28, 8) for 28 of 36.

    Raises:
        UsageError: a setting is out of range, or the group inside is not gloo.
    """

    def __init__(
        self,
        inner: dist.ProcessGroup | None = None,
        *,
        forward: int | None = 2,
        backward: int | None = 4,
        store: MessageStore | None = None,
        direct: bool = False,
        warmup: int = 1,
        renew: bool = False,
        group: Literal["sample", "batch"] = "sample",
        backward_share: float = 1.0,
        stochastic: bool = False,
        entropy: bool = False,
        crops: tuple[int, int] | None = None,
    ) -> None:
        self._inner = inner or cast("dist.ProcessGroup", dist.group.WORLD)
        ranks = dist.get_process_group_ranks(self._inner)
        super().__init__(self._inner.rank(), len(ranks))  # type: ignore[call-arg]
        if "gloo" not in dist.get_backend_config(self._inner):
            raise UsageError(
                "a link cannot use NCCL: torch does not coalesce operations of a Python group, and sends and "
                "receives that are not coalesced may wait for each other",
                hint="give a group of gloo: dist.new_group(backend='gloo')",
            )
        one_of("group", group, ("sample", "batch"))
        whole("warmup", warmup, "give a number of epochs", least=0)
        if store is not None and not isinstance(store, MessageStore):
            raise UsageError(f"a store cannot be {store!r}", hint="store=MessageStore(FOLDER)")
        if store is None and forward is not None and not direct:
            raise UsageError(
                "a link that sends changes needs a store", hint="store=MessageStore(FOLDER), or direct=True"
            )
        if store is not None and (direct or forward is None):
            raise UsageError(
                "a link that sends activations themselves takes no store",
                hint="leave out store=, or send changes: forward=2 without direct=True",
            )
        self._settings: dict[str, object] = {
            "forward": forward, "backward": backward, "direct": direct, "warmup": warmup, "renew": renew,
            "group": group, "backward_share": backward_share, "stochastic": stochastic, "entropy": entropy,
            "store": store.bits if store else None, "crops": list(crops) if crops else None,
        }  # fmt: skip
        self._forward = None if forward is None else Quantizer(forward, stochastic, entropy)
        self._backward = (
            None if backward is None else Quantizer(backward, stochastic, entropy, backward_share)
        )
        self._store, self._warmup, self._renew, self._by_batch = store, warmup, renew, group == "batch"
        self._crops = crops
        self._order: list[Route] = []
        self._evaluating = False
        self._step = self._epoch = self._sends = 0
        self._epoch_ids: set[int] = set()
        self._named: set[int] = set()
        self._ids: Ids | None = None
        self._offsets: dict[int, tuple[int, int]] = {}  # of the crops of this step
        self._carried: Counter[Route] = Counter()  # samples of this step, so far
        self._layouts: dict[str, str] = {}
        self._warned: set[tuple[int, str]] = set()
        # Of each edge the checksum of the last activation's header, which covers that of the one before.
        self._history: dict[str, int] = {}
        self._greeted: set[Peer] = set()
        self._headers: dict[Peer, deque[tuple[torch.Tensor, dist.Work]]] = defaultdict(deque)
        self._expected: dict[Peer, deque[_Received]] = defaultdict(deque)
        self._sent: deque[tuple[int, dist.Work, torch.Tensor]] = deque()
        # What one link was sent must not reach the next.
        _links[self._inner.group_name] += 1
        self._tags = _links[self._inner.group_name] * _TAGS
        self._tallies: dict[tuple[int, int, str], Tally] = defaultdict(lambda: defaultdict(float))
        # The public way to have torch know the ranks of a group.
        dist.Backend.register_backend("quantized_link", lambda *_: self, devices=["cpu"])
        dist.new_group(ranks, backend="quantized_link", use_local_synchronization=True)

    def samples(self, ids: Iterable[int] | torch.Tensor, views: ArrayLike | None = None) -> None:
        """Name the samples of the next step: on every rank, before `schedule.step`.

        Args:
            ids: whole numbers [n], one for each sample of the whole batch, in its order.
            views: how each is augmented, with `crops`: int [n, 3], whether it is flipped (0 or 1), and the
                top and left pixel of its crop in the padded, then flipped picture. A flipped sample has a
                message of its own. Messages are of padded pictures, and a crop [c, h, w] reads and writes
                its part, at the nearest pixels of the activation. Others than [c, h, w] have one message.

        Raises:
            UsageError: an id is repeated, views are out of range or missing, or the last step carried fewer
                samples than were named.
            StorageError: another rank is gone.
        """
        self._flush()
        if self._store and not self._step:
            _logger.info("the link holds no messages: the first pass over the samples goes in full")
        if not isinstance(ids, Iterable):
            raise UsageError(f"ids cannot be {ids!r}", hint="give one for each sample of the batch")
        numbers = [whole("the id of a sample", id_, _IDS, least=-(1 << 63)) for id_ in ids]
        if max(numbers, default=0) >= 1 << 63:
            raise UsageError(f"the id of a sample cannot be {max(numbers)}", hint="use ids below 2**63")
        found = np.array(numbers, np.int64)
        values, counts = np.unique(found, return_counts=True)
        if (counts > 1).any():
            raise UsageError(
                f"sample {values[counts > 1][0]} is twice in a batch", hint="name each sample once"
            )
        keys = found if self._crops is None and views is None else self._view(found, np.asarray(views))
        for (edge, _), carried in self._carried.items():
            if self._ids is not None and carried != len(self._ids):
                raise UsageError(
                    f"edge {edge} carried {carried} of the {len(self._ids)} samples of step {self._step}",
                    hint="name the samples of each batch, once",
                )
        self._epoch_ids |= self._passed()
        if not self._epoch_ids.isdisjoint(found.tolist()):
            self._epoch += 1
            self._epoch_ids.clear()
        self._named = set(found.tolist())
        self._carried.clear()
        self._ids, self._step, self._sends = keys, self._step + 1, 0

    def _passed(self) -> set[int]:
        """Return the samples that were named last, unless the link has carried nothing since."""
        return self._named if self._carried else set()

    def _view(self, ids: Ids, views: NDArray[np.int64]) -> Ids:
        """Note the offsets of crops; return the ids of messages, below 0 where samples are flipped."""
        most = np.array([1, *[self._crops[1]] * 2]) if self._crops else np.zeros(3, np.int64)
        if self._crops is None or views.shape != (len(ids), 3) or (views < 0).any() or (views > most).any():
            raise UsageError(
                f"{len(ids)} samples cannot have views {list(views.shape)} with crops={self._crops}",
                hint="give crops=(SIZE, LARGEST OFFSET) to the link, and flip, top and left for each sample",
            )
        if (ids < 0).any():
            raise UsageError("ids of samples with views cannot be below 0", hint="number samples from 0")
        keys = np.where(views[:, 0] == 1, ~ids, ids)
        self._offsets = {
            int(key): (int(top), int(left)) for key, (_, top, left) in zip(keys, views, strict=True)
        }
        return keys

    def follow(self, order: object) -> None:
        """Take from a schedule what is sent when: needed where a rank has several stages.

        Args:
            order: a schedule of `torch.distributed.pipelining`; or what this rank sends of each micro-batch,
                as pairs of the edge and "forward" or "backward".

        Raises:
            UsageError: micro-batches of an edge would not go in their order.
        """
        if isinstance(order, (list, tuple)):
            self._order = [(edge, direction == "forward") for edge, direction in order]
            return
        actions = getattr(order, "pipeline_order_with_comms", None) or {}
        self._order, batches = [], defaultdict(list)
        for action in actions.get(self.rank(), ()):
            if (name := action.computation_type.name) in ("SEND_F", "SEND_B"):
                route = (action.stage_index - (name == "SEND_B"), name == "SEND_F")
                self._order.append(route)
                batches[route].append(action.microbatch_index)
        for (edge, _), numbers in batches.items():
            if numbers != sorted(numbers):
                raise UsageError(
                    f"{type(order).__name__} sends micro-batches of edge {edge} in the order {numbers}",
                    hint="use a schedule that sends them in their order",
                )

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Send in full, and neither use nor change messages; as is done under `torch.no_grad()`."""
        before, self._evaluating = self._evaluating, True
        try:
            yield
        finally:
            self._evaluating = before

    def report(self) -> list[dict[str, object]]:
        """Return what this rank sent, a dictionary for each epoch, edge and direction, fit for JSON.

        `bytes` counts headers. Means over quantized samples: `change` is |a-m|/|a|, `error` |a-m'|/|a| for
        the sum m' at the receiver, `c_q` |x-Q(x)|/|x| for the x that is quantized, and `above` the share
        where that exceeds sqrt(1/2). `mean` is the mean of |a|, and `mean_change` that of |a-m|.
        """
        found = []
        for (epoch, edge, direction), tally in sorted(self._tallies.items()):
            line: dict[str, object] = {"epoch": epoch, "edge": edge, "direction": direction}
            for name in ("messages", "bytes", "values", "samples", "quantized"):
                line[name] = int(tally[name])
            for name in ("change", "error", "c_q", "above", "mean", "mean_change"):
                line[name] = tally[name] / tally["quantized"] if tally["quantized"] else None
            found.append({**line, "seconds": tally["seconds"]})
        return found

    def state_dict(self) -> dict[str, object]:
        """Return the messages, the step and the epoch: what a resumed run needs to send the same bits."""
        self._flush()
        return {
            "settings": json.dumps(self._settings),
            "step": self._step,
            "sends": self._sends,
            "epoch": self._epoch,
            "epoch_ids": np.array(sorted(self._epoch_ids | self._passed()), np.int64),
            "layouts": dict(self._layouts),
            "history": dict(self._history),
            "store": self._store.state_dict() if self._store else {},
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from what `state_dict` returned.

        Raises:
            UsageError: it is of a link of other settings.
        """
        _compare(
            json.loads(cast("str", state["settings"])),
            self._settings,
            "the state that is loaded",
            "resume with the settings of the state, or without it: leave the link out of extra=",
        )
        self._step, self._epoch = cast("int", state["step"]), cast("int", state["epoch"])
        self._sends = cast("int", state["sends"])
        self._epoch_ids = set(np.asarray(state["epoch_ids"]).tolist())
        self._layouts = dict(cast("Mapping[str, str]", state["layouts"]))
        self._history = dict(cast("Mapping[str, int]", state["history"]))
        self._ids = None
        self._carried.clear()
        if self._store:
            self._store.load_state_dict(cast("dict[str, object]", state["store"]))

    def align(self, repo: "Repository", branch: str) -> int | None:
        """Move the branch of this rank back to the newest step of which all ranks have a commit.

        Ranks that were killed may have ended at different commits. Call it on all ranks before
        `Checkpointer.resume`. Commits that are left behind stay in the reflog.

        Args:
            repo: the repository of this rank.
            branch: that its Checkpointer commits to.

        Returns:
            That step; None where no rank has a commit.

        Raises:
            UsageError: some ranks have commits, and no step is common to all.
        """
        is_there = any(one.name == branch for one in repo.branches())
        commits = {one.step: one.id for one in repo.log(branch)} if is_there else {}
        steps: list[set[int | None]] = [set() for _ in range(self.size())]
        dist.all_gather_object(steps, {*commits}, group=self._inner)
        common = [step for step in set.intersection(*steps) if step is not None]
        if not common:
            if any(steps):
                raise UsageError(
                    "the ranks have no commit of one step",
                    hint=f"to begin anew, delete their branches: mvcs branch -D {branch}",
                )
            return None
        newest = max(common)
        if next(iter(commits)) != newest:
            repo.create_branch(branch, commits[newest], force=True)
            _logger.warning("'%s' is back at step %d, the newest that all ranks have", branch, newest)
        return newest

    # What torch calls.

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """Return the name of this kind of group."""
        return "quantized_link"

    def size(self) -> int:
        """Return how many ranks there are."""
        return self._inner.size()

    def rank(self) -> int:
        """Return the rank of this process."""
        return self._inner.rank()

    def shutdown(self) -> None:
        """Do nothing: the group inside is torch's to end."""

    def send(self, tensors: list[torch.Tensor], dst: int, tag: int) -> dist.Work:
        """Send a tensor; it may be changed as soon as this returns."""
        (tensor,) = tensors
        if _passes(tensor):
            return self._inner.send(tensors, dst, tag)
        peer = (dst, tag)
        if peer not in self._greeted:
            self._greeted.add(peer)
            settings = json.dumps(self._settings).encode()
            self._post(peer, Header.of(settings, Kind.HANDSHAKE, edge=0, step=0), settings)
        self._post(peer, *self._encode(tensor.detach(), dst))
        return _Sent(self._settle)

    def recv(self, tensors: list[torch.Tensor], src: int, tag: int) -> dist.Work:
        """Receive into a tensor; it is written when the work is waited for, or one behind it."""
        (tensor,) = tensors
        if _passes(tensor):
            return self._inner.recv(tensors, src, tag)
        self._await_header((src, tag))
        received = _Received(tensor, (src, tag), self._receive)
        self._expected[src, tag].append(received)
        return received

    # Sending.

    def _encode(self, tensor: torch.Tensor, dst: int) -> tuple[Header, bytes]:
        """Return the message for a tensor [n, ...], and keep what the other end will keep."""
        start = time.perf_counter()
        if self._evaluating or not torch.is_grad_enabled():
            route, ids, kind, bits, parts = (self.rank(), True), None, Kind.FULL, 0, [_raw(tensor)]
            tally = self._tallies[self._epoch, self.rank(), "evaluation"]
        else:
            route = self._next_route(dst)
            ids = self._next_ids(route, len(tensor))
            tally = self._tallies[self._epoch, route[0], "forward" if route[1] else "backward"]
            self._check_finite(tensor, route, ids)
            kind, bits, parts = self._parts(tensor, route, ids, tally)
        flags = Flag.SOME_FULL if len(parts) > 1 else Flag.NONE
        if self._store and kind is Kind.GRADIENT:
            lost = ~self._store.seen(route[0], cast("Ids", ids))
            if lost.any():
                flags, parts = Flag.SOME_LOST, [np.packbits(lost, bitorder="little").tobytes(), *parts]
        payload = b"".join(parts)
        header = Header.of(
            payload, kind, edge=route[0], step=self._step, bits=bits,
            samples=0 if ids is None else self._identity(route, ids),
            flags=flags,
        )  # fmt: skip
        self._remember(route, header)
        _add(tally, messages=1, bytes=HEADER_BYTES + len(payload), values=tensor.numel(), samples=len(tensor))
        tally["seconds"] += time.perf_counter() - start
        return header, payload

    def _parts(
        self, tensor: torch.Tensor, route: Route, ids: Ids | None, tally: Tally
    ) -> tuple[Kind, int, list[bytes]]:
        """Return the kind of a message, its bits and its payload: one part, or flags, changes, full ones."""
        edge, forward = route
        quantizer = self._forward if forward else self._backward
        full = Kind.FULL if forward else Kind.GRADIENT
        if quantizer is None or (not forward and self._store and self._epoch < self._warmup):
            return full, 0, [_raw(tensor)]
        values = self._values(tensor)
        if not forward or self._store is None:
            payload, restored = self._quantized(quantizer, values, route)
            _count(tally, values, values, restored)
            return Kind.DIRECT if forward else full, quantizer.bits, [payload]
        ids = cast("Ids", ids)
        changes = self._seen(edge, ids, tensor)
        held = self._held(edge, ids[changes], tensor) if changes.any() else values[:0]
        if self._renew and len(held):
            near = _norms(values[changes] - held) <= _norms(values[changes])
            changes[changes], held = near, held[near]
        if not len(held):
            self._keep(edge, ids, values, tensor)
            return full, 0, [_raw(tensor)]
        activations = values[changes] if len(held) < len(values) else values
        change = activations - held
        payload, restored = self._quantized(quantizer, change, route)
        _count(tally, activations, change, restored)
        held += restored
        self._keep(edge, ids[changes], held, tensor)
        if len(held) == len(values):
            return Kind.DELTA, quantizer.bits, [payload]
        self._keep(edge, ids[~changes], values[~changes], tensor)
        flags = np.packbits(changes, bitorder="little").tobytes()
        return Kind.DELTA, quantizer.bits, [flags, payload, _raw(tensor[torch.from_numpy(~changes)])]

    def _post(self, peer: Peer, header: Header, payload: bytes) -> None:
        """Send a header and its payload behind what was sent before."""
        rank, tag = peer
        for number, data in enumerate((header.pack(), payload)):
            if data:
                buffer = torch.frombuffer(bytearray(data), dtype=torch.uint8)
                with self._naming(rank):
                    work = self._inner.send([buffer], rank, self._tag(tag, number))
                self._sent.append((rank, work, buffer))

    def _flush(self) -> None:
        """Wait until nothing is on its way."""
        while self._sent:
            rank, work, _ = self._sent.popleft()
            with self._naming(rank):
                work.wait()

    def _settle(self) -> None:
        """Wait for what is on its way, unless something is still to be received here.

        The other end takes a payload only when it waits for it: both ends could wait for each other.
        """
        if not any(self._expected.values()):
            self._flush()

    def _next_route(self, dst: int) -> Route:
        """Return where the next tensor belongs: told by the order that is followed, or by the neighbour."""
        self._sends += 1
        if self._order:
            return self._order[(self._sends - 1) % len(self._order)]
        if abs(dst - self.rank()) != 1:
            raise UsageError(
                f"rank {self.rank()} sends to rank {dst}, which is no neighbour",
                hint="where a rank has several stages, call link.follow(schedule)",
            )
        return min(dst, self.rank()), dst > self.rank()

    # Receiving.

    def _await_header(self, peer: Peer) -> None:
        buffer = torch.empty(HEADER_BYTES, dtype=torch.uint8)
        with self._naming(peer[0]):
            work = self._inner.recv([buffer], peer[0], self._tag(peer[1], 0))
        self._headers[peer].append((buffer, work))

    def _receive(self, until: "_Received") -> None:
        """Receive what one rank sends, in its order, up to one message."""
        expected = self._expected[until.peer]
        while not until.done:
            header, payload = self._next_message(until.peer, most=4 * expected[0].tensor.nbytes + _HANDSHAKE)
            if header.kind is Kind.HANDSHAKE:
                _compare(_settings_in(payload), self._settings, f"rank {until.peer[0]}")
                self._await_header(until.peer)
                continue
            received = expected.popleft()
            self._decode(header, memoryview(payload), received.tensor.detach(), until.peer[0])
            received.done = True

    def _next_message(self, peer: Peer, most: int) -> tuple[Header, bytes]:
        buffer, work = self._headers[peer].popleft()
        with self._naming(peer[0]):
            work.wait()
        header = Header.unpack(buffer.numpy().tobytes())
        if header.length > most:
            raise CorruptionError(f"a message of edge {header.edge} has {header.length} bytes")
        payload = torch.empty(header.length, dtype=torch.uint8)
        if header.length:
            with self._naming(peer[0]):
                self._inner.recv([payload], peer[0], self._tag(peer[1], 1)).wait()
        data = payload.numpy().tobytes()
        header.check(data)
        return header, data

    def _decode(self, header: Header, payload: memoryview, tensor: torch.Tensor, src: int) -> None:
        """Write what a message stands for into a tensor [n, ...], and keep what the other end keeps."""
        start = time.perf_counter()
        route = (header.edge, header.kind is not Kind.GRADIENT)
        self._check_expected(header, route, src)
        ids = self._next_ids(route, len(tensor)) if header.samples else None
        if ids is not None and (header.samples, header.step) != (self._identity(route, ids), self._step):
            raise UsageError(
                f"rank {src} sends other samples along edge {header.edge} at its step {header.step} than are "
                f"named here at step {self._step}, or has sent others before",
                hint="steps are calls of link.samples: name the same samples in the same order on all ranks, "
                f"in batches of one size (drop a smaller last one); {_RETURN}",
            )
        self._remember(route, header)
        quantizer = self._forward if route[1] else self._backward
        if header.flags & Flag.SOME_LOST:
            lost, payload = _split_flags(payload, len(tensor))
            cast("MessageStore", self._store).forget(header.edge, cast("Ids", ids)[lost])
        if header.kind is Kind.DELTA:
            self._decode_changes(header, payload, tensor, cast("Ids", ids))
        elif header.bits and quantizer is not None:
            self._write(self._restored(quantizer, payload, self._groups(tensor).shape), tensor)
        else:
            tensor.copy_(_from_raw(payload, tensor))
            if route[1] and self._store and ids is not None:
                self._seen(header.edge, ids, tensor)
                self._keep(header.edge, ids, self._values(tensor), tensor)
        tally = self._tallies[self._epoch, header.edge, "received"]
        _add(tally, messages=1, bytes=HEADER_BYTES + len(payload), values=tensor.numel(), samples=len(tensor))
        tally["seconds"] += time.perf_counter() - start

    def _check_expected(self, header: Header, route: Route, src: int) -> None:
        """Refuse a message that no link of these settings sends, or not along this edge."""
        kind, bits, flags = header.kind, header.bits, header.flags
        if kind is Kind.FULL and not header.samples:  # in evaluations ranks with several stages know no edge
            is_right = not bits and not flags
        else:
            quantizer = self._forward if route[1] else self._backward
            codes = quantizer.bits if quantizer else 0
            widths: dict[Kind, tuple[int, ...]] = {Kind.FULL: (0,), Kind.GRADIENT: (0, codes)}
            widths[Kind.DELTA if self._store else Kind.DIRECT] = (codes,) if codes else ()
            changes = {Kind.DELTA: Flag.SOME_FULL, Kind.GRADIENT: Flag.SOME_LOST}
            is_right = bits in widths.get(kind, ()) and flags in (
                Flag.NONE,
                changes.get(kind, Flag.NONE) if self._store else Flag.NONE,
            )
            is_right &= not self._store or bool(header.samples)
            here = self.rank()
            # What is sent one way along an edge, is received the other way.
            is_right &= (
                (route[0], not route[1]) in self._order
                if self._order
                else route == (min(src, here), src < here)
            )
        if not is_right:
            raise CorruptionError(
                f"rank {src} sends {kind.name} of {bits} bits on edge {route[0]}, which is not expected here",
                hint="run the same program with the same version of mvcs on all ranks",
            )

    def _decode_changes(self, header: Header, payload: memoryview, tensor: torch.Tensor, ids: Ids) -> None:
        edge = header.edge
        changes, full = np.ones(len(ids), np.bool_), memoryview(b"")
        if header.flags & Flag.SOME_FULL:
            changes, payload = _split_flags(payload, len(ids))
            if not changes.any():
                raise CorruptionError(f"a message of edge {edge} says that it changes no sample")
            size = tensor.nbytes // len(ids) * int((~changes).sum())
            payload, full = payload[: len(payload) - size], payload[len(payload) - size :]
        unseen = changes & ~self._seen(edge, ids, tensor)
        if unseen.any():
            raise UsageError(
                f"edge {edge} brings a change of sample {ids[unseen][0]} at step {self._step}, of which "
                "nothing is held here",
                hint=_RETURN,
            )
        held = self._held(edge, ids[changes], tensor)
        held += self._restored(cast("Quantizer", self._forward), payload, held.shape)
        self._keep(edge, ids[changes], held, tensor)
        if len(held) == len(ids):
            self._write(held, tensor)
            return
        values = np.empty((len(ids), *held.shape[1:]), np.float32)
        rest = tensor[torch.from_numpy(~changes)]
        values[changes], values[~changes] = held, self._values(_from_raw(full, rest))
        self._keep(edge, ids[~changes], values[~changes], tensor)
        self._write(values, tensor)

    # Both ends.

    def _next_ids(self, route: Route, count: int) -> Ids | None:
        """Return the ids of the next micro-batch along a route; None where none are named and none needed."""
        if self._ids is None and not self._store:
            return None
        named = np.zeros(0, np.int64) if self._ids is None else self._ids
        start = self._carried[route]
        if start + count > len(named):
            raise UsageError(
                f"edge {route[0]} would carry {start + count} samples since link.samples() was called, which "
                f"named {len(named)}",
                hint=_IDS,
            )
        self._carried[route] += count
        if route[1] and self._store:
            self._store.prefetch(route[0], named[start + count : start + 2 * count])
        return named[start : start + count]

    def _identity(self, route: Route, ids: Ids) -> int:
        """Return the checksum of samples; with all that went before them, for activations."""
        before = [self._history.get(str(route[0]), 0)] if route[1] else []
        offsets = [offset for id_ in ids.tolist() for offset in self._offsets.get(id_, ())]
        return checksum_of_ids([*ids, *offsets, *before])

    def _remember(self, route: Route, header: Header) -> None:
        if header.samples and route[1]:
            self._history[str(route[0])] = int.from_bytes(header.pack()[-8:], "little", signed=True)

    def _seen(self, edge: int, ids: Ids, tensor: torch.Tensor) -> Bools:
        """Tell which samples have a message: none when shape or type of the activations changed."""
        store = cast("MessageStore", self._store)
        layout = f"{tensor.dtype} {list(tensor.shape[1:])}".removeprefix("torch.")
        if (before := self._layouts.get(str(edge), layout)) != layout:
            if (edge, layout) not in self._warned:
                _logger.warning(
                    "edge %d carries %s, and carried %s: all samples go in full again, as whenever this "
                    "changes", edge, layout, before,
                )  # fmt: skip
            self._warned |= {(edge, layout), (edge, before)}
            store.forget(edge)
        self._layouts[str(edge)] = layout
        return store.seen(edge, ids)

    def _windows(self, ids: Ids, tensor: torch.Tensor) -> tuple[int, list[tuple[slice, slice]]]:
        """Return the pixels that frames are larger than [n, c, h, w], and the part of each that is seen."""
        if self._crops is None or tensor.dim() != 4:
            return 0, []
        height, width = tensor.shape[2:]
        size, room = self._crops
        places = [[round(one * height / size) for one in self._offsets[id_]] for id_ in ids.tolist()]
        windows = [(slice(top, top + height), slice(left, left + width)) for top, left in places]
        return round(room * height / size), windows

    def _held(self, edge: int, ids: Ids, tensor: torch.Tensor) -> Floats:
        """Return the messages of samples, or the part that is seen of them, float32 [n, groups, width]."""
        held, (room, windows) = cast("MessageStore", self._store).read(edge, ids), self._windows(ids, tensor)
        if not windows:
            return held
        frames = held.reshape(*held.shape[:2], -1, tensor.shape[3] + room)
        parts = [frame[:, *window] for frame, window in zip(frames, windows, strict=True)]
        return np.stack(parts).reshape(*held.shape[:2], -1)

    def _keep(self, edge: int, ids: Ids, values: Floats, tensor: torch.Tensor) -> None:
        """Keep messages; of those that are seen in part the rest stays, at first the nearest values."""
        store, (room, windows) = cast("MessageStore", self._store), self._windows(ids, tensor)
        if windows:
            shape, seen = tensor.shape[1:], store.seen(edge, ids)
            frames = np.empty((len(ids), shape[0], shape[1] + room, shape[2] + room), np.float32)
            if seen.any():
                frames[seen] = store.read(edge, ids[seen]).reshape(-1, *frames.shape[1:])
            for frame, (rows, columns), value, is_seen in zip(frames, windows, values, seen, strict=True):
                part = value.reshape(shape)
                around = [(0, 0), (rows.start, room - rows.start), (columns.start, room - columns.start)]
                if is_seen:
                    frame[:, rows, columns] = part
                else:
                    frame[:] = np.pad(part, around, "edge")
            values = frames.reshape(*values.shape[:2], -1)
        store.write(edge, ids, values)

    def _quantized(self, quantizer: Quantizer, values: Floats, route: Route) -> tuple[bytes, Floats]:
        """Return values [n, groups, width] as a payload, and what the other end restores."""
        seed = (self._step * 65_537 + route[0]) * 2 + route[1] + 0x9E3779B1 * self._sends
        payload, restored = quantizer.encode(self._rows(values), seed=seed & 0xFFFFFFFF)
        return payload, self._unrows(restored, values.shape)

    def _restored(self, quantizer: Quantizer, payload: memoryview, shape: tuple[int, ...]) -> Floats:
        samples, groups, width = shape
        sizes = (groups, samples * width) if self._by_batch else (samples * groups, width)
        return self._unrows(quantizer.decode(payload, *sizes), shape)

    def _groups(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return [n, ...] as [n, channels, width]."""
        if tensor.dim() == 3:
            return tensor.transpose(1, 2)
        if tensor.dim() > 3:
            return tensor.flatten(2)
        return tensor.reshape(len(tensor), -1).unsqueeze(2 if self._by_batch else 1)

    def _values(self, tensor: torch.Tensor) -> Floats:
        return self._groups(tensor).float().contiguous().numpy()

    def _write(self, values: Floats, tensor: torch.Tensor) -> None:
        """Write float32 [n, channels, width] into [n, ...]."""
        found = torch.from_numpy(values)
        if tensor.dtype == torch.float16:  # scales are rounded up, beyond what float16 holds
            found = found.clamp(-_FLOAT16_MOST, _FLOAT16_MOST)
        tensor.copy_(found.transpose(1, 2) if tensor.dim() == 3 else found.view(tensor.shape))

    def _rows(self, values: Floats) -> Floats:
        """Return values [n, groups, width] with a row for each scale."""
        if self._by_batch:
            values = np.ascontiguousarray(values.transpose(1, 0, 2))
            return values.reshape(len(values), -1)
        return values.reshape(-1, values.shape[2])

    def _unrows(self, rows: Floats, shape: tuple[int, ...]) -> Floats:
        samples, groups, width = shape
        if self._by_batch:
            return np.ascontiguousarray(rows.reshape(groups, samples, width).transpose(1, 0, 2))
        return rows.reshape(shape)

    def _tag(self, tag: int, number: int) -> int:
        """Return the tag in the group inside of headers (0) or payloads (1)."""
        if not 0 <= tag < _TAGS // 2:
            raise UsageError(f"a link cannot send with tag {tag}", hint=f"use tags below {_TAGS // 2}")
        return self._tags + 2 * tag + number

    def _check_finite(self, tensor: torch.Tensor, route: Route, ids: Ids | None) -> None:
        # The sum is quick, and is not finite where a value is not; it may overflow besides.
        if not torch.isfinite(tensor.sum()) and not torch.isfinite(tensor).all():
            bad = int((~torch.isfinite(tensor.reshape(len(tensor), -1)).all(dim=1)).nonzero()[0])
            what = "the activation" if route[1] else "the gradient"
            sample = f"place {bad} of its micro-batch" if ids is None else f"sample {ids[bad]}"
            raise UsageError(
                f"{what} of edge {route[0]} is not finite at {sample}, step {self._step}",
                hint="lower the learning rate or the loss scale",
            )

    @contextmanager
    def _naming(self, rank: int) -> Iterator[None]:
        """Say which rank it is that does not answer."""
        try:
            yield
        except RuntimeError as error:
            self._sent.clear()
            raise StorageError(
                f"rank {dist.get_global_rank(self, rank)} is gone, or did not answer in time: {error}",
                hint="if it printed an error, mend that; then start all ranks again from commits of one "
                "step: link.align(repo, branch) finds the newest",
            ) from error


class _Sent(dist.Work):
    """A message on its way, of which the link has a copy."""

    def __init__(self, settle: Callable[[], None]) -> None:
        super().__init__()
        self.settle = settle

    def wait(self, timeout: timedelta | None = None) -> bool:  # noqa: ARG002 - the group inside has one
        self.settle()
        return True

    def is_completed(self) -> bool:
        return True


class _Received(dist.Work):
    """A tensor to be received."""

    def __init__(self, tensor: torch.Tensor, peer: Peer, receive: "Callable[[_Received], None]") -> None:
        super().__init__()
        self.tensor, self.peer, self.receive, self.done = tensor, peer, receive, False

    def wait(self, timeout: timedelta | None = None) -> bool:  # noqa: ARG002 - the group inside has one
        self.receive(self)
        return True

    def is_completed(self) -> bool:
        return self.done


def _inside(name: str) -> Callable[..., object]:
    def call(self: QuantizedLink, *arguments: object, **named: object) -> object:
        return getattr(self._inner, name)(*arguments, **named)

    return call


# Collectives are those of the group inside.
for _name in (
    "_allgather_base", "_reduce_scatter_base", "allgather", "allgather_coalesced",
    "allgather_into_tensor_coalesced", "allreduce", "allreduce_coalesced", "alltoall", "alltoall_base",
    "barrier", "broadcast", "gather", "monitored_barrier", "recv_anysource", "reduce", "reduce_scatter",
    "reduce_scatter_tensor_coalesced", "scatter",
):  # fmt: skip
    setattr(QuantizedLink, _name, _inside(_name))


def _compare(
    theirs: Mapping[str, object],
    ours: Mapping[str, object],
    whose: str,
    hint: str = "give all ranks the same settings",
) -> None:
    """Refuse settings that differ."""
    for name in sorted({*theirs, *ours}):
        if theirs.get(name) != ours.get(name):
            raise UsageError(
                f"{whose} has {name}={theirs.get(name)!r}, and this link {name}={ours.get(name)!r}",
                hint=hint,
            )


def _passes(tensor: torch.Tensor) -> bool:
    """Tell whether the group inside carries a tensor as it is."""
    return not (tensor.is_floating_point() and tensor.dim() and tensor.numel())


def _settings_in(payload: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise CorruptionError(f"the settings of another link cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise CorruptionError("the settings of another link are no JSON object")
    return found


def _raw(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _from_raw(payload: memoryview, tensor: torch.Tensor) -> torch.Tensor:
    """Return the values of a payload in the shape of a tensor."""
    if len(payload) != tensor.nbytes:
        raise UsageError(
            f"{len(payload)} bytes came for {tensor.dtype} {list(tensor.shape)}",
            hint="the stages of an edge have to agree on shape and type",
        )
    return torch.frombuffer(bytearray(payload), dtype=tensor.dtype).view(tensor.shape)


def _split_flags(payload: memoryview, count: int) -> tuple[Bools, memoryview]:
    """Return the flags that a payload begins with, and the rest."""
    size = -(-count // 8)
    flags = np.unpackbits(np.frombuffer(payload[:size], np.uint8), count=count, bitorder="little")
    return flags.view(np.bool_), payload[size:]


def _norms(values: Floats) -> Floats:
    """Return the Euclidean norm of each sample."""
    flat = values.reshape(len(values), -1)
    norms: Floats = np.sqrt(np.einsum("ij,ij->i", flat, flat))
    return norms


def _count(tally: Tally, activations: Floats, change: Floats, restored: Floats) -> None:
    """Add what the report says of samples that were quantized."""
    size, lost, mean = _norms(activations), _norms(change - restored), np.abs(activations).mean()
    moved, mean_change = size, mean
    if change is not activations:
        moved, mean_change = _norms(change), np.abs(change).mean()
    ones = np.ones_like(size)
    c_q = np.divide(lost, moved, out=ones * 0, where=moved > 0)
    _add(
        tally,
        quantized=len(size),
        change=np.divide(moved, size, out=ones.copy(), where=size > 0).sum(),
        error=np.divide(lost, size, out=ones.copy(), where=size > 0).sum(),
        c_q=c_q.sum(),
        above=(c_q > _BOUND).sum(),
        mean=mean * len(size),
        mean_change=mean_change * len(size),
    )


def _add(tally: Tally, **amounts: float) -> None:
    for name, amount in amounts.items():
        tally[name] += float(amount)
