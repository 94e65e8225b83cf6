"""What a restore costs, by optimizer and tier: `python -m tests.bench.optimizers --results optimizers.json`.

A small GPT learns the standard library's source with each optimizer. From two of its states it trains on: as
it is, over other batches (the control), and from the moments that a tier restores, beside exact weights.
Every arm that is done is in the results file; a run that was killed goes on there.
"""

import argparse
import copy
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from torch import nn

from mvcs.bench.runs.tasks import Learner
from mvcs.bench.tasks.next_byte import GptTask, Sizes
from mvcs.quantize import LatticeConfig, MomentsConfig
from mvcs.train.probing import bounded_copy
from tests.bench import results

SIZES = Sizes(width=96, layers=2, heads=4, context=64)
BATCH = 8
PLACES = (200, 300)
STEPS = 100
ARMS = ("exact", "order", "resume", "light")
CONTROL = 1000  # added to the seed: other batches


def _muon(model: nn.Module) -> Learner:
    inside = [one for name, one in model.named_parameters() if one.dim() == 2 and name.startswith("blocks")]
    own = {id(one) for one in inside}
    others = [one for one in model.parameters() if id(one) not in own]
    adamw = torch.optim.AdamW(others, lr=2e-3, betas=(0.9, 0.95))
    return Learner(model, torch.optim.Muon(inside, lr=0.02), {"adamw": adamw})


def _schedule_free(model: nn.Module) -> Learner:
    import schedulefree

    optimizer = schedulefree.AdamWScheduleFree(model.parameters(), lr=3e-3, warmup_steps=30)
    optimizer.train()
    return Learner(model, optimizer)


def _lion(model: nn.Module) -> Learner:
    from lion_pytorch import Lion

    return Learner(model, Lion(model.parameters(), lr=3e-4))


def _of(kind: type[torch.optim.Optimizer], rate: float, **settings: Any) -> Callable[[nn.Module], Learner]:
    made: Any = kind
    return lambda model: Learner(model, made(model.parameters(), lr=rate, **settings))


LEARNERS: dict[str, Callable[[nn.Module], Learner]] = {
    "AdamW 0.95": _of(torch.optim.AdamW, 2e-3, betas=(0.9, 0.95)),
    "AdamW 0.999": _of(torch.optim.AdamW, 2e-3),
    "AdamW amsgrad": _of(torch.optim.AdamW, 2e-3, amsgrad=True),
    "NAdam": _of(torch.optim.NAdam, 2e-3),
    "RAdam": _of(torch.optim.RAdam, 2e-3),
    "Adamax": _of(torch.optim.Adamax, 2e-3),
    "RMSprop": _of(torch.optim.RMSprop, 5e-4),
    "RMSprop momentum": _of(torch.optim.RMSprop, 1e-4, momentum=0.9),
    "RMSprop centered": _of(torch.optim.RMSprop, 1e-4, momentum=0.9, centered=True),
    "Adagrad": _of(torch.optim.Adagrad, 1e-2),
    "Adadelta": _of(torch.optim.Adadelta, 1.0),
    "SGD momentum": _of(torch.optim.SGD, 0.3, momentum=0.9),
    "Muon": _muon,
    "Lion": _lion,
    "schedule-free": _schedule_free,
}


@dataclass(frozen=True)
class Probe:
    """One optimizer on the small task.

    Attributes:
        task: what is learned.
        name: of the optimizer.
        seed: of the weights it starts from, and of its batches.
    """

    task: GptTask
    name: str
    seed: int = 0

    def states(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Train from the start, and yield the state after each of `PLACES`."""
        torch.manual_seed(self.seed)
        learner = LEARNERS[self.name](self.task.model())
        for step in range(PLACES[-1]):
            self._step(learner, step, self.seed)
            if step + 1 in PLACES:
                yield step + 1, copy.deepcopy(learner.state_dict())

    def losses(self, state: dict[str, Any], at: int, seed: int) -> tuple[list[float], float]:
        """Return the training losses of the steps after a state, and the validation loss behind them."""
        learner = LEARNERS[self.name](self.task.model())
        learner.load_state_dict(copy.deepcopy(state))
        losses = [self._step(learner, at + done, seed) for done in range(STEPS)]
        return losses, self.task.evaluate(learner.model)["val_loss"]

    def _step(self, learner: Learner, step: int, seed: int) -> float:
        loss = self.task.loss(learner.model, np.random.default_rng((seed, step)))
        learner.model.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(learner.model.parameters(), 1.0)
        learner.update()
        return float(loss.item())


def arm_state(state: dict[str, Any], arm: str) -> Any:
    """Return what an arm continues from: exact weights, and moments as the tier of its name restores them.

    A number is a step of momentum, and "absent" leaves it out; then a second optimizer's moments are exact.
    """
    if arm in {"exact", "order"}:
        return state
    found: Any = bounded_copy(state, LatticeConfig(step_size=0.25, moments=moments(arm)), only_moments=True)
    return state | {"optimizer": found["optimizer"]} if is_step(arm) else found


def is_step(arm: str) -> bool:
    """Tell arms that concern momentum alone from tiers."""
    return arm == "absent" or arm.replace(".", "", 1).isdigit()


def moments(arm: str) -> MomentsConfig:
    """Return how an arm keeps moments: as a tier, or with a first moment or momentum of a step of its own."""
    if not is_step(arm):
        return MomentsConfig.named(arm)
    return MomentsConfig(arm if arm == "absent" else float(arm), 2.0)


def main() -> None:
    """Measure what is missing from the results, then print all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--optimizers", nargs="+", default=list(LEARNERS), choices=list(LEARNERS))
    parser.add_argument("--arms", nargs="+", default=list(ARMS))
    parser.add_argument("--seed", type=int, default=0, help="of the first weights and of the batches")
    parser.add_argument("--results", type=Path, default=Path("optimizers.json"))
    results.add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    task = GptTask(sizes=SIZES, batch=BATCH)
    for name in options.optimizers:
        measure(Probe(task, name, options.seed), options.arms, options.results)
    rows = list(summary(options.results))
    show(rows)
    show_costs("optimizer", rows)
    results.write(options.json, {"load": results.load(), "arms": rows})


def measure(probe: Probe, arms: list[str], path: Path) -> None:
    """Train the arms of one optimizer that are not done yet."""
    done = json.loads(path.read_text()) if path.exists() else {}
    missing = [f"{probe.name}|{probe.seed}|{at}|{arm}" for at in PLACES for arm in arms]
    if all(key in done for key in missing):
        return
    for at, state in probe.states():
        for arm in arms:
            if f"{probe.name}|{probe.seed}|{at}|{arm}" in done:
                continue
            losses, valid = probe.losses(
                arm_state(state, arm), at, probe.seed + (CONTROL if arm == "order" else 0)
            )
            done[f"{probe.name}|{probe.seed}|{at}|{arm}"] = {"train": losses, "valid": valid}
            path.write_text(json.dumps(done))


def summary(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every arm against the exact one of the same optimizer and state, in %."""
    done = json.loads(path.read_text())
    for key, found in done.items():
        name, seed, at, arm = key.split("|")
        exact = done.get(f"{name}|{seed}|{at}|exact")
        if arm == "exact" or exact is None:
            continue
        train = 100 * (fmean(found["train"]) / fmean(exact["train"]) - 1)
        late = 100 * (fmean(found["train"][STEPS // 2 :]) / fmean(exact["train"][STEPS // 2 :]) - 1)
        valid = 100 * (found["valid"] / exact["valid"] - 1)
        yield {
            "optimizer": name,
            "seed": int(seed),
            "at": int(at),
            "arm": arm,
            "train": train,
            "late": late,
            "valid": valid,
        }


def show(rows: list[dict[str, Any]]) -> None:
    """Print a line for each arm."""
    print(f"{'optimizer':20}{'seed':>5}{'at':>5} {'arm':8}{'train %':>9}{'late %':>9}{'valid %':>9}")
    for row in rows:
        print(
            f"{row['optimizer']:20}{row['seed']:5}{row['at']:5} {row['arm']:8}"
            f"{row['train']:+9.3f}{row['late']:+9.3f}{row['valid']:+9.3f}"
        )


@dataclass(frozen=True)
class Cost:
    """What an arm costs over several probes, in %.

    Attributes:
        probes: how many.
        train: mean and standard error of the excess over all steps.
        late: the same over the second half.
    """

    probes: int
    train: tuple[float, float]
    late: tuple[float, float]

    @property
    def taken(self) -> float:
        """What tiers are chosen by: the mean and two standard errors, of the one that is larger."""
        return max(mean + 2 * error for mean, error in (self.train, self.late))


def costs(name: str, rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Cost]:
    """Return what each arm costs, by what the rows have under a name and the arm."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row[name], row["arm"]].append(row)
    return {key: Cost(len(of), _mean(of, "train"), _mean(of, "late")) for key, of in sorted(found.items())}


def _mean(rows: list[Mapping[str, Any]], name: str) -> tuple[float, float]:
    values = [row[name] for row in rows]
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    return fmean(values), error


def show_costs(name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Print means, standard errors and the cost of each arm."""
    print(f"\n{name:20} {'arm':8}{'probes':>7}{'train %':>17}{'late %':>17}{'cost %':>8}")
    for (of, arm), cost in costs(name, rows).items():
        means = "".join(f"{mean:+9.3f} ± {error:5.3f}" for mean, error in (cost.train, cost.late))
        print(f"{of:20} {arm:8}{cost.probes:7}{means}{cost.taken:8.3f}")


if __name__ == "__main__":
    main()
