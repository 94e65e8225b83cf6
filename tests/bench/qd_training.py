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
from collections.abc import Mapping

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
    for bits in (None, 32, 4, 2):
        with tempfile.TemporaryDirectory() as folder:
            federation(rounds, None if bits is None else MessageStore(folder, bits=bits))


def federation(rounds: int, store: MessageStore | None) -> None:
    """Train one federation."""
    torch.manual_seed(0)
    model, quantizer = TASK.model(), Quantizer(8, entropy=True)
    shares = np.array_split(np.random.default_rng(0).permutation(len(TASK.images.train)), CLIENTS)
    images = TASK.images
    tasks = [
        CnnTask(
            images=type(images)(images.train[own], images.train_labels[own], images.test, images.test_labels)
        )
        for own in shares
    ]
    residuals = None if store is None else Residuals(store, quantizer)
    top, weights, buffers, took, sent = (
        Quantizer(8, entropy=True, share=0.01),
        flat(model),
        dict(model.named_buffers()),
        [0.0, 0.0],
        0,
    )
    accuracies = []
    for number in range(rounds):
        changes, seen = torch.zeros_like(weights), []
        begin = {name: one.clone() for name, one in buffers.items()}
        for client, task in enumerate(tasks):
            nn.utils.vector_to_parameters(weights.clone(), model.parameters())
            for name, one in buffers.items():
                one.copy_(begin[name])
            started = time.process_time()
            optimizer, generator = (
                torch.optim.Adam(model.parameters(), 0.001),
                np.random.default_rng([number, client]),
            )
            for _ in range(len(shares[client]) // task.batch):
                optimizer.zero_grad()
                task.loss(model, generator).backward()
                optimizer.step()
            trained_at = time.process_time()
            change = (flat(model) - weights).numpy()
            if residuals is None:
                payload, restored = top.encode(change.reshape(1, -1))
            else:
                payload, restored = residuals.encode(client, change)
            took = [took[0] + trained_at - started, took[1] + time.process_time() - trained_at]
            changes += torch.from_numpy(restored.reshape(-1)) / CLIENTS
            seen.append({name: one.clone() for name, one in buffers.items()})
            sent += len(payload)
        weights += changes
        nn.utils.vector_to_parameters(weights.clone(), model.parameters())
        for name, one in buffers.items():
            one.copy_(torch.stack([each[name].double() for each in seen]).mean(0))
        accuracies.append(100 * TASK.evaluate(model)["val_accuracy"])
    raw = 4 * weights.numel()
    kept = (
        0 if store is None else sum(one.nbytes for one in list(store.state_dict()["edges"]["0"].values())[2:])
    )
    print(
        "no residuals" if store is None else f"{store.bits} bits", *map("{:.2f}".format, accuracies),
        f"sent 1/{raw * CLIENTS * rounds / sent:.1f}",
        f"residual 1/{raw * CLIENTS / kept:.1f}" if kept else "",
        f"training {took[0]:.1f} s, coding {took[1]:.2f} s", flush=True,
    )  # fmt: skip


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
