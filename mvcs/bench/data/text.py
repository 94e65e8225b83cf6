"""Text to train on that every machine with Python has: the standard library's source, and prose about it."""

import random
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
from numpy.typing import NDArray

from mvcs.errors import NotFoundError

Text = NDArray[np.uint8]

_FOREIGN = frozenset({"site-packages", "dist-packages", "__pycache__"})
_VALID_SHARE = 0.05
_VALID_PAGES = 0.25


@dataclass(frozen=True)
class Corpus:
    """Bytes to train on and bytes to validate on, from different files."""

    train: Text
    valid: Text


def standard_library(folder: Path | None = None) -> Corpus:
    """Read every `.py` file of the standard library, split by file, always in the same way.

    Args:
        folder: where the files lie instead.

    Raises:
        NotFoundError: there are fewer than two.
    """
    root = folder or Path(sysconfig.get_path("stdlib"))
    files = sorted(path for path in root.rglob("*.py") if not _FOREIGN & set(path.relative_to(root).parts))
    if len(files) < 2:
        raise NotFoundError(f"there are no Python files in '{root}'", hint="install the standard library")
    random.Random(0).shuffle(files)  # noqa: S311  # a seeded split is not a secret
    valid = max(1, round(len(files) * _VALID_SHARE))
    return Corpus(_joined(files[valid:]), _joined(files[:valid]))


def documentation() -> Corpus:
    """Return the pages of documentation that `help()` shows, split by page, always in the same way."""
    pages = [page.encode() for _, page in sorted(topics.items())]
    random.Random(0).shuffle(pages)  # noqa: S311  # a seeded split is not a secret
    valid = max(1, round(len(pages) * _VALID_PAGES))
    parts = (pages[valid:], pages[:valid])
    return Corpus(*(np.frombuffer(b"\n\n".join(part), np.uint8) for part in parts))


def held_out_text(file: Path) -> Corpus:
    """Return a corpus to evaluate on only: nothing to train on, and a file of text that a run has not seen.

    Raises:
        NotFoundError: it cannot be read.
    """
    try:
        return Corpus(np.empty(0, np.uint8), np.frombuffer(file.read_bytes(), np.uint8))
    except OSError as error:
        raise NotFoundError(f"cannot read '{file}': {error.strerror or error}") from error


def _joined(files: list[Path]) -> Text:
    return np.frombuffer(b"\n".join(path.read_bytes() for path in files), np.uint8)
