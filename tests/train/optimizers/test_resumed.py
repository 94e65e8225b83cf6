"""A resumed run goes on bit for bit: optimizers, types of weights, orders of parameters, and schedules."""

import copy
import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as schedules

from mvcs.repository import Repository
from mvcs.train import Checkpointer

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

HALF, STEPS = 3, 6


class Net(nn.Module):
    def __init__(self, types: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8, bias=False)
        self.conv = nn.Conv2d(2, 4, 2).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's
        if types != "float32":
            self.bfloat16()
        if types == "mixed":
            self.last.float()

    def losses(self, step: int) -> torch.Tensor:
        """A loss that each parameter has a part of its own in."""
        total = torch.zeros(())
        for name, one in self.named_parameters():
            generator = torch.Generator().manual_seed(step * 100 + sum(name.encode()))
            total = total + (one.float() * torch.randn(one.shape, generator=generator)).sin().sum()
        return total


def from_torch(kind: str, **settings: Any) -> Callable[[Any], Any]:
    # A rate that is a tensor is changed in place.
    return lambda given: getattr(torch.optim, kind)(given, **copy.deepcopy(settings))


def from_package(package: str, kind: str, **settings: Any) -> Callable[[Any], Any]:
    def made(given: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = pytest.importorskip(package)
        optimizer = getattr(module, kind)(given, **settings)
        if package == "schedulefree":
            optimizer.train()
        return optimizer

    return made


TORCH = {
    "Adadelta": from_torch("Adadelta"),
    "Adafactor": from_torch("Adafactor"),
    "Adagrad": from_torch("Adagrad", lr_decay=0.1),
    "Adam": from_torch("Adam", amsgrad=True),
    "Adam fused": from_torch("Adam", fused=True),
    "Adam foreach": from_torch("Adam", foreach=True),
    "AdamW": from_torch("AdamW", lr=torch.tensor(1e-2)),
    "Adamax": from_torch("Adamax"),
    "ASGD": from_torch("ASGD", t0=2),
    "LBFGS": from_torch("LBFGS", lr=0.1, max_iter=3),
    "NAdam": from_torch("NAdam"),
    "NAdam foreach": from_torch("NAdam", foreach=True),
    "RAdam": from_torch("RAdam"),
    "RMSprop": from_torch("RMSprop", momentum=0.9, centered=True),
    "Rprop": from_torch("Rprop"),
    "SGD": from_torch("SGD", lr=0.1, momentum=0.9),
    "SGD foreach": from_torch("SGD", lr=0.1, momentum=0.9, foreach=True),
    "Muon": from_torch("Muon", lr=0.1),
}
PACKAGES = {
    "Adafactor of transformers": from_package(
        "transformers.optimization",
        "Adafactor",
        lr=1e-2,
        relative_step=False,
        scale_parameter=False,
        beta1=0.9,
    ),
    "Lion": from_package("lion_pytorch", "Lion", lr=1e-3),
    "schedule-free AdamW": from_package("schedulefree", "AdamWScheduleFree"),
    "schedule-free SGD": from_package("schedulefree", "SGDScheduleFree", lr=0.1),
    "SOAP": from_package("pytorch_optimizer", "SOAP", precondition_frequency=1),
    "Shampoo": from_package("pytorch_optimizer", "Shampoo", momentum=0.9),
    "Prodigy": from_package("pytorch_optimizer", "Prodigy"),
    "AdEMAMix": from_package("pytorch_optimizer", "AdEMAMix"),
    "CAME": from_package("pytorch_optimizer", "CAME"),
    "AdamW8bit": from_package("bitsandbytes.optim", "AdamW8bit", min_8bit_size=16),
    "Lion8bit": from_package("bitsandbytes.optim", "Lion8bit", min_8bit_size=16),
    "PagedAdam8bit": from_package("bitsandbytes.optim", "Adam8bit", min_8bit_size=16),
    "Lamb": from_package("torch_optimizer", "Lamb"),
    "Lookahead": lambda given: from_package("pytorch_optimizer", "Lookahead", k=2)(torch.optim.NAdam(given)),
}
# Those that take matrices alone; LBFGS takes no weights that lie in another memory format.
MATRICES = {"Muon", "LBFGS"}
TYPES = ["float32", "bfloat16", "mixed"]


def parameters(net: Net, order: str, kind: str) -> Any:
    named = [(name, one) for name, one in net.named_parameters() if kind not in MATRICES or one.dim() == 2]
    half = len(named) // 2
    plain = [one for _, one in named]
    return {
        "as they are": plain,
        "reversed": plain[::-1],
        "named": named,
        "named and reversed": named[::-1],
        "groups": [{"params": plain[:half]}, {"params": plain[half:], "lr": 3e-3}],
        "groups reversed": [{"params": plain[half:][::-1], "lr": 3e-3}, {"params": plain[:half]}],
        "half": plain[:half],
    }[order]


ORDERS = {
    "the same": ("as they are", "as they are"),
    "named": ("named", "named"),
    "turned": ("as they are", "reversed"),
    "turned and named": ("named", "named and reversed"),
    "groups turned": ("groups", "groups reversed"),
    "one added": ("half", "half"),
}
SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "constant": schedules.ConstantLR,
    "cosine": lambda of: schedules.CosineAnnealingLR(of, 5),
    "restarts": lambda of: schedules.CosineAnnealingWarmRestarts(of, 2),
    "cyclic": lambda of: schedules.CyclicLR(of, 1e-3, 1e-2, step_size_up=2, cycle_momentum=False),
    "exponential": lambda of: schedules.ExponentialLR(of, 0.9),
    "lambda": lambda of: schedules.LambdaLR(of, lambda step: 1 / (1 + step)),
    "linear": schedules.LinearLR,
    "multiplicative": lambda of: schedules.MultiplicativeLR(of, lambda _: 0.9),
    "milestones": lambda of: schedules.MultiStepLR(of, [2, 4]),
    "one cycle": lambda of: schedules.OneCycleLR(of, 1e-2, 10, cycle_momentum=False),
    "polynomial": lambda of: schedules.PolynomialLR(of, 8),
    "plateau": lambda of: schedules.ReduceLROnPlateau(of, patience=0, threshold=10),
    "steps": lambda of: schedules.StepLR(of, 2),
    "averaging": lambda of: torch.optim.swa_utils.SWALR(of, 0.05, anneal_epochs=4),
    "in a row": lambda of: schedules.SequentialLR(
        of, [schedules.LinearLR(of), schedules.CyclicLR(of, 1e-3, 1e-2, cycle_momentum=False)], [2]
    ),
    "chained": lambda of: schedules.ChainedScheduler(
        [schedules.ExponentialLR(of, 0.9), schedules.CosineAnnealingLR(of, 5)]
    ),
}


def bits(node: Any) -> Any:
    """What of a state can be compared: types, shapes, strides and bytes of tensors."""
    if isinstance(node, dict):
        return {key: bits(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [bits(value) for value in node]
    if isinstance(node, torch.Tensor):
        content = node.detach().contiguous().reshape(-1).view(torch.uint8).tolist()
        return (str(node.dtype), tuple(node.shape), node.stride(), content)
    return repr(node)


def state_of(net: Net, optimizer: Any, scheduler: Any) -> dict[str, Any]:
    """The weights, and what there is of each parameter by its name."""
    saved = optimizer.state_dict()
    if "param_groups" not in saved:
        return {"model": bits(dict(net.state_dict())), "states": bits(saved)}
    ids = [one for group in saved["param_groups"] for one in group["params"]]
    given = [one for group in optimizer.param_groups for one in group["params"]]
    rates = [group["lr"] for group in optimizer.param_groups for _ in group["params"]]
    names = {id(one): name for name, one in net.named_parameters()}
    states = {names[id(one)]: bits(saved["state"].get(key)) for key, one in zip(ids, given, strict=True)}
    return {
        "model": bits(dict(net.state_dict())),
        "states": states,
        "rates": {names[id(one)]: float(rate) for one, rate in zip(given, rates, strict=True)},
        "epoch": getattr(scheduler, "last_epoch", None),
    }


def trained(
    repo: Repository, made: Any, kind: str, types: str, order: str, schedule: Any, steps: range
) -> Any:
    """Train from where the repository is to the last of some steps; all that a run has then."""
    net = Net(types)
    before, after = ORDERS[order]
    grown = order == "one added"
    optimizer = made(parameters(net, after if steps.start else before, kind))
    scheduler = schedule(optimizer)
    with Checkpointer(repo, net, optimizer, scheduler, every=HALF, final=False) as run:
        assert run.resume() == steps.start
        for step in steps:
            if grown and step == 1:
                there = {id(one) for group in optimizer.param_groups for one in group["params"]}
                rest = [one for one in parameters(net, "as they are", kind) if id(one) not in there]
                optimizer.add_param_group({"params": rest, "lr": 1e-3})

            def closure(step: int = step) -> torch.Tensor:
                optimizer.zero_grad()
                loss = net.losses(step)
                loss.backward()
                return loss

            if isinstance(optimizer, torch.optim.LBFGS):
                optimizer.step(closure)
            else:
                closure()
                optimizer.step()
            if isinstance(scheduler, schedules.ReduceLROnPlateau):
                scheduler.step(1.0)
            else:
                scheduler.step()
            run.after_step(step)
    return state_of(net, optimizer, scheduler)


def check(folder: Path, made: Any, kind: str, types: str, order: str, schedule: Any) -> None:
    torch.set_num_threads(1)
    with Repository.init(folder / "whole") as whole:
        expected = trained(whole, made, kind, types, order, schedule, range(STEPS))
    with Repository.init(folder / "killed") as killed:
        trained(killed, made, kind, types, order, schedule, range(HALF))
        found = trained(killed, made, kind, types, order, schedule, range(HALF, STEPS))
    assert found == expected


# LBFGS has a state of all parameters, and so has what wraps others; Prodigy keeps it with its first group.
TURNED = {order for order in ORDERS if order not in {"the same", "named"}}
IMPOSSIBLE = {(kind, order) for kind in ("LBFGS", "Lookahead") for order in TURNED}
IMPOSSIBLE |= {("Prodigy", "groups turned"), ("Lookahead", "named")}


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("kind", TORCH)
def test_optimizers_of_torch(tmp_path: Path, kind: str, types: str) -> None:
    turn = itertools.cycle(SCHEDULES.values())
    for place, order in enumerate(ORDERS):
        schedule = next(turn) if kind != "AdamW" else SCHEDULES["steps"]
        if order == "one added":
            schedule = SCHEDULES["steps"]
        if (kind, order) not in IMPOSSIBLE:
            check(tmp_path / str(place), TORCH[kind], kind, types, order, schedule)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_of_torch(tmp_path: Path, name: str) -> None:
    for place, order in enumerate(one for one in ORDERS if one != "one added"):
        check(tmp_path / str(place), TORCH["SGD"], "SGD", "float32", order, SCHEDULES[name])


@pytest.mark.optimizers
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("kind", PACKAGES)
def test_optimizers_of_packages(tmp_path: Path, kind: str, types: str) -> None:
    for place, order in enumerate(one for one in ORDERS if (kind, one) not in IMPOSSIBLE):
        check(tmp_path / str(place), PACKAGES[kind], kind, types, order, SCHEDULES["steps"])
