"""Fashion-MNIST as its authors publish it: IDX files, compressed or not, in a folder of the machine."""

import gzip
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mvcs.errors import FileFormatError, NotFoundError

FOLDER = Path("/usr/share/datasets/fashion-mnist")
"""Where the Debian package dataset-fashion-mnist puts it."""

Pixels = NDArray[np.uint8]

_UNSIGNED = 8


@dataclass(frozen=True)
class Images:
    """Grey images and their classes.

    Attributes:
        train: uint8 [n, 28, 28].
        train_labels: uint8 [n].
        test: uint8 [m, 28, 28].
        test_labels: uint8 [m].
    """

    train: Pixels
    train_labels: Pixels
    test: Pixels
    test_labels: Pixels


def fashion_mnist(folder: Path = FOLDER) -> Images:
    """Read the four files.

    Raises:
        NotFoundError: one is missing.
        FileFormatError: one is not an IDX file of bytes.
    """
    train, test = _read(folder, "train-images", 3), _read(folder, "t10k-images", 3)
    train_labels, test_labels = _read(folder, "train-labels", 1), _read(folder, "t10k-labels", 1)
    if len(train) != len(train_labels) or len(test) != len(test_labels):
        raise FileFormatError(f"images and labels in '{folder}' differ in number")
    return Images(train, train_labels, test, test_labels)


def _read(folder: Path, name: str, dimensions: int) -> Pixels:
    found = sorted(path for path in folder.rglob(f"{name}*") if path.is_file())
    if not found:
        raise NotFoundError(
            f"there is no '{name}' of Fashion-MNIST in '{folder}'",
            hint="install the Debian package dataset-fashion-mnist, or name its folder with --data",
        )
    data = found[0].read_bytes()
    try:
        return _parse(gzip.decompress(data) if found[0].suffix == ".gz" else data, dimensions)
    except (OSError, EOFError, ValueError) as error:
        raise FileFormatError(f"'{found[0]}' is not an IDX file of {dimensions} dimensions") from error


def _parse(data: bytes, dimensions: int) -> Pixels:
    if data[:4] != bytes([0, 0, _UNSIGNED, dimensions]):
        raise ValueError("another magic number")
    shape = [int.from_bytes(data[4 * axis : 4 * axis + 4], "big") for axis in range(1, dimensions + 1)]
    pixels = np.frombuffer(data, np.uint8, offset=4 * dimensions + 4)
    if pixels.size != math.prod(shape):
        raise ValueError("another length")
    return pixels.reshape(shape)
