"""Split learning over a link (AQ-SGD, H.6 and figure 10): a net's ends at clients, its middle at a server.

    python -m tests.bench.split_learning [--rounds 30] [--pictures 3200] [--augment] [--arms float32 aq]

A small ResNet learns Fashion-MNIST, cut after its first residual block and before its last. 16 clients with
classes by a Dirichlet distribution of 0.5 train in turn, 3 local epochs each. Client and server are two
processes on loopback. With --augment pictures are padded, flipped and cropped; `without` has no views then.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, multiprocessing, nn
from torch.nn.functional import cross_entropy, pad

from mvcs.bench.data.images import fashion_mnist
from mvcs.bench.tasks.clothes import ResNet
from mvcs.channels import MessageStore
from mvcs.train.channels import QuantizedLink

BLOCKS = ((16, 1), (32, 2), (32, 1), (64, 2))
LOCAL_EPOCHS, BATCH, SIDE, PADDING = 3, 64, 28, 4
LOSSY = {"forward": 2, "backward": 8, "backward_share": 0.2}
Ids = NDArray[np.int64]


class Mean(nn.Module):
    """The mean of each channel."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


def parts() -> tuple[nn.Sequential, nn.Sequential, nn.Sequential]:
    """Return what a client has first, what the server has, and what a client has last."""
    torch.manual_seed(0)
    net = ResNet(BLOCKS)
    first = nn.Sequential(net.stem, net.bn, nn.ReLU(), net.body[0])
    return first, net.body[1:-1], nn.Sequential(net.body[-1], Mean(), net.fc)


def shares(labels: NDArray[np.uint8], clients: int) -> list[Ids]:
    """Return the pictures of each client: of each class, shares by a Dirichlet distribution."""
    generator, found = np.random.default_rng(0), [[] for _ in range(clients)]  # type: ignore[var-annotated]
    for label in range(10):
        ends = np.cumsum(generator.dirichlet([0.5] * clients)) * (labels == label).sum()
        for own, more in zip(
            found, np.split(np.flatnonzero(labels == label), ends[:-1].astype(int)), strict=True
        ):
            own.extend(more)
    return [np.array(own, np.int64) for own in found]


def batches(own: list[Ids], number: int) -> Iterator[tuple[Ids, Ids]]:
    """Return the samples of a round and how each is seen: flipped or not, top and left."""
    generator = np.random.default_rng([1, number])
    for ids in own:
        for _ in range(LOCAL_EPOCHS):
            order = generator.permutation(ids)
            for at in range(0, len(order), BATCH):
                chosen = order[at : at + BATCH]
                yield chosen, generator.integers(0, [2, 2 * PADDING + 1, 2 * PADDING + 1], (len(chosen), 3))


def pixels(pictures: NDArray[np.uint8], views: Ids | None) -> Tensor:
    """Return pictures as float32 [n, 1, 28, 28] from -1 to 1, padded, flipped and cropped."""
    found = torch.from_numpy(pictures.astype(np.float32)[:, None] / 255 * 2 - 1)
    if views is None:
        return found
    padded = pad(found, [PADDING] * 4, value=-1)
    return torch.stack(
        [
            (one.flip(-1) if flip else one)[:, top : top + SIDE, left : left + SIDE]
            for one, (flip, top, left) in zip(padded, views.tolist(), strict=True)
        ]
    )


def through(x: Tensor, shape: tuple[int, ...], link: QuantizedLink) -> Tensor:
    """Send to the server what came out of the first part; return what it makes of that."""
    dist.send(x.detach(), 1, group=link)
    y = torch.empty(len(x), *shape)
    dist.recv(y, 1, group=link)
    return y


def work(rank: int, given: argparse.Namespace, arm: str, folder: str) -> None:
    """Be all clients in turn, or the server."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/ranks", rank=rank, world_size=2)
    views_of_link = given.augment and arm == "aq"
    store = MessageStore(f"{folder}/{rank}", 1 << 28) if arm in {"aq", "without"} else None
    settings = {"forward": None, "backward": None} if arm == "float32" else LOSSY
    crops = (SIDE, 2 * PADDING) if views_of_link else None
    link = QuantizedLink(**settings, store=store, direct=arm == "direct", crops=crops)  # type: ignore[arg-type]
    link.follow([(0, "forward"), (1, "backward")] if rank == 0 else [(1, "forward"), (0, "backward")])
    images, (first, middle, last) = fashion_mnist(Path(given.data)), parts()
    middle_in, middle_out = (16, 14, 14), (32, 7, 7)
    own = shares(images.train_labels[: given.pictures], given.clients)
    model = nn.ModuleList([first, last]) if rank == 0 else middle
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    rates = torch.optim.lr_scheduler.StepLR(optimizer, 20, 0.1)
    accuracies, began, before = list[float](), time.perf_counter(), torch.zeros(2, dtype=torch.float64)
    for number in range(given.rounds):
        model.train()
        for ids, views in batches(own, number):
            link.samples(ids, views if views_of_link else None)
            optimizer.zero_grad()
            if rank == 0:
                x = first(pixels(images.train[ids], views if given.augment else None))
                y = through(x, middle_out, link).requires_grad_()
                cross_entropy(last(y), torch.from_numpy(images.train_labels[ids].astype(np.int64))).backward()
                assert y.grad is not None
                gradient = torch.empty_like(x)
                dist.send(y.grad, 1, group=link)
                dist.recv(gradient, 1, group=link)
                x.backward(gradient)
            else:
                x = torch.empty(len(ids), *middle_in, requires_grad=True)
                dist.recv(x.detach(), 0, group=link)
                y = middle(x)
                dist.send(y.detach(), 0, group=link)
                gradient = torch.empty_like(y)
                dist.recv(gradient, 0, group=link)
                y.backward(gradient)
                assert x.grad is not None
                dist.send(x.grad, 0, group=link)
            optimizer.step()
        rates.step()
        sent = torch.tensor(sent_of(link), dtype=torch.float64)
        dist.all_reduce(sent)
        model.eval()
        right = 0
        with torch.no_grad():
            for at in range(0, given.valid, BATCH):
                pictures = images.test[: given.valid][at : at + BATCH]
                if rank == 0:
                    logits = last(through(first(pixels(pictures, None)), middle_out, link))
                    right += int(
                        (logits.argmax(1).numpy() == images.test_labels[: given.valid][at : at + BATCH]).sum()
                    )
                else:
                    x = torch.empty(len(pictures), *middle_in)
                    dist.recv(x, 0, group=link)
                    dist.send(middle(x), 0, group=link)
        accuracies.append(100 * right / given.valid)
        values, size = (sent - before).tolist()
        before = sent
        if rank == 0:
            print(
                f"{arm:8} round {number + 1:3}: {accuracies[-1]:.2f} %, mean of the last five "
                f"{statistics.mean(accuracies[-5:]):.2f}, 1/{4 * values / size:.1f} of float32's bytes, "
                f"{time.perf_counter() - began:.0f} s",
                flush=True,
            )  # fmt: skip
    dist.barrier()
    dist.destroy_process_group()


def sent_of(link: QuantizedLink) -> tuple[float, float]:
    """Return how many values a rank sent in training so far, and in how many bytes."""
    lines = [line for line in link.report() if line["direction"] in {"forward", "backward"}]
    return sum(float(str(line["values"])) for line in lines), sum(float(str(line["bytes"])) for line in lines)


def main() -> None:
    """Train each arm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--pictures", type=int, default=3200, help="for training, over all clients")
    parser.add_argument("--valid", type=int, default=2000, help="test pictures")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--augment", action="store_true")
    parser.add_argument("--arms", nargs="+", default=["float32", "aq", "direct"])
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    given = parser.parse_args()
    for arm in given.arms:
        with tempfile.TemporaryDirectory() as folder:
            multiprocessing.spawn(work, (given, arm, folder), 2)


if __name__ == "__main__":
    main()
