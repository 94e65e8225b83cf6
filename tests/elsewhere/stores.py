"""Stores for other machines to read: the golden ones, and new ones of every kind of leaf and encoding."""

import pathlib
from collections.abc import Iterator

from mvcs import Repository
from tests.golden.kinds import every_kind
from tests.reference.states import KINDS_OF_BOUNDS, training

GOLDEN = [pathlib.Path(__file__).parents[1] / "golden" / name for name in ("huffman", "v1")]
TRAINED = {
    "run": {},
    "run by steps": {"step_size": 0.5, "moments": "resume"},
    "run by tables": {"bins": 16, "moments": "light"},
}


def write(
    place: pathlib.Path, states: Iterator[dict[str, object]], coder: str, **bounds: float | str
) -> None:
    """Commit states to a new store."""
    with Repository.init(place, store=str(place / "store")) as repository:
        repository.config_set("delta.coder", coder)
        for step, values in enumerate(states):
            repository.commit(values, step=step, **bounds)


def make(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return the golden stores, and new ones that are written into a folder."""
    for name in ("exact", "lattice", "pruned table"):
        write(folder / name, every_kind(3), "auto", **KINDS_OF_BOUNDS[name])
    write(folder / "huffman", every_kind(3), "huffman", **KINDS_OF_BOUNDS["pruned table"])
    for name, bounds in TRAINED.items():
        write(folder / name, training(3), "auto", **bounds)
    return [place / "store" for place in GOLDEN] + sorted(folder.glob("*/store"))
