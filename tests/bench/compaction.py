"""What compacting the history of a training run takes, and what its bytes and restores become.

    python -m tests.bench.compaction DIR OUT [--step-size 0.5 | --exact]

The checkpoints of DIR are committed one after another with a fixed step, in a process of its own. Then copies
of that history are compacted, each in a process of its own: to several depths, by shorter chains and with
older commits near later ones. CPU seconds are those of the whole process but for reading checkpoints; bytes
are those of the packs that value layers need. Restores are of every fourth commit, one after another, by CPU
seconds. What was measured stays in OUT; the same command goes on there. One thread. At last it prints the
rows of a table; `python -m tests.bench.compaction --rows - OUT` prints them again.
"""

import argparse
import json
import pathlib
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from mvcs import Repository
from mvcs.bench.runs.checkpoint_files import checkpoints
from tests.bench import results

DEPTHS = 8, 4, 16, 32
EVERY = 4
ARCHIVE = "archive"


def committed(folder: pathlib.Path, out: pathlib.Path, options: dict[str, float]) -> dict[str, object]:
    """Commit the checkpoints of a folder; return what each took."""
    torch.set_num_threads(1)
    spent: list[float] = []
    with Repository.init(out) as repo:
        repo.config_set("commit.threads", "1")
        for checkpoint in checkpoints(folder):
            state = torch.load(checkpoint.path, map_location="cpu", weights_only=True)
            started = time.process_time()
            repo.commit(state, step=checkpoint.step, **options)
            spent.append(time.process_time() - started)
    return {"commits": len(spent), "cpu": sum(spent), "memory": _memory()}


def compacted(folder: pathlib.Path, depth: int | None, hangs: bool) -> dict[str, object]:
    """Compact a history; return what that took, and what it is now."""
    with Repository.open(folder) as repo:
        started = time.process_time()
        report = repo.compact(max_depth=depth, for_archive=hangs)
        cpu = time.process_time() - started
        found = report.to_json() | {"cpu": cpu, "memory": _memory()}
        repo.gc(grace_days=0, execute=True)
    return {name: value for name, value in found.items() if name != "notes"}


def restored(folder: pathlib.Path) -> dict[str, object]:
    """Restore some commits, the newest first; return the CPU seconds of each."""
    spent = []
    with Repository.open(folder) as repo:
        ids = [info.id for info in repo.log()]
    for identifier in ids[::EVERY]:
        with Repository.open(folder) as repo:
            started = time.process_time()
            repo.checkout(identifier, numpy=True)
            spent.append(time.process_time() - started)
    return {"newest": spent[0], "mean": sum(spent) / len(spent), "most": max(spent)}


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _alone(out: pathlib.Path, name: str, work: list[str]) -> dict[str, object]:
    """Do something in a process of its own, once; its answer stays in a file."""
    path = out / f"{name}.json"
    if not path.exists():
        answer = subprocess.run(
            [sys.executable, "-m", "tests.bench.compaction", *work], check=True, stdout=subprocess.PIPE
        )
        path.write_bytes(answer.stdout)
    return json.loads(path.read_bytes())


def measured(folder: pathlib.Path, out: pathlib.Path, options: list[str]) -> dict[str, object]:
    """Measure one run."""
    history = out / "history"
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, object] = {"run": folder.name, "options": options}
    found["committed"] = _alone(out, "committed", ["--commit", str(folder), str(history), *options])
    found["restored"] = _alone(out, "restored", ["--restore", str(history), "-"])
    ways = [(f"{depth}-{kind}", str(depth), kind) for kind in ("shorter", "hanging") for depth in DEPTHS]
    for name, depth, kind in [(ARCHIVE, "-", "hanging"), *ways]:
        copy = out / "copy"
        if not (out / f"{name}-restored.json").exists():
            (out / f"{name}.json").unlink(missing_ok=True)
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(history, copy)
        work = ["--compact", str(copy), depth, *(["--hangs"] if kind == "hanging" else [])]
        found[name] = _alone(out, name, work) | {
            "restored": _alone(out, f"{name}-restored", ["--restore", str(copy), "-"])
        }
        print(name, json.dumps(found[name]), flush=True)
    shutil.rmtree(out / "copy", ignore_errors=True)
    return found


def rows(found: dict[str, Any]) -> list[str]:
    """Return a table of a run: CPU and memory over those of committing, bytes over those before, seconds."""
    committed, name = found["committed"], f"{found['run']}, {' '.join(found['options'])}"
    shown = [f"| {name} | as committed | | | | {_seconds(found['restored'])} |"]
    order = sorted(DEPTHS)
    ways = {f"{depth}-shorter": f"depth {depth}" for depth in order}
    ways |= {f"{depth}-hanging": f"depth {depth}, near later ones" for depth in order}
    for key, said in (ways | {ARCHIVE: "for an archive"}).items():
        each = found[key]
        shares = [each[what] / committed[what] for what in ("cpu", "memory")]
        figures = " | ".join(f"{share:.2f}" for share in shares)
        shown.append(
            f"| | {said} | {figures} | {each['after'] / each['before']:.3f} | {_seconds(each['restored'])} |"
        )
    return shown


def _seconds(restored: dict[str, float]) -> str:
    return " | ".join(f"{restored[which]:.2f}" for which in ("newest", "mean", "most"))


def main() -> None:
    """Measure, or do one of the things that are measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out")
    parser.add_argument("--step-size", type=float, default=0.5)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--hangs", action="store_true")
    for work in ("commit", "compact", "restore", "rows"):
        parser.add_argument(f"--{work}", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    settings = {} if given.exact else {"step_size": given.step_size}
    works: dict[str, Callable[[], dict[str, object]]] = {
        "commit": lambda: committed(given.folder, pathlib.Path(given.out), settings),
        "compact": lambda: compacted(given.folder, None if given.out == "-" else int(given.out), given.hangs),
        "restore": lambda: restored(given.folder),
    }
    for name, work in works.items():
        if getattr(given, name):
            print(json.dumps(work()))
            return
    if given.rows:
        print("\n".join(rows(json.loads((pathlib.Path(given.out) / "all.json").read_text()))))
        return
    options = ["--exact"] if given.exact else ["--step-size", str(given.step_size)]
    found = measured(given.folder, pathlib.Path(given.out), options)
    results.write(pathlib.Path(given.out) / "all.json", found)
    print("\n".join(rows(found)))


if __name__ == "__main__":
    main()
