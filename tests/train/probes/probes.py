"""Functions that train on from a state, at the top of a module so that a child process finds them."""

import os

import torch


def model():
    torch.manual_seed(0)
    return torch.nn.Linear(16, 4)


def optimizer(found):
    return torch.optim.AdamW(found.parameters(), lr=0.01, betas=(0.9, 0.95))


def step(found, stepper, number):
    x = torch.randn(32, 16, generator=torch.Generator().manual_seed(number))
    loss = (found(x) - x[:, :4]).square().mean()
    stepper.zero_grad()
    loss.backward()
    stepper.step()
    return loss.item()


def resume(state, steps):
    found = model()
    stepper = optimizer(found)
    found.load_state_dict(state["model"])
    stepper.load_state_dict(state["optimizer"])
    return [step(found, stepper, number) for number in range(state["step"] + 1, state["step"] + 1 + steps)]


def die(_state, _steps):
    os._exit(3)
