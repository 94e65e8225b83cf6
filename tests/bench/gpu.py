"""How long training on a CUDA device stands still for a commit, against saving the same state otherwise.

    python -m tests.bench.gpu [--size large] [--rounds 5]
    python -m tests.bench.gpu --size small

`large` is a GPT of 350 million parameters with AdamW (4 GB of state), `small` one of 7 million. Training
steps go on in between, in bfloat16 autocast. In turn, round for round, the same live state is

- committed through the hook, exactly, and with `step_size` and light moments;
- saved with `torch.save`, into the same folder;
- saved with `torch.distributed.checkpoint.async_save`: staged on the calling thread, as by itself, and with
  its stager that stages into pinned memory on a thread of its own. The optimizer waits for that one.

For each: how long the call stood in the way of the next step, how long until all was written, how much longer
a step took meanwhile, what training lost by both, and memory of the device and the host beyond training's.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

from mvcs import Repository
from mvcs.train import Checkpointer
from tests.bench import results

SIZES = {"large": (1024, 24, 50304, 8), "small": (256, 6, 8192, 16)}
"""Width, layers, vocabulary, and sequences in a batch."""
LENGTH = 512
WARM_STEPS = 8

Work = Callable[[], object]
Saving = Callable[[int], Work | None]


class Block(nn.Module):
    """Attention and a feed-forward net, each behind a norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.forth, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix over positions, then over channels."""
        batch, length, width = x.shape
        parts = self.mixed(self.norms[0](x)).view(batch, length, 3, width // 64, 64).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.back(nn.functional.gelu(self.forth(self.norms[1](x))))


class Net(nn.Module):
    """A GPT whose output weights are its embedding."""

    def __init__(self, width: int, layers: int, words: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(LENGTH, width)
        self.blocks, self.norm = nn.Sequential(*[Block(width) for _ in range(layers)]), nn.LayerNorm(width)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next words."""
        x = self.words(words) + self.places.weight
        return self.norm(self.blocks(x)) @ self.words.weight.t()


class Training:
    """A model, its optimizer and its steps."""

    def __init__(self, size: str) -> None:
        width, layers, self.vocabulary, self.batch = SIZES[size]
        torch.manual_seed(0)
        self.model = Net(width, layers, self.vocabulary).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.before_update: Work | None = None

    def step(self) -> None:
        """Make one step, and wait for it, as a loop does that looks at its loss."""
        words = torch.randint(self.vocabulary, (self.batch, LENGTH + 1), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = self.model(words[:, :-1]).flatten(0, 1)
            loss = nn.functional.cross_entropy(logits, words[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        wait, self.before_update = self.before_update, None
        if wait is not None:
            wait()
        self.optimizer.step()
        loss.item()

    def state(self) -> dict[str, Any]:
        """Return the live state; the stager of torch 2.11 takes plain dicts alone."""
        return {"model": dict(self.model.state_dict()), "optimizer": self.optimizer.state_dict()}

    def nbytes(self) -> int:
        """Return the bytes of the state."""
        moments = (value for state in self.optimizer.state.values() for value in state.values())
        return sum(tensor.nbytes for tensor in (*self.model.parameters(), *moments))

    def seconds(self, steps: int) -> float:
        """Return the seconds of a step, in the mean of so many."""
        began = time.perf_counter()
        for _ in range(steps):
            self.step()
        return (time.perf_counter() - began) / steps


@dataclass(frozen=True)
class Taken:
    """One saving.

    Attributes:
        blocked: seconds that the call took of the training's thread.
        written: seconds until everything was written.
        steps: that were made until then.
        slowed: how many times as long a step took then as alone; 1 where none was made.
        lost: seconds that training was behind in the end.
        device: bytes of the device's memory beyond training's own.
        host: bytes of the host's memory beyond what this process had before the first saving of its kind.
    """

    blocked: float
    written: float
    steps: int
    slowed: float
    lost: float
    device: int
    host: int


def resident() -> int:
    """Return the bytes of this process in the host's memory."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Highest:
    """The most host memory while a block runs, looked at every 20 ms."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._ended = threading.Event()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Look until the block ends."""
        thread = threading.Thread(target=self._look)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            self.nbytes = max(self.nbytes, resident())


class Waiting:
    """What waits for a saving, on a thread of its own, so that steps can be counted meanwhile."""

    def __init__(self, work: Work | None) -> None:
        self.ended = time.perf_counter()
        self._done = threading.Event()
        self._error: BaseException | None = None
        if work is None:
            self._done.set()
        else:
            threading.Thread(target=self._wait, args=(work,)).start()

    def _wait(self, work: Work) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
        self.ended = time.perf_counter()
        self._done.set()

    @property
    def is_done(self) -> bool:
        """Whether the saving is, well or not."""
        if self._done.is_set() and self._error is not None:
            raise self._error
        return self._done.is_set()


def taken(training: Training, alone: float, number: int, saving: Saving) -> Taken:
    """Save once, and train until it is written."""
    torch.cuda.reset_peak_memory_stats()
    training.step()
    usual = torch.cuda.max_memory_allocated()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    highest, before = Highest(), torch.cuda.memory_allocated()
    with highest.watching():
        began = time.perf_counter()
        waiting = Waiting(saving(number))
        blocked = time.perf_counter() - began
        device = torch.cuda.max_memory_allocated() - before
        steps, training_began = 0, time.perf_counter()
        while not waiting.is_done:
            training.step()
            steps += 1
        trained = time.perf_counter() - training_began
    each = trained / steps if steps else alone
    device = max(device, torch.cuda.max_memory_allocated() - usual if steps else 0)
    written = max(waiting.ended, began + blocked) - began
    lost = blocked + steps * (each - alone)
    return Taken(blocked, written, steps, each / alone, lost, device, highest.nbytes)


@contextlib.contextmanager
def hook(training: Training, folder: pathlib.Path, **settings: Any) -> Iterator[Saving]:
    """Give what commits through the hook."""
    repository = Repository.init(folder)
    with Checkpointer(
        repository, training.model, training.optimizer, extra={"data": "random"}, final=False, **settings
    ) as checkpointer:

        def save(number: int) -> Work:
            checkpointer.save(number)
            return checkpointer.flush

        yield save
        if checkpointer.failures:
            raise SystemExit(str(checkpointer.failures[-1]))
    repository.close()


@contextlib.contextmanager
def plain(training: Training, folder: pathlib.Path) -> Iterator[Saving]:
    """Give what saves with `torch.save`."""
    folder.mkdir()

    def save(number: int) -> None:
        torch.save(training.state(), folder / f"{number}.pt")
        (folder / f"{number - 1}.pt").unlink(missing_ok=True)

    yield save


@contextlib.contextmanager
def distributed(training: Training, folder: pathlib.Path, *, threaded: bool) -> Iterator[Saving]:
    """Give what saves with `async_save`, staged on the calling thread or on one of its own."""
    folder.mkdir()
    options = StagingOptions(use_pinned_memory=True, use_shared_memory=False, use_async_staging=True)

    def save(number: int) -> Work:
        shutil.rmtree(folder / str(number - 1), ignore_errors=True)
        # One for each: torch 2.11 closes what it is given. Pinned memory stays with torch, for the next.
        moved = {"async_stager": DefaultStager(options)} if threaded else {}
        response: Any = dcp.async_save(training.state(), checkpoint_id=str(folder / str(number)), **moved)
        if isinstance(response, Future):
            return response.result
        training.before_update = response.staging_completion.result
        return response.upload_completion.result

    yield save


KINDS = {
    "exact": hook,
    "light": lambda training, folder: hook(training, folder, step_size=0.5, moments="light"),
    "torch_save": plain,
    "async_save": lambda training, folder: distributed(training, folder, threaded=False),
    "async_save_pinned": lambda training, folder: distributed(training, folder, threaded=True),
}
TITLES = {
    "exact": "commit, exact",
    "light": "commit, bounded",
    "torch_save": "torch.save",
    "async_save": "async_save",
    "async_save_pinned": "async_save, pinned",
}


def measured(training: Training, kinds: list[str], rounds: int) -> dict[str, Any]:
    """Save in each way, in turn; the first round allocates and is told apart."""
    training.seconds(WARM_STEPS)
    alone = training.seconds(WARM_STEPS)
    found: dict[str, list[Taken]] = {kind: [] for kind in kinds}
    host: dict[str, int] = {}
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mvcs-bench-")))
        ways = {kind: stack.enter_context(KINDS[kind](training, folder / kind)) for kind in kinds}
        for number in range(rounds + 1):
            for kind, saving in ways.items():
                before = resident()
                one = taken(training, alone, number, saving)
                host.setdefault(kind, one.host - before)
                found[kind].append(one)
                print(f"round {number}, {TITLES[kind]}: {one}", flush=True)
    again = training.seconds(WARM_STEPS)
    return {
        "step_s": alone,
        "step_after_s": again,
        "copy_s": copy_seconds(training),
        "first": {kind: asdict(each[0]) | {"host": host[kind]} for kind, each in found.items()},
        "median": {kind: medians(each[1:]) for kind, each in found.items()},
    }


def medians(rounds: list[Taken]) -> dict[str, float]:
    """Return the median of everything but the host's memory."""
    names = ("blocked", "written", "steps", "slowed", "lost", "device")
    return {name: statistics.median(getattr(one, name) for one in rounds) for name in names}


def copy_seconds(training: Training) -> float:
    """Return the least seconds of one copy of as many bytes into one piece of pinned memory."""
    nbytes = training.nbytes() // 4
    source = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
    target = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
    times = []
    for _ in range(5):
        torch.cuda.synchronize()
        began = time.perf_counter()
        target.copy_(source)
        times.append(time.perf_counter() - began)
    return 4 * min(times)


def told(found: dict[str, Any]) -> list[str]:
    """Return what was found, line by line."""
    least = found["median"]["exact"]["blocked"]
    times = [1000 * found[name] for name in ("step_s", "step_after_s", "copy_s")]
    lines = [
        "a step alone {:.1f} ms, at the end {:.1f} ms; one pinned copy {:.1f} ms".format(*times),
        (
            f"{'':20}{'blocked ms':>11}{'ratio':>7}{'written s':>10}{'slowed':>7}"
            f"{'lost ms':>9}{'device MB':>10}{'first ms':>9}{'host MB':>8}"
        ),
    ]
    for kind, each in found["median"].items():
        first, blocked = found["first"][kind], each["blocked"]
        lines.append(
            f"{TITLES[kind]:20}{1000 * blocked:11.1f}{blocked / least:7.2f}{each['written']:10.2f}"
            f"{each['slowed']:7.2f}{1000 * each['lost']:9.1f}{each['device'] / 1e6:10.0f}"
            f"{1000 * first['blocked']:9.0f}{first['host'] / 1e6:8.0f}"
        )
    return lines


def card() -> dict[str, str]:
    """Return which device it was, without what tells one of a kind from another."""
    return {
        "device": torch.cuda.get_device_name(),
        "cuda": str(torch.version.cuda),
        "torch": torch.__version__,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=tuple(SIZES), default="large")
    parser.add_argument("--rounds", type=int, default=5, help="beside the first")
    parser.add_argument("--ways", nargs="+", choices=tuple(KINDS), default=list(KINDS))
    results.add_option(parser)
    parser.add_argument("--switch", type=float, help="seconds after which Python's threads take turns")
    options = parser.parse_args()
    if options.switch:
        sys.setswitchinterval(options.switch)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    training = Training(options.size)
    training.step()
    found = measured(training, options.ways, options.rounds)
    load, nbytes = results.load(), training.nbytes()
    parameters = sum(parameter.numel() for parameter in training.model.parameters())
    print(f"load {load:.1f}, {os.cpu_count()} cores, {card()}")
    print(f"{options.size}: {parameters / 1e6:.1f} million parameters, {nbytes / 1e9:.2f} GB of state")
    print("\n".join(told(found)))
    about = {
        "load": load,
        "switch": sys.getswitchinterval(),
        "size": options.size,
        "parameters": parameters,
        "bytes": nbytes,
    } | card()
    results.write(options.json, about | {"rounds": options.rounds} | found)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
