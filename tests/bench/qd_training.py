"""What error feedback and federated residuals of QD-Compressor cost (its tables 6 to 8, figures 11 and 13).

    python -m tests.bench.qd_training feedback [--steps 1200] [--seeds 3]
    python -m tests.bench.qd_training federated [--rounds 6]

A small ResNet learns Fashion-MNIST on one thread. `feedback` steps the weights themselves (M), or what their
codes restore (M*); what is evaluated has been restored. `federated` has ten clients with a tenth of the
pictures each, one epoch of Adam a round, and sends the largest hundredth of the changes in 8 bits.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from mvcs.bench.tasks.clothes import CnnTask
from mvcs.channels import MessageStore, Quantizer, Residuals
from mvcs.quantize import LatticeConfig, UniformQuantizer
from mvcs.train.channels import ErrorFeedback

TASK = CnnTask(blocks=((16, 1), (32, 2), (64, 2)), valid=10_000)
CLIENTS = 10
Quantizing = UniformQuantizer | LatticeConfig
ARMS: Mapping[str, Quantizing | None] = {
    "float32": None,
    "8 bits": UniformQuantizer(8, 8),
    "4 to 8 bits": UniformQuantizer(4, 8),
    "4 bits": UniformQuantizer(4, 4),
    "lattice 0.25": LatticeConfig(step_size=0.25),
    "lattice 0.5": LatticeConfig(step_size=0.5),
}


def trained(quantizer: Quantizing | None, steps: int, seed: int, *, on_restored: bool) -> float:
    """Return the accuracy in % of a run whose model holds what codes restore."""
    torch.manual_seed(seed)
    model, generator = TASK.model(), np.random.default_rng(seed)
    optimizer = TASK.learner(model).optimizer
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, steps)
    feedback = None if quantizer is None else ErrorFeedback(model, optimizer, quantizer)
    for _ in range(steps):
        optimizer.zero_grad()
        TASK.loss(model, generator).backward()
        optimizer.step()
        rates.step()
        if feedback is not None and on_restored:
            restored = {name: one.detach().clone() for name, one in model.named_parameters()}
            feedback.load_state_dict({"weights": restored})
    return 100 * TASK.evaluate(model)["val_accuracy"]


def feedback(steps: int, seeds: int) -> None:
    """Print the mean accuracies of all arms."""
    for name, quantizer in ARMS.items():
        for on_restored in (False, True) if quantizer else (False,):
            found = [trained(quantizer, steps, seed, on_restored=on_restored) for seed in range(seeds)]
            stepped = "M*" if on_restored else "M"
            print(
                f"{name:12} {stepped:2} {statistics.mean(found):6.2f}",
                *map("{:.2f}".format, found),
                flush=True,
            )


def flat(model: nn.Module) -> Tensor:
    """Return all parameters one after another."""
    return torch.cat([one.detach().reshape(-1) for one in model.parameters()])


def federated(rounds: int) -> None:
    """Print the accuracy of each round, with no residuals, exact and compressed ones."""
    for bits in (None, 32, 8, 4, 2):
        with tempfile.TemporaryDirectory() as folder:
            federation(rounds, None if bits is None else MessageStore(folder, bits=bits))


def federation(rounds: int, store: MessageStore | None) -> None:
    """Train one federation."""
    torch.manual_seed(0)
    model, images = TASK.model(), TASK.images
    shares = np.array_split(np.random.default_rng(0).permutation(len(images.train)), CLIENTS)
    own = [
        replace(images, train=images.train[each], train_labels=images.train_labels[each]) for each in shares
    ]
    tasks = [replace(TASK, images=each) for each in own]
    quantizer = Quantizer(8, entropy=True, share=0.01)
    residuals = None if store is None else Residuals(store, quantizer)
    weights, accuracies, training, coding, sent = flat(model), [], 0.0, 0.0, 0
    for number in range(rounds):
        mean = torch.zeros_like(weights)
        for client, task in enumerate(tasks):
            nn.utils.vector_to_parameters(weights.clone(), model.parameters())
            started = time.process_time()
            train(model, task, seed=[number, client])
            changes, between = (flat(model) - weights).numpy(), time.process_time()
            if residuals is None:
                payload, restored = quantizer.encode(changes.reshape(1, -1))
            else:
                payload, restored = residuals.encode(client, changes)
            training, coding = training + between - started, coding + time.process_time() - between
            mean += torch.from_numpy(restored.reshape(-1)) / CLIENTS
            sent += len(payload)
        weights += mean
        nn.utils.vector_to_parameters(weights.clone(), model.parameters())
        measure_statistics(model)
        accuracies.append(100 * TASK.evaluate(model)["val_accuracy"])
    raw = 4 * CLIENTS * weights.numel()
    kept = [] if store is None else store.state_dict()["edges"]["0"].values()
    size = sum(one.nbytes for one in kept if isinstance(one, np.ndarray))
    print(
        f"{'none' if store is None else store.bits:>4}", *map("{:.2f}".format, accuracies),
        f"| sent 1/{raw * rounds / sent:.0f}, residual 1/{raw / size if size else np.inf:.1f},",
        f"training {training:.1f} s, coding {coding:.2f} s", flush=True,
    )  # fmt: skip


def train(model: nn.Module, task: CnnTask, seed: Sequence[int]) -> None:
    """Train one epoch."""
    model.train()
    optimizer, generator = torch.optim.Adam(model.parameters(), 0.001), np.random.default_rng(seed)
    for _ in range(len(task.images.train) // task.batch):
        optimizer.zero_grad()
        task.loss(model, generator).backward()
        optimizer.step()


def measure_statistics(model: nn.Module) -> None:
    """Take the means and variances of BatchNorm anew: those of a client are of weights that were not sent."""
    norms = [one for one in model.modules() if isinstance(one, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    model.train()
    with torch.no_grad():
        replace(TASK, batch=2000).loss(model, np.random.default_rng(0))
    for norm in norms:
        norm.momentum = 0.1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["feedback", "federated"])
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "feedback":
        feedback(given.steps, given.seeds)
    else:
        federated(given.rounds)
