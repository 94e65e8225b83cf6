"""A training run in a process of its own, on a CUDA device if asked to: one step for each line on stdin."""

import json
import logging
import sys
from pathlib import Path

import torch
from runs import CudaRun, Run

from mvcs import Repository
from mvcs.train import Checkpointer

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    torch.set_num_threads(1)
    folder, steps, every, result = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    run = CudaRun() if sys.argv[5:] == ["cuda"] else Run()
    with Checkpointer(
        Repository.open(folder), *run.parts, **run.options, every=every, step_size=0.5
    ) as checkpointer:
        start = checkpointer.resume()
        sys.stdout.write(f"from {start}\n")
        sys.stdout.flush()
        for step in range(start, steps):
            sys.stdin.readline()
            loss = run.step()
            checkpointer.after_step(step, {"loss": loss})
            sys.stdout.write(f"done {step}\n")
            sys.stdout.flush()
    Path(result).write_text(json.dumps(run.weights()))
