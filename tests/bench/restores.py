"""What restoring from bounded commits costs a training run, at the ratio of the same run.

    python -m tests.bench.restores DIR OUT --task gpt --at 1000 1350 1700 --history REPOSITORY
    python -m tests.bench.restores DIR OUT --task gpt --at 1000 1350 1700 --control 1
    python -m tests.bench.restores DIR OUT --task gpt --show

Training goes on from the recorded checkpoint of the first of the given steps and is committed at the
recording's cadence. At every given step model and optimizer are replaced by the value layer of the commit
made there, as a resumed run without exact layers does it. `--history` names the repository that `mvcs bench
bounded` left: its commits up to the first restore are those of this run, and count. A control arm is restored
exactly at the same steps, and every weight moves by one unit in the last place, up or down by the seed; with
seed 0 none does. Losses are of the whole report sample, those of `cnn` of all test pictures. A killed run
goes on where it was. One thread.
"""

import argparse
import json
import math
import pathlib
import shutil
import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from mvcs import Repository
from mvcs.bench.data.text import Corpus
from mvcs.bench.history import with_mechanisms
from mvcs.bench.restarts import Commits, Noise, Restores
from mvcs.bench.runs.checkpoint_files import checkpoints
from mvcs.bench.runs.run_maker import load_recorded, one_thread, train_step
from mvcs.bench.runs.tasks import Task, everything, samples_of
from mvcs.bench.tasks.catalog import RECIPES, task_of
from mvcs.bench.tasks.next_byte import GptTask
from mvcs.commits import Mechanisms
from tests.bench import results

BRANCH, RESULT = "restored", "result.json"


class Arm:
    """One run that is restored at some steps, and the folder it keeps everything in."""

    def __init__(
        self, task: Task, source: pathlib.Path, folder: pathlib.Path, at: list[int], restores: Restores
    ) -> None:
        self.task, self.folder, self.at, self.restores = task, folder, at, restores
        found = checkpoints(source)
        self.steps, self.every = found[-1].step, found[1].step - found[0].step
        self.first = next(one.path for one in found if one.step == at[0])
        self.learner = task.learner(task.model())
        self.restored: list[dict[str, object]] = []
        self.sample = everything(task) if task.name == "cnn" else samples_of(task).report
        self.told = self.sample.first(task.sample_sizes.reported)

    def run(self) -> None:
        """Train to the end, or go on where a killed run was, and write what was found."""
        done, began = self.take_up(), time.perf_counter()
        self.arrive(done)
        while done < self.steps:
            for step in range(done, done + self.every):
                train_step(self.task, self.learner, step, self.steps, 0)
            done += self.every
            self.keep(done)
            self.arrive(done)
        found = {"at": self.at, "restores": self.restored, "seconds": time.perf_counter() - began}
        found |= {"final": self.sample.metrics(self.learner.model)} | self.restores.sizes()
        (self.folder / RESULT).write_text(json.dumps(found, indent=1))
        self.kept.unlink(missing_ok=True)

    def take_up(self) -> int:
        """Load where a killed run was, or the recorded checkpoint, and return the steps done."""
        if not self.kept.exists():
            load_recorded(self.first, self.learner)
            return self.at[0]
        state = torch.load(self.kept, weights_only=True)
        self.learner.load_state_dict(state)
        self.restored = json.loads(state["restored"])
        return int(state["step"])

    def keep(self, done: int) -> None:
        """Write the state as it is before it is committed."""
        part = self.kept.with_suffix(".part")
        state = self.learner.state_dict() | {"step": done}
        torch.save(state | {"restored": json.dumps(self.restored)}, part)
        part.replace(self.kept)

    def arrive(self, done: int) -> None:
        """Commit, and restore where that is due."""
        self.restores.commit(self.learner, done)
        if done in self.at:
            before = self.told.metrics(self.learner.model)
            self.restores.restore(self.learner, done)
            after = self.told.metrics(self.learner.model)
            self.restored.append({"step": done, "before": before, "after": after})
            print(json.dumps(self.restored[-1]), flush=True)

    @property
    def kept(self) -> pathlib.Path:
        """Where the state of a killed run lies."""
        return self.folder / "kept.pt"


def given_task(name: str, train: pathlib.Path | None, text: pathlib.Path | None) -> Task:
    """Return a task, `gpt` on the given text instead of the standard library's."""
    if train is None or text is None:
        return task_of(name)
    return GptTask(corpus=Corpus(np.fromfile(train, np.uint8), np.fromfile(text, np.uint8)))


def begin(folder: pathlib.Path, history: pathlib.Path | None) -> None:
    """Make the repository of an arm: a copy of what `mvcs bench bounded` left, or a new one."""
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    if history is None:
        Repository.init(folder).close()
        return
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(history, part)
    part.rename(folder)


def summary(out: pathlib.Path) -> list[dict[str, object]]:
    """Return every arm that has ended, and what bounded ones exceed the controls of the same steps by."""
    found = {path.parent.name: json.loads(path.read_text()) for path in sorted(out.glob(f"*/{RESULT}"))}
    arms = []
    for name, arm in found.items():
        same = [other for other in found.values() if other["at"] == arm["at"]]
        controls = [other["final"] for other in same if "everything" not in other]
        sizes = {key: arm[key] for key in ("weights", "everything") if key in arm}
        told = {"arm": name, "at": arm["at"], "final": arm["final"], "controls": len(controls)} | sizes
        if sizes and controls:
            told["excess"] = {
                metric: excess(value, [one[metric] for one in controls])
                for metric, value in arm["final"].items()
            }
        arms.append(told)
    return arms


def told(arms: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each arm, and one for each metric in which a bounded one exceeds its controls."""
    for arm in arms:
        final = ", ".join(f"{metric} {value:.5f}" for metric, value in arm["final"].items())
        sizes = f"; CR-w {arm['weights']:.2f}, CR-all {arm['everything']:.2f}" if "everything" in arm else ""
        yield f"{arm['arm']}: restored at {arm['at']}, {final}{sizes}"
        for metric, found in arm.get("excess", {}).items():
            doubt = "" if found["two_deviations"] is None else f" ± {found['two_deviations']:.3%}"
            yield f"  {metric} against {arm['controls']} controls: {found['excess']:+.3%}{doubt}"


def excess(value: float, controls: list[float]) -> dict[str, float | None]:
    """Return by how much a value exceeds controls, with two standard deviations of one more such run."""
    mean = statistics.fmean(controls)
    deviation = statistics.stdev(controls) * math.sqrt(1 + 1 / len(controls)) if len(controls) > 1 else None
    return {
        "excess": value / mean - 1,
        "two_deviations": None if deviation is None else 2 * deviation / mean,
    }


def main() -> None:
    """Run one arm, or show those that have ended."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=pathlib.Path, metavar="DIR")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("--task", choices=tuple(RECIPES), required=True)
    parser.add_argument("--at", type=int, nargs="+", help="steps of the restores")
    parser.add_argument("--control", type=int, metavar="SEED", help="the arm restored exactly, plus noise")
    parser.add_argument("--history", type=pathlib.Path, help="repository of the commits before the first")
    parser.add_argument("--max-degradation", type=float, default=0.01)
    parser.add_argument("--moments", default="light")
    parser.add_argument("--hysteresis", type=float, default=0.5, help="the largest that is searched")
    parser.add_argument("--without", action="append", default=[], help="a mechanism of commits to leave out")
    parser.add_argument("--train-text", type=pathlib.Path, help="for gpt: what the recorded run learned from")
    parser.add_argument("--text", type=pathlib.Path, help="for gpt: what it has not seen")
    parser.add_argument("--show", action="store_true")
    results.add_option(parser)
    given = parser.parse_args()
    if given.show:
        arms = summary(given.out)
        print("\n".join(told(arms)))
        results.write(given.json, {"load": results.load(), "task": given.task, "arms": arms})
        return
    task = given_task(given.task, given.train_text, given.text)
    with one_thread(0):
        arm(task, given).run()


def arm(task: Task, given: argparse.Namespace) -> Arm:
    """Return the arm that was asked for."""
    what = "bounded" if given.control is None else f"control-{given.control}"
    kind = "-without-".join([f"{len(given.at)}-{what}", *given.without])
    folder = given.out / kind
    folder.mkdir(parents=True, exist_ok=True)
    if given.control is not None:
        return Arm(task, given.source, folder, given.at, Noise(given.control))
    begin(folder / "repository", given.history)
    options = {
        "evaluate": samples_of(task).search.evaluate,
        "search_batches": task.sample_sizes.searched_first,
        "max_degradation": given.max_degradation,
        "moments": given.moments,
        "step_size": 0.5,
        "hysteresis": given.hysteresis,
    }
    mechanisms = Mechanisms.without(given.without)
    repository = with_mechanisms(folder / "repository", mechanisms)
    if BRANCH not in {branch.name for branch in repository.branches()} and repository.head():
        repository.switch(BRANCH, create_from=f"step:{given.at[0]}")
    return Arm(task, given.source, folder, given.at, Commits(repository, options))


if __name__ == "__main__":
    main()
