"""What an exact commit of many small tensors takes, whether they changed or not.

    python -m tests.bench.small_tensors [--tensors 20000]

Tensors of 256 float32 values are committed to one open repository: at first, where all moved twice, where one
did, and where none did. Seconds are the processor's, with one thread.
"""

import argparse
import tempfile
import time

import torch

from mvcs import Repository

VALUES = 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tensors", type=int, default=20_000)
    count = parser.parse_args().tensors
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    state = {f"layers.{i // 10}.p{i % 10}": torch.randn(VALUES, generator=generator) for i in range(count)}
    moved = {"at first": 0, "all moved": count, "all moved again": count, "one moved": 1, "none moved": 0}
    with tempfile.TemporaryDirectory() as folder, Repository.init(folder) as repo:
        repo.config_set("commit.threads", "1")
        for step, (what, some) in enumerate(moved.items()):
            for tensor in list(state.values())[:some]:
                tensor.add_(torch.randn(VALUES, generator=generator), alpha=1e-2)
            began = time.process_time()
            repo.commit({"model": state}, step=step)
            print(f"{what}: {time.process_time() - began:.2f} s")


if __name__ == "__main__":
    main()
