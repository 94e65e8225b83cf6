"""What training on from restored moments costs: `python -m tests.bench.moments gpt runs/gpt --at 700 1350`.

Continues a run of `mvcs bench make` from its checkpoints, once exactly and once for each way to keep moments,
over the same batches. Every arm that is done is in the results file; a run that was killed goes on there.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mvcs.bench.runs.run_maker import Plan, Run, train_step
from mvcs.bench.runs.tasks import Task
from mvcs.bench.tasks.next_byte import GptTask, GruTask, MuonTask
from mvcs.progress import SILENT
from mvcs.quantize import LatticeConfig, MomentsConfig
from mvcs.train.probing import bounded_copy, compared
from tests.bench import results
from tests.bench.optimizers import moments, show_costs

PLACES = (25, 50, 100)
LENGTHS = {"gpt": 2000, "cnn": 6000, "gru": 960, "muon": 960}
MOMENTS = {
    "exact": MomentsConfig.EXACT,
    "resume": MomentsConfig.RESUME,
    "light": MomentsConfig.LIGHT,
    "absent": MomentsConfig("absent", "rank-1"),
    "octaves": MomentsConfig("absent", 2.0),
    "half": MomentsConfig(0.5, 0.5),
}


@dataclass(frozen=True)
class SlowTask(GptTask):
    """The same run with another beta2."""

    beta2: float = 0.999

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return AdamW that forgets second moments as slowly as is said."""
        found = super().optimizer(model)
        for group in found.param_groups:
            group["betas"] = (0.9, self.beta2)
        return found


def main() -> None:
    """Measure what is missing from the results, then print all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=tuple(LENGTHS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--at", type=int, nargs="+", required=True)
    parser.add_argument("--arms", nargs="+", default=["exact", "ulp", "resume", "light"])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-size", type=float, default=0.25)
    parser.add_argument("--beta2", type=float)
    parser.add_argument("--seed", type=int, default=0, help="of the data that is trained on")
    parser.add_argument("--results", type=Path, default=Path("moments.json"))
    results.add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    task = _task(options.task, options.beta2)
    if options.beta2:
        _train(task, options.folder, max(options.at), options.at[0])
    for at in options.at:
        for arm in options.arms:
            measure(task, options, at, arm)
    rows = list(summary(options.results))
    show(rows)
    show_costs("task", rows)
    results.write(options.json, {"load": results.load(), "arms": rows})


def _task(name: str, beta2: float | None) -> Task:
    if name == "gpt":
        return SlowTask(beta2=beta2) if beta2 else GptTask()
    if name in {"gru", "muon"}:
        return GruTask() if name == "gru" else MuonTask()
    from mvcs.bench.tasks.clothes import CnnTask

    return CnnTask()


def _train(task: Task, folder: Path, steps: int, every: int) -> None:
    run = Run(task, Plan(task.name, LENGTHS[task.name], every, 0, task.data), folder)
    resumed = run.take_up()
    if (resumed or 0) < steps:
        next(made for made in run.finish(resumed, SILENT) if made.step >= steps)


def measure(task: Task, options: argparse.Namespace, at: int, arm: str) -> None:
    """Train one arm on from one checkpoint and append its losses to the results."""
    key = " ".join([task.name, str(options.beta2 or "-"), str(at), str(options.seed), arm])
    done = json.loads(options.results.read_text()) if options.results.exists() else {}
    if key in done:
        return
    state = torch.load(options.folder / f"step_{at:06d}.pt", weights_only=True)
    valid: dict[int, float] = {}
    losses = list(train(task, arm_state(state, arm, options.step_size), at, options, valid))
    done[key] = {"train": losses, "valid": valid}
    options.results.write_text(json.dumps(done))


def arm_state(state: dict[str, Any], arm: str, step_size: float) -> Any:
    """Return what an arm continues from.

    Arms are "exact"; "ulp", which moves every weight by a unit in its last place; the name of a way to keep
    moments or a step of momentum, beside exact weights; and "w", "w+resume" and so on, where weights are
    bounded too.
    """
    if arm == "exact":
        return state
    if arm == "ulp":
        generator = torch.Generator().manual_seed(1)
        for tensor in (one for one in state["model"].values() if one.is_floating_point()):
            tensor.mul_(1 + (torch.randint(0, 2, tensor.shape, generator=generator) * 2 - 1) * 2.0**-23)
        return state
    name, _, kept = arm.partition("+") if arm.startswith("w") else ("", "", arm)
    asked = MOMENTS.get(kept or "exact") or moments(kept)
    config = LatticeConfig(step_size=step_size, moments=asked)
    bounded = {key: state[key] for key in ("model", "optimizer")}
    return {**state, **bounded_copy(bounded, config, only_moments=not name)}


def train(
    task: Task, state: Any, at: int, options: argparse.Namespace, valid: dict[int, float]
) -> Iterator[float]:
    """Yield the training loss of every step; note validation losses on the way."""
    model = task.model()
    learner = task.learner(model)
    learner.load_state_dict(state)
    for done in range(options.steps):
        yield train_step(task, learner, at + done, LENGTHS[task.name], options.seed)
        if done + 1 in PLACES:
            valid[done + 1] = task.evaluate(model)["val_loss"]


def summary(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every arm against the exact one of the same run, checkpoint and data, in %."""
    done = json.loads(path.read_text())
    for key, found in done.items():
        task, beta2, at, seed, arm = key.split(" ")
        exact = done.get(f"{task} {beta2} {at} {seed} exact")
        if exact is None or exact is found:
            continue
        probe = compared(list(range(1, len(exact["train"]) + 1)), exact["train"], found["train"])
        valid = {place: 100 * (loss / exact["valid"][place] - 1) for place, loss in found["valid"].items()}
        run = {"task": task, "beta2": beta2, "at": int(at), "seed": int(seed), "arm": arm}
        losses = {"train": probe.excess, "late": probe.excess_late, "lost_steps": probe.lost_steps}
        yield run | losses | {"valid": valid}


def show(rows: list[dict[str, Any]]) -> None:
    """Print a line for each arm."""
    print(f"{'arm':44}{'train %':>9}{'late %':>9}{'steps':>7}" + "".join(f"{f'+{at}':>8}" for at in PLACES))
    for row in rows:
        key = " ".join(str(row[name]) for name in ("task", "beta2", "at", "seed", "arm"))
        lost = "" if row["lost_steps"] is None else f"{row['lost_steps']:.1f}"
        valid = "".join(f"{one:+8.2f}" for one in row["valid"].values())
        print(f"{key:44}{row['train']:+9.3f}{row['late']:+9.3f}{lost:>7}{valid}")


if __name__ == "__main__":
    main()
