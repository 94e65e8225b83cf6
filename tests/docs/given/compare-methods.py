"""Ten checkpoints of a classifier, and the module that builds it."""

from pathlib import Path

Path("net.py").write_text("""import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(6000, 32)
y = ((x @ torch.randn(32, 32)).relu() @ torch.randn(32, 8) + torch.randn(6000, 8)).argmax(1)
train = list(zip(x[:3000].split(50), y[:3000].split(50)))
held_out = list(zip(x[3000:].split(50), y[3000:].split(50)))


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8))
""")

import sys  # noqa: E402

sys.path.insert(0, ".")

import torch  # noqa: E402
from net import build, train  # type: ignore[import-not-found]  # noqa: E402

model = build()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
Path("checkpoints").mkdir()
for step in range(1, 601):
    inputs, targets = train[step % len(train)]
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
    if step % 60 == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, f"checkpoints/step_{step:06}.pt")
