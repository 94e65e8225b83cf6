"""Stores for other machines to read: the golden ones, and new ones of every kind of leaf and encoding."""

import pathlib
from collections.abc import Iterator

from mvcs import Repository
from mvcs.errors import NotFoundError
from tests.golden.history import digest
from tests.reference.states import KINDS_OF_BOUNDS, all_kinds, moved, training

GOLDEN = sorted((pathlib.Path(__file__).parents[1] / "golden").glob("*/expected.json"))
TRAINED = {
    "run": {},
    "run by steps": {"step_size": 0.5, "moments": "resume"},
    "run by tables": {"bins": 16, "moments": "light"},
}


def every_kind(steps: int) -> Iterator[dict[str, object]]:
    """Yield states of each kind of leaf that move a little."""
    values = all_kinds()
    for step in range(steps):
        yield values
        values = moved(values, step)


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
    return [path.parent / "store" for path in GOLDEN] + sorted(folder.glob("*/store"))


def layers(repository: Repository, commit: str) -> list[str | None]:
    """Return the digests of what a commit restores to from its value layer and from its exact one."""
    try:
        exact = digest(repository.checkout(commit, exact=True, numpy=True))
    except NotFoundError:
        exact = None
    return [digest(repository.checkout(commit, numpy=True)), exact]


def commits(place: pathlib.Path) -> dict[str, list[str | None]]:
    """Return by commit what mvcs restores here."""
    with Repository.open(place) as repository:
        return {info.id: layers(repository, info.id) for info in repository.log(all_branches=True)}
