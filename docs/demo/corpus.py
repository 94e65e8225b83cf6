"""The text of the demo: the Python standard library's own source files."""

import random
import sysconfig
from dataclasses import dataclass
from pathlib import Path

LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"}


@dataclass(frozen=True)
class Corpus:
    """How many files and bytes each part has."""

    train_files: int
    train_bytes: int
    valid_files: int
    valid_bytes: int
    test_files: int
    test_bytes: int


def write_corpus(folder: Path, seed: int = 0, share: float = 0.05) -> Corpus:
    """Write `train.bin`, `valid.bin` and `test.bin`; the last two have this share of the files each."""
    root = Path(sysconfig.get_path("stdlib"))
    files = sorted(path for path in root.rglob("*.py") if not LEFT_OUT & set(path.relative_to(root).parts))
    random.Random(seed).shuffle(files)  # noqa: S311 - a seeded split is not a secret
    cut = max(1, int(len(files) * share))
    parts = {"train.bin": files[2 * cut :], "valid.bin": files[:cut], "test.bin": files[cut : 2 * cut]}
    folder.mkdir(parents=True)
    counts = [(len(part), _join(part, folder / name)) for name, part in parts.items()]
    return Corpus(*counts[0], *counts[1], *counts[2])


def _join(files: list[Path], target: Path) -> int:
    with target.open("wb") as out:
        return sum(out.write(path.read_bytes()) for path in files)
