"""A model, an optimizer, a schedule and data, which the page leaves to its reader."""

import torch
from torch import nn
from torchdata.stateful_dataloader import StatefulDataLoader

torch.manual_seed(0)
model = nn.Linear(8, 1)
ema = nn.Linear(8, 1)
generator = torch.Generator()
optimizer = torch.optim.AdamW(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
steps = 10
x = torch.randn(64, 8)
loader = StatefulDataLoader(torch.utils.data.TensorDataset(x), batch_size=8, shuffle=True)


class Batches:
    """A source of data that knows where it is."""

    def __init__(self):
        self.at = 0

    def next(self):
        self.at += 1
        return [x[self.at % 8 * 8 :][:8]]

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


batches = Batches()


net_g, net_d = nn.Linear(4, 8), nn.Linear(8, 1)
opt_g, opt_d = (torch.optim.Adam(net.parameters()) for net in (net_g, net_d))
pairs = list(zip(torch.randn(64, 4).split(8), x.split(8), strict=True))


def critic_step():
    opt_d.zero_grad()
    nn.functional.softplus(-net_d(x)).mean().backward()
    opt_d.step()


def generator_step():
    opt_g.zero_grad()
    nn.functional.softplus(-net_d(net_g(torch.randn(64, 4)))).mean().backward()
    opt_g.step()


def train_step(batch=None):
    (inputs,) = batch or batches.next()
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()
    return loss


def evaluate(model):
    yield model(x).square().sum().item(), len(x)
