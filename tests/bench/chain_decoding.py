"""What restoring costs beside its kernels: `python -m tests.bench.chain_decoding OUT [--commits 30]`.

Bounded histories of states of 1,000 tensors are made in OUT, where they are not yet, and their newest commits
are restored: with tensors that are all alike, and with small and larger ones. *Kernels* are the native
decoders, those that give codes their values, and the hashes. *Decoding* is what goes on from known footers to
decoded entries; *restoring* is all of a checkout. Seconds are the processor's, the least of several; a ratio
is of one run, all parts of it.
"""

import argparse
from collections import Counter
from pathlib import Path
from time import thread_time
from typing import Any

import torch

import mvcs_native
from mvcs import Repository
from mvcs.bench.codecs.clock import seconds
from mvcs.quantize import restore
from mvcs.store.packs import entry
from mvcs.store.reading.decoded_entries import DecodedEntries

SHAPES = {
    "1,000 of 6,144": [(64, 96)] * 1000,
    "250 of 64, 250 of 512, 400 of 6,144, 100 of 65,536": (
        [(64,)] * 250 + [(512,)] * 250 + [(64, 96)] * 400 + [(256, 256)] * 100
    ),
    "1,000 of 64": [(64,)] * 1000,
}
KERNELS = (
    *((mvcs_native, f"decode_{name}") for name in ("rans_codes", "rans_moves", "planes", "residual")),
    *((mvcs_native, f"{name}unlattice") for name in ("", "log_", "root_")),
    (restore, "digest"),
    (entry, "checksum"),
)
TIMES = 7


def made(folder: Path, shapes: list[tuple[int, ...]], commits: int) -> None:
    """Commit a state that moves by a tenth of its size from commit to commit."""
    torch.manual_seed(0)
    model = {f"layer{number}": torch.randn(shape) * 0.05 for number, shape in enumerate(shapes)}
    with Repository.init(folder) as repo:
        repo.config_set("retention.exact_layers", "0")
        for step in range(commits):
            repo.commit({"model": model}, step=step, step_size=0.5)
            for weights in model.values():
                weights.add_(torch.randn_like(weights), alpha=0.005)


class Spent:
    """Seconds of this thread within functions that were wrapped, by part."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def watch(self, owner: object, name: str, part: str) -> None:
        """Count what a function takes, calls within itself once."""
        inner, within = getattr(owner, name), [0]

        def watched(*given: Any, **named: Any) -> Any:
            within[0] += 1
            start = thread_time()
            try:
                return inner(*given, **named)
            finally:
                within[0] -= 1
                if not within[0]:
                    self.seconds[part] += thread_time() - start

        setattr(owner, name, watched)


def restored(folder: Path) -> float:
    """Restore the newest commit in a fresh repository."""
    with Repository.open(folder) as repo:
        return seconds(lambda: repo.checkout("HEAD", numpy=True))


def main() -> None:
    """Print a row for each history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--commits", type=int, default=30)
    given = parser.parse_args()
    torch.set_num_threads(1)
    plain = {}
    for name, shapes in SHAPES.items():
        folder = given.out / f"{sum(map(torch.Size.numel, map(torch.Size, shapes)))}-{given.commits}"
        if not folder.exists():
            made(folder, shapes, given.commits)
        plain[name] = folder, min(restored(folder) for _ in range(TIMES))
    spent = Spent()
    for owner, function in KERNELS:
        spent.watch(owner, function, "kernels of values" if "unlattice" in function else function)
    spent.watch(DecodedEntries, "content", "decoding")
    print("| tensors | kernels | of chains | decoding | ratio | restoring | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name, (folder, took) in plain.items():
        found = []
        for _ in range(TIMES):
            spent.seconds.clear()
            restored(folder)
            found.append(dict(spent.seconds))
        least = {part: min(one[part] for one in found) for part in found[0]}
        decoding = least.pop("decoding")
        chains = sum(took for part, took in least.items() if part.startswith("decode") or part == "checksum")
        kernels = sum(least.values())
        row = f"{kernels:.3f} | {chains:.3f} | {decoding:.3f} | {decoding / chains:.2f}"
        print(f"| {name} | {row} | {took:.3f} | {took / kernels:.2f} |", flush=True)


if __name__ == "__main__":
    main()
