"""Trains the GPT and saves its weights at the end."""

import argparse
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from gpt import GPT, Batches, losses, mean, rate
from safetensors.torch import save_file

import mvcs

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", type=Path, required=True, help="folder with train.bin and valid.bin")
parser.add_argument("--steps", type=int, required=True, help="train until this step")
parser.add_argument("--every", type=int, default=20, help="validate every so many steps")
parser.add_argument("--lr-scale", type=float, default=1.0, help="factor on the learning rate")
parser.add_argument("--trace", type=Path, required=True, help="file for the loss of each step, bit for bit")
parser.add_argument("--out", type=Path, required=True, help="file for the weights")
options = parser.parse_args()

logging.basicConfig(format="  %(name)s: %(message)s")
torch.set_num_threads(1)
torch.use_deterministic_algorithms(mode=True)
torch.manual_seed(0)
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: options.lr_scale * rate(step))
batches = Batches(options.data / "train.bin")
trace = options.trace.open("w", buffering=1)
began = time.perf_counter()


def evaluate(model: GPT) -> Iterator[tuple[float, int]]:
    """Yield sum and count of the loss for each batch of the validation text."""
    return losses(model, options.data / "valid.bin")


def train_step(step: int) -> dict[str, float]:
    """Do one step; return what it measured."""
    loss = model(*batches.next())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    metrics = {"loss": loss.item()}
    trace.write(f"{step} {loss.item().hex()}\n")
    if (step + 1) % options.every == 0:
        metrics["val_loss"] = mean(evaluate(model))
        text = " ".join(f"{name} {value:.3f}" for name, value in metrics.items())
        print(f"  step {step + 1}/{options.steps} {text} at {time.perf_counter() - began:.1f} s", flush=True)
    return metrics


logging.getLogger("mvcs").setLevel(logging.INFO)
repo = mvcs.Repository.open()
parts = {"scheduler": scheduler, "loader": batches}
with mvcs.train.Checkpointer(
    repo, model, optimizer, **parts, every=options.every, evaluate=evaluate, max_degradation=0.01
) as checkpointer:
    for step in range(checkpointer.resume(), options.steps):
        checkpointer.after_step(step, train_step(step))

save_file({name: weight.detach() for name, weight in model.named_parameters()}, options.out)
