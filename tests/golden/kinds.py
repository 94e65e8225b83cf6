"""Golden stores of each kind of leaf, form and encoding: of states that changed, and of a small training.

One more is of data that were moved, and of data that were dropped.
"""

import itertools
import json
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import NamedTuple

from mvcs import Repository
from mvcs.errors import NotFoundError
from tests.golden.history import digest
from tests.reference.states import all_kinds, moved, training

HERE = pathlib.Path(__file__).parent / "kinds"


def every_kind(steps: int) -> Iterator[dict[str, object]]:
    """Yield states of each kind of leaf that move a little."""
    values = all_kinds()
    for step in range(steps):
        yield values
        values = moved(values, step)


class Kind(NamedTuple):
    """What one of these stores holds."""

    states: Callable[[int], Iterator[dict[str, object]]]
    steps: int
    exact_layers: int
    bounds: dict[str, object]
    then: Callable[[Repository], None] = lambda _: None


def move_and_drop(repository: Repository) -> None:
    """Store all commits again with shorter chains, drop the oldest data, and delete what is left over."""
    repository.compact(max_depth=1)
    repository.set_retention(last=3)
    repository.apply_retention()
    for _ in range(2):
        repository.gc(grace_days=0, wait_days=0, execute=True)


KINDS = {
    "lattice": Kind(every_kind, 3, 1, {"step_size": 0.5}),
    "tables": Kind(every_kind, 3, 0, {"bins": 253, "prune": 0.3, "protect": 0.01}),
    "exact": Kind(training, 2, 0, {}),
    "resume": Kind(training, 3, 0, {"step_size": 0.5, "moments": "resume"}),
    "light": Kind(training, 3, 0, {"bins": 16, "moments": "light"}),
    "moved": Kind(training, 5, 0, {"step_size": 0.5}, move_and_drop),
}


def make(folder: pathlib.Path) -> None:
    """Write all of them below a folder, with what must be found in each."""
    for name, kind in KINDS.items():
        with Repository.init(folder / name, store=str(folder / name / "store")) as repository:
            repository.config_set("user.name", "Ada")
            repository.config_set("retention.exact_layers", str(kind.exact_layers))
            for step, values in zip(itertools.count(), kind.states(kind.steps)):
                repository.commit(values, step=step, **kind.bounds)
            kind.then(repository)
        shutil.rmtree(folder / name / "store/tmp")
        shutil.rmtree(folder / name / ".mvcs")
        expected = json.dumps(commits(folder / name / "store"), indent=1)
        (folder / name / "expected.json").write_text(f"{expected}\n")


def layer(repository: Repository, commit: str, *, exact: bool) -> str | None:
    """Return the digest of what a commit restores to from a layer; None where that was dropped."""
    try:
        return digest(repository.checkout(commit, exact=exact, numpy=True))
    except NotFoundError:
        return None


def commits(place: pathlib.Path) -> dict[str, list[str | None]]:
    """Return by commit what mvcs restores here."""
    with Repository.open(place) as repository:
        return {
            info.id: [layer(repository, info.id, exact=exact) for exact in (False, True)]
            for info in repository.log(all_branches=True)
        }
