"""A model that was trained for a while, its data, and a commit of it."""

from pathlib import Path

Path("task.py").write_text("""import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(3000, 16)
y = (x @ torch.randn(16, 16)).relu() @ torch.randn(16, 4)
y = y.argmax(1)
train = list(zip(x[:2000].split(50), y[:2000].split(50)))
validation = list(zip(x[2000:].split(50), y[2000:].split(50)))


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))


def build_both():
    model = build()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def batches(begin, count):
    return [train[step % len(train)] for step in range(begin, begin + count)]


def train_step(model, optimizer, batch):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss.item()
""")

import sys  # noqa: E402

sys.path.insert(0, ".")

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from task import batches, build, build_both, train_step, validation  # type: ignore[import-not-found]  # noqa: E402

import mvcs  # noqa: E402

model, optimizer = build_both()
repo = mvcs.open_or_init(".")
for step in range(200):
    train_step(model, optimizer, batches(step, 1)[0])


def evaluate(model):
    for inputs, targets in validation:
        yield torch.nn.functional.cross_entropy(model(inputs), targets, reduction="sum").item(), len(targets)


with mvcs.Checkpointer(repo, model, optimizer, evaluate=evaluate, max_degradation=0.01, every=500) as hook:
    hook.save(step)
save_file(model.state_dict(), "model.safetensors")
restored_weights = {name: weight.detach().clone() for name, weight in model.named_parameters()}
Model, config = lambda _: build(), None


def resume(state, steps):
    yield from (float(state["step"]) for _ in range(steps))
