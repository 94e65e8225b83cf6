"""A small net in both frameworks, its data, and what measures it."""

from pathlib import Path

Path("task.py").write_text("""import torch
from lightning.pytorch import LightningModule
from torch import nn
from torch.utils.data import TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader

torch.manual_seed(0)
x = torch.randn(400, 8)
rows = [{"x": row, "labels": row.sum()} for row in x]
data = StatefulDataLoader(TensorDataset(x), batch_size=16, shuffle=True)


def make_layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = make_layers()

    def training_step(self, batch, index):
        return (self.layers(batch[0])[:, 0] - batch[0].sum(1)).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = make_layers()

    def forward(self, x, labels):
        y = self.layers(x)[:, 0]
        return {"loss": (y - labels).square().mean(), "y": y}


def evaluate(model):
    for part in x.split(20):
        yield (model.layers(part)[:, 0] - part.sum(1)).square().sum().item(), len(part)
""")
