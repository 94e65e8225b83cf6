"""Gradients that replicas average in few bits, with errors fed back: communication hooks of torch's DDP.

The averaging is that of 1-bit Adam (Tang et al. 2021, arXiv 2102.02888), which AQ-SGD uses in section 4.3.
Each parameter is cut into runs of at most 512 values, and each rank serves some of them. A worker sends every
server its quantized runs, and the server sends all ranks the quantized mean. Both add what quantizing lost to
their next message. Runs, servers and errors follow the parameter, not the bucket: torch may rebuild its
buckets, and a resumed run averages the same bits.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import groupby, pairwise
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from mvcs.channels import HEADER_BYTES, Header, Kind, Quantizer
from mvcs.errors import StorageError, UsageError, whole

Rows = NDArray[np.float32]
"""The runs of a parameter, [runs, values]; zeros behind the last value."""
_RUN = 512
_EXACT = 32  # bits
_ZERO, _USED, _BROKEN = range(3)  # a byte for each parameter before a message: what its gradient is
_WORKER, _SERVER, _SERVED = "worker_error", "server_error", "served"


class QuantizedGradients:
    """Averages the gradients of replicas in `bits` bits a value: the state of a communication hook.

        state = QuantizedGradients(bits=4, model=ddp)
        ddp.register_comm_hook(state, QuantizedGradients.hook)

    All replicas get the same bits, and in `Checkpointer(extra=...)` so does a resumed run. The state is
    that of this rank. A parameter whose gradient is 0 on all ranks gets 0, and its errors stay.

    Args:
        bits: 1 to 8 for a value, and 16 more for each run of 512 values or fewer.
        model: gives parameters the names that errors and `state_dict` have; otherwise they are numbered.
        group: the replicas; None for all processes.

    Attributes:
        sent: bytes sent to other ranks so far.

    Raises:
        UsageError: `bits` is out of range. While training: a gradient is not finite, on any rank; ranks have
            other settings; errors that were loaded are of another number of ranks or another rank.
        StorageError: a rank is gone.
        CorruptionError: a message is not what was sent.
    """

    def __init__(
        self, bits: int = 4, model: nn.Module | None = None, group: dist.ProcessGroup | None = None
    ) -> None:
        names = {} if model is None else {one: name for name, one in model.named_parameters()}
        self._average = _Average(bits, names, group)
        self._errors: dict[str, dict[str, Any]] = defaultdict(dict)

    def hook(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
        """Average a bucket of gradients, beside the rest of the backward pass."""
        errors = [self._errors[self._average.name(one)] for one in bucket.parameters()]
        return self._average.start(bucket, _used(bucket), errors)

    @property
    def sent(self) -> int:
        """Bytes sent to other ranks so far."""
        return self._average.sent

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """Return what quantizing lost and the next messages add, by name of parameter.

        That is the float32 tensors "worker_error" and "server_error", [runs, values], and with "served" the
        number of ranks and the runs that this one serves: [ranks, start, stop].
        """
        return {name: dict(one) for name, one in self._errors.items()}

    def load_state_dict(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Load what `state_dict` returned on the same rank."""
        self._errors = defaultdict(dict, {name: dict(one) for name, one in state.items()})


class QuantizedAdam(torch.optim.Optimizer):
    """Adam whose replicas average first moments in few bits, once second moments are frozen (1-bit Adam).

        optimizer = QuantizedAdam(ddp.named_parameters(), lr=1e-3, warmup=200)
        ddp.register_comm_hook(optimizer, QuantizedAdam.hook)

    For `warmup` steps gradients are averaged exactly, as float32. Then each replica sends `beta1 * m + (1 -
    beta1) * g`, quantized; the mean is the new `m`, and stands in `.grad`. So gradients are scaled or clipped
    before, in the loss. Several backward passes a step accumulate under `ddp.no_sync()`; `ddp.join()` is
    not supported. A second moment of 0 is frozen as the mean of its tensor (ours).

    Args:
        params: float32 parameters, with or without names.
        lr: the learning rate.
        betas: of the two moments.
        eps: is added to the root of the second moment.
        weight_decay: is decoupled, as in AdamW.
        warmup: steps with exact gradients, 1 or more; a sixth of the run is usual.
        bits: 1 to 8 for a value.
        group: the replicas; None for all processes.

    Attributes:
        sent: bytes sent to other ranks so far.

    Raises:
        UsageError: a setting is out of range, or a parameter is not float32. While training: as for
            `QuantizedGradients`; `.grad` was changed after it was averaged, or averaged twice without a
            step; a parameter had no gradient in the warm-up, or is not in `params`.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        warmup: int,
        bits: int = 4,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        self._warmup = whole("warmup", warmup, "give the number of steps with exact gradients, 1 or more")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "step": 0}
        super().__init__(params, defaults)
        self._names: dict[Tensor, str] = {}
        for number, one in enumerate(self.param_groups):
            names = one.get("param_names") or [f"{number}.{place}" for place in range(len(one["params"]))]
            self._names |= zip(one["params"], names, strict=True)
        for parameter, name in self._names.items():
            if parameter.dtype != torch.float32:
                raise UsageError(f"QuantizedAdam takes float32 parameters, and '{name}' is {parameter.dtype}")
        self._average = _Average(bits, self._names, group)
        self._averaged: set[Tensor] = set()

    @property
    def sent(self) -> int:
        """Bytes sent to other ranks so far."""
        return self._average.sent

    @property
    def _frozen(self) -> bool:
        return bool(self.param_groups[0]["step"] >= self._warmup)

    def hook(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
        """Average a bucket of gradients exactly, or of first moments in few bits."""
        settings, used = (self._warmup, self.param_groups[0]["step"]), _used(bucket)
        parameters, gradients = bucket.parameters(), bucket.gradients()
        for one in parameters:
            if one not in self._names:
                raise UsageError(
                    f"QuantizedAdam was not given the parameter of the shape {tuple(one.shape)}",
                    hint="give it all parameters of the DDP model, 'ddp.named_parameters()'",
                )
        if not self._frozen:
            return self._average.start(bucket, used, None, settings)
        if not self._averaged.isdisjoint(parameters):
            raise UsageError(
                "gradients were averaged twice without a step",
                hint="accumulate them under 'ddp.no_sync()'; QuantizedAdam does not work within 'ddp.join()'",
            )
        betas = {one: group["betas"][0] for group in self.param_groups for one in group["params"]}
        moments = [self._moments(parameter) for parameter in parameters]
        for parameter, gradient, own in zip(parameters, gradients, moments, strict=True):
            gradient.mul_(1 - betas[parameter]).add_(own["exp_avg"], alpha=betas[parameter])

        def keep(used: Sequence[bool]) -> None:
            for parameter, gradient, own, one in zip(parameters, gradients, moments, used, strict=True):
                if one:
                    own["exp_avg"].copy_(gradient)
                    self._averaged.add(parameter)
                else:  # `step` decides: there may be no gradient at all
                    gradient.zero_()

        return self._average.start(bucket, used, moments, settings, keep)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # noqa: ANN401
        """Make a step, and return what `closure` does; see the class for what is raised."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)
        for group in self.param_groups:
            group["step"] += 1
        self._averaged.clear()
        return loss

    def _update(self, parameter: Tensor, gradient: Tensor, group: Mapping[str, Any]) -> None:
        (first, second), step, moments = group["betas"], group["step"] + 1, self._moments(parameter)
        mean, square = moments["exp_avg"], moments["exp_avg_sq"]
        if parameter not in self._averaged:
            mean.lerp_(gradient, 1 - first)
        elif not torch.equal(gradient, mean):
            raise UsageError(
                f"the gradient of '{self._names[parameter]}' was changed after it was averaged",
                hint="scale and clip in the loss; a pipeline's schedule takes scale_grads=False",
            )
        if step <= self._warmup:
            square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
            if step == self._warmup:
                square[square == 0] = square.mean()
        root = (square / (1 - second ** min(step, self._warmup))).sqrt_().add_(group["eps"])
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.addcdiv_(mean, root, value=-group["lr"] / (1 - first**step))

    def _moments(self, parameter: Tensor) -> dict[str, Tensor]:
        moments: dict[str, Tensor] = self.state[parameter]
        if not moments:
            moments["exp_avg"] = torch.zeros_like(parameter)
            moments["exp_avg_sq"] = torch.zeros_like(parameter)
        if self._frozen and not moments["exp_avg_sq"].any():
            raise UsageError(
                f"all gradients of '{self._names[parameter]}' in the warm-up of {self._warmup} steps were 0",
                hint="give a longer warm-up, or freeze the parameter: 'requires_grad_(False)'",
            )
        return moments


class _Average:
    """Averages buckets on a thread of its own and over a gloo group of its own, in the order of `start`."""

    def __init__(self, bits: int, names: Mapping[Any, str], group: dist.ProcessGroup | None) -> None:
        if not 1 <= whole("bits", bits, "give 1 to 8") <= 8:
            raise UsageError(f"bits cannot be {bits}", hint="give 1 to 8")
        self._bits = bits
        self._names: dict[Tensor, str] = dict(names)
        self._numbers = {parameter: number for number, parameter in enumerate(names)}
        self._given = group
        self._group: dist.ProcessGroup | None = None
        self._thread = ThreadPoolExecutor(1, "gradients")
        self._pending: list[Future[None]] = []
        self._step = 0
        self.sent = 0

    def name(self, parameter: Tensor) -> str:
        """Return a parameter's name; one without gets the next number."""
        number = self._numbers.setdefault(parameter, len(self._numbers))
        return self._names.setdefault(parameter, str(number))

    def start(
        self,
        bucket: dist.GradBucket,  # type: ignore[name-defined]
        used: Tensor,
        errors: Sequence[dict[str, Any]] | None,
        settings: Sequence[int] = (),
        then: Callable[[Sequence[bool]], None] = lambda _used: None,
    ) -> torch.futures.Future[Tensor]:
        """Average a bucket; with the last one of an iteration, wait for all and raise what failed.

        Args:
            bucket: of gradients; the mean is written into its buffer.
            used: [parameters] whether a gradient has a value other than 0 on this rank. torch leaves one
                alone that no rank used, and what would be sent were lost: so its errors are kept.
            errors: the entries that `state_dict` describes, of each parameter; None averages exactly.
            settings: have to be the same on all ranks when the first bucket is averaged.
            then: is called when the buffer has the mean, with what any rank used.
        """
        done: torch.futures.Future[Tensor] = torch.futures.Future()
        if dist.get_world_size(self._given) > 1 and self._group is None:
            self._group = self._connect([self._bits, *settings])

        before = list(self._pending)

        def work() -> None:
            try:
                for one in before:  # ranks that failed send no more buckets
                    one.result()
                then(self._exchange(bucket, used.tolist(), errors))
            finally:
                done.set_result(bucket.buffer())

        self._pending.append(self._thread.submit(work))
        if bucket.is_last():
            pending, self._pending = self._pending, []
            wait(pending)
            for one in pending:
                one.result()
        return done

    def _connect(self, settings: Sequence[int]) -> dist.ProcessGroup:
        ranks = dist.get_process_group_ranks(self._given)
        group: Any = dist.new_group(ranks, backend="gloo", use_local_synchronization=True)
        found = [torch.zeros(len(settings), dtype=torch.int64) for _ in ranks]
        dist.all_gather(found, torch.tensor(settings), group)
        for rank, theirs in zip(ranks, found, strict=True):
            if theirs.tolist() != settings:
                raise UsageError(
                    f"rank {rank} averages gradients with the settings {theirs.tolist()}, and rank"
                    f" {dist.get_rank()} with {settings} (bits; of QuantizedAdam warmup and step too)",
                    hint="give all ranks the same settings, and resume all from the same step",
                )
        return cast("dist.ProcessGroup", group)

    def _exchange(
        self,
        bucket: dist.GradBucket,  # type: ignore[name-defined]
        used: Sequence[bool],
        errors: Sequence[dict[str, Any]] | None,
    ) -> Sequence[bool]:
        """Write the mean of all ranks into the bucket, and return which gradients any rank used."""
        rank, world, bits = dist.get_rank(self._given), dist.get_world_size(self._given), self._bits
        buffer, parameters = bucket.buffer(), bucket.parameters()
        if errors is None:
            bits, errors = _EXACT, [{} for _ in parameters]
        shares = self._shares(parameters, world)
        mine = shares[rank]
        self._check(errors, parameters, world, mine)
        if self._group is None:
            return used
        rows = [_rows(part) for part in torch.split(buffer, [one.numel() for one in parameters])]
        for one, error, parameter in zip(rows, errors, parameters, strict=True):
            self._feed_back(one, error.get(_WORKER), parameter)
        states = _states(used, enumerate(rows))
        restored, messages = [np.empty_like(one) for one in rows], []
        for share in shares:
            payload, found = _encode([rows[place][runs] for place, runs in share], bits)
            messages.append(states + payload)
            for (place, runs), one in zip(share, found, strict=True):
                restored[place][runs] = one
        means = [np.zeros_like(rows[place][runs]) for place, runs in mine]
        size = len(parameters)
        gathered = self._swap(self._group, messages, [len(messages[rank])] * world)
        self._refuse("gradient", gathered, parameters)
        used = [any(one[place] for one in gathered) for place in range(size)]
        for message in gathered:
            for mean, one in zip(means, _decode(message[size:], means, bits), strict=True):
                np.add(mean, one, out=mean)
        for mean, (place, _) in zip(means, mine, strict=True):
            np.divide(mean, world, out=mean)
            if not used[place]:
                mean[:] = 0
            else:
                self._feed_back(mean, errors[place].get(_SERVER), parameters[place])
        states = _states(used, ((place, mean) for mean, (place, _) in zip(means, mine, strict=True)))
        payload, found = _encode(means, bits)
        gathered = self._swap(self._group, [states + payload] * world, [len(one) for one in messages])
        self._refuse("mean gradient", gathered, parameters)
        for place, error in enumerate(errors):
            if used[place]:
                error[_WORKER] = torch.from_numpy(rows[place] - restored[place])
        for mean, near, (place, _) in zip(means, found, mine, strict=True):
            if used[place]:
                errors[place][_SERVER] = torch.from_numpy(mean - near)
        for share, message in zip(shares, gathered, strict=True):
            like = [restored[place][runs] for place, runs in share]
            for old, new in zip(like, _decode(message[size:], like, bits), strict=True):
                old[:] = new
        flat = [one.ravel()[: parameter.numel()] for one, parameter in zip(restored, parameters, strict=True)]
        largest = torch.finfo(buffer.dtype).max  # a scale is rounded up, in float16 to infinity
        buffer.copy_(torch.from_numpy(np.concatenate(flat)).clamp_(-largest, largest))
        return used

    def _check(
        self,
        errors: Sequence[dict[str, Any]],
        parameters: Sequence[Tensor],
        world: int,
        mine: Sequence[tuple[int, slice]],
    ) -> None:
        """Refuse errors of another number of ranks or of another rank."""
        served = dict(mine)
        for place, (error, parameter) in enumerate(zip(errors, parameters, strict=True)):
            runs = served.get(place, slice(0, 0))
            wanted = [world, runs.start, runs.stop]
            if _WORKER in error and error.get(_SERVED) != wanted:
                raise UsageError(
                    f"the errors of '{self._names[parameter]}' are not of this rank: [ranks, start, stop] is"
                    f" {error.get(_SERVED)} there, and {wanted} here",
                    hint="continue with as many ranks, each with its own state, or without the errors",
                )
            error[_SERVED] = wanted

    def _refuse(self, what: str, messages: Sequence[bytes], parameters: Sequence[Tensor]) -> None:
        """Raise if a rank says that a gradient is not finite."""
        for sender, message in enumerate(messages):
            place = message[: len(parameters)].find(_BROKEN)
            if place >= 0:
                raise UsageError(
                    f"the {what} of '{self._names[parameters[place]]}' is not finite on rank"
                    f" {dist.get_global_rank(cast('dist.ProcessGroup', self._group), sender)}",
                    hint="resume from the last commit, since errors of other parameters may have changed;"
                    " lower the learning rate, or look at that rank's batch",
                )

    def _feed_back(self, rows: Rows, error: Tensor | None, parameter: Tensor) -> None:
        """Add what an earlier message lost."""
        if error is None:
            return
        if tuple(error.shape) != rows.shape:
            raise UsageError(
                f"an error of '{self._names[parameter]}' has the shape {tuple(error.shape)}, not"
                f" {rows.shape}",
                hint="continue with as many ranks, or without the errors",
            )
        np.add(rows, error.cpu().numpy(), out=rows)

    def _shares(self, parameters: Sequence[Tensor], world: int) -> list[list[tuple[int, slice]]]:
        """Return the runs that each rank serves: parameters by place, those of one width together."""
        shares: list[list[tuple[int, slice]]] = [[] for _ in range(world)]
        shapes = [_shape(one.numel()) for one in parameters]
        for place in sorted(range(len(shapes)), key=lambda place: shapes[place][1]):
            cuts = [shapes[place][0] * part // world for part in range(world + 1)]
            for part, (start, stop) in enumerate(pairwise(cuts)):
                if start < stop:  # the number spreads parameters of few runs
                    rank = (part + self._numbers[parameters[place]]) % world
                    shares[rank].append((place, slice(start, stop)))
        return shares

    def _swap(self, group: dist.ProcessGroup, messages: Sequence[bytes], sizes: Sequence[int]) -> list[bytes]:
        """Send each rank its message, and return what each sent, of these sizes."""
        rank, self._step = dist.get_rank(group), self._step + 1
        sent, received = [], [torch.empty(HEADER_BYTES + size, dtype=torch.uint8) for size in sizes]
        for one in messages:
            header = Header.of(one, Kind.GRADIENT, edge=0, step=self._step, bits=self._bits)
            sent.append(torch.from_numpy(np.frombuffer(header.pack() + one, np.uint8).copy()))
        received[rank] = sent[rank]
        others = [peer for peer in range(len(sent)) if peer != rank]
        works = [(peer, dist.irecv(received[peer], group=group, group_src=peer)) for peer in others]
        works += [(peer, dist.isend(sent[peer], group=group, group_dst=peer)) for peer in others]
        for peer, work in works:  # not all_to_all and all_gather, whose errors do not say which rank is gone
            try:
                cast("dist.Work", work).wait()
            except RuntimeError as error:
                raise StorageError(
                    f"gradients were not averaged: rank {dist.get_global_rank(group, peer)} is gone, says"
                    f" {error}",
                    hint="start all ranks again, and resume from the last commit",
                ) from error
        self.sent += sum(len(sent[peer]) for peer in others)
        found = [one.numpy().tobytes() for one in received]
        for one in found:
            Header.unpack(one[:HEADER_BYTES]).check(one[HEADER_BYTES:])
        return [one[HEADER_BYTES:] for one in found]


def _used(bucket: dist.GradBucket) -> Tensor:  # type: ignore[name-defined]
    return torch.stack([one.any() for one in bucket.gradients()])


def _states(used: Sequence[bool], parts: Iterable[tuple[int, Rows]]) -> bytes:
    """Return the byte of each parameter; runs that are not finite become zeros."""
    states = bytearray(_USED if one else _ZERO for one in used)
    for place, rows in parts:
        if not np.isfinite(rows).all():
            states[place] = _BROKEN
            rows[:] = 0
    return bytes(states)


def _shape(values: int) -> tuple[int, int]:
    """Return the number of runs and their one width, at most 512."""
    runs = -(-values // _RUN)
    return runs, -(-values // max(runs, 1))


def _rows(flat: Tensor) -> Rows:
    """Copy values into runs; behind the last value there may be zeros."""
    runs, width = _shape(flat.numel())
    rows = np.zeros(runs * width, np.float32)
    rows[: flat.numel()] = flat.detach().to("cpu", torch.float32).numpy()
    return rows.reshape(runs, width)


def _encode(parts: Sequence[Rows], bits: int) -> tuple[bytes, list[Rows]]:
    """Return the bytes of runs, those of one width together, and what they restore to."""
    payloads, restored = [], []
    for several in _by_width(parts):
        joined = np.concatenate(several)
        payload, found = (joined.tobytes(), joined) if bits == _EXACT else Quantizer(bits).encode(joined)
        payloads.append(payload)
        restored += np.split(found, np.cumsum([len(one) for one in several])[:-1])
    return b"".join(payloads), restored


def _decode(payload: bytes, like: Sequence[Rows], bits: int) -> list[Rows]:
    """Return the runs that bytes restore to, of these shapes."""
    found: list[Rows] = []
    for several in _by_width(like):
        count, width = sum(len(one) for one in several), several[0].shape[1]
        size = 4 * count * width if bits == _EXACT else Quantizer(bits).size(count, width)
        part, payload = payload[:size], payload[size:]
        if bits == _EXACT:
            joined = np.frombuffer(part, np.float32).reshape(count, width)
        else:
            joined = Quantizer(bits).decode(part, count, width)
        found += np.split(joined, np.cumsum([len(one) for one in several])[:-1])
    return found


def _by_width(parts: Sequence[Rows]) -> Iterator[list[Rows]]:
    for _, several in groupby(parts, lambda one: one.shape[1]):
        yield list(several)
