"""Stop every operation before each of its changes: what was published is whole, and work goes on."""

import hashlib
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import StorageError
from tests.repository.states import content, leaves, state, write_model
from tests.store.faults import Disk, Stopped, full_disk

Content = dict[str, tuple[str, tuple[int, ...], bytes]]


@dataclass(frozen=True)
class World:
    """A folder with a repository `work` and a remote `far`, and what every commit in it restores.

    Attributes:
        folder: where both lie.
        late: a clone of the remote.
        commits: what each commit restores, by id.
        far: what the tips of the remote restore, by id.
        whole: digests of stores that were checked and found whole: equal bytes need no second look.
    """

    folder: Path
    late: Path
    commits: dict[str, Content]
    far: dict[str, Content]
    whole: set[bytes] = field(default_factory=set)

    def copy(self, target: Path, *, late: bool = False) -> Path:
        shutil.copytree(self.folder, target, symlinks=True)
        with Repository.open(target / "work") as repo:
            repo.config_set("remote.origin.url", str(target / "far"))
        if late:
            shutil.copytree(self.late, target / "late", symlinks=True)
            with Repository.open(target / "late") as repo:
                repo.config_set("remote.origin.url", str(target / "work"))
        return target


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    with Repository.init(folder / "work") as repo:
        repo.config_set("user.name", "Ada")
        repo.commit(state(0), message="exact")
        repo.create_tag("first", message="the first")
        repo.commit(state(1), message="bounded", bins=16, step=1)
        repo.note("HEAD", {"loss": 0.5})
        repo.add_remote("origin", str(folder / "far"))
        repo.push(tags=True)
        far = {repo.head().id: content(repo, "HEAD")}
        for number in (2, 3):
            repo.commit(state(number), message="bounded", step_size=0.5, step=number)
        for name in ("other", "kept"):
            write_model(folder / "work" / f"{name}.safetensors", 3)
            repo.commit_files([folder / "work" / f"{name}.safetensors"], message=name, bins=16)
        (folder / "work" / "other.safetensors").unlink()
        repo.create_branch("side", "HEAD~1")
        commits = {commit.id: content(repo, commit.id) for commit in repo.log()}
    late = folder.with_name(f"{folder.name}-late")
    Repository.clone(str(folder / "far"), late).close()
    return World(folder, late, commits, far)


def commit_exact(folder: Path) -> None:
    with Repository.open(folder / "work") as repo:
        repo.commit(state(4), message="again")


def commit_bounded(folder: Path) -> None:
    """Also drops the oldest exact layer."""
    with Repository.open(folder / "work") as repo:
        repo.commit(state(4), message="again", step_size=0.5, moments="light")


def commit_files(folder: Path) -> None:
    write_model(folder / "work" / "model.safetensors", 7)
    with Repository.open(folder / "work") as repo:
        repo.commit_files([folder / "work" / "model.safetensors"], message="file", step_size=0.25)


def tag(folder: Path) -> None:
    with Repository.open(folder / "work") as repo:
        if all(each.name != "v1" for each in repo.tags()):
            repo.create_tag("v1", "HEAD~1", "one")


def note(folder: Path) -> None:
    with Repository.open(folder / "work") as repo:
        repo.note("HEAD~1", {"accuracy": 0.25})


def branch(folder: Path) -> None:
    with Repository.open(folder / "work") as repo:
        if all(each.name != "topic" for each in repo.branches()):
            repo.create_branch("topic", "HEAD~1")


def delete_branch(folder: Path) -> None:
    with Repository.open(folder / "work") as repo:
        if any(each.name == "side" for each in repo.branches()):
            repo.delete_branch("side")


def switch(folder: Path) -> None:
    with Repository.open(folder / "work") as repo:
        repo.switch("side")
        repo.switch("main")
        assert {entry.state for entry in repo.status().entries} == {"unmodified"}


def push(folder: Path) -> None:
    with Repository.open(folder / "work") as repo:
        repo.push(tags=True, all_branches=True)
        assert repo.push(tags=True, all_branches=True).packs_sent == 0


def push_exact(folder: Path) -> None:
    with Repository.open(folder / "work") as repo:
        repo.push(exact=True)


def clone(folder: Path) -> None:
    # From the moment it has a HEAD it is a whole repository.
    whole = (folder / "copy/.mvcs/HEAD").exists()
    target = folder / "copy"
    with Repository.open(target) if whole else Repository.clone(str(folder / "work"), target) as repo:
        assert {each.name for each in repo.branches()} == {"main", "side"}
        repo.checkout_files("main")
        assert {entry.state for entry in repo.status().entries} == {"unmodified"}


def fetch(folder: Path) -> None:
    with Repository.open(folder / "late") as repo:
        repo.fetch()


def pull(folder: Path) -> None:
    fetch(folder)
    with Repository.open(folder / "late") as repo:
        repo.pull()


def first_commit(folder: Path) -> None:
    target = folder / "fresh"
    whole = (target / ".mvcs/HEAD").exists()
    with Repository.open(target) if whole else Repository.init(target) as repo:
        repo.commit(state(0))


OPERATIONS = [
    commit_exact,
    commit_bounded,
    commit_files,
    tag,
    note,
    branch,
    delete_branch,
    switch,
    push,
    push_exact,
    fetch,
    pull,
    clone,
    first_commit,
]
STOPS, FULL_DISKS = 4, 2  # of each operation in the quick form, spread over its changes
# A new store is probed by racing writers, which is many changes.
LONG = [fetch, pull, clone, first_commit, push]


def repositories(folder: Path) -> list[Path]:
    """Every store below `folder` that says that it is one."""
    return sorted(path.parent for path in folder.rglob("mvcs.json"))


def digest(store: Path, folder: Path) -> bytes:
    """Digest all files of a store, wherever the folder lies in which everything is."""
    found = hashlib.sha256()
    for path in sorted(path for path in store.rglob("*") if path.is_file()):
        inside = path.read_bytes().replace(bytes(folder), b"")
        found.update(f"{path.relative_to(store)}\0{len(inside)}\0".encode() + inside)
    return found.digest()


def check(world: World, folder: Path, *, values: bool = True) -> None:
    """From the bytes alone: all stores are whole, and what was published is there, bit for bit.

    Without ``values`` it is told by the hashes alone that older commits still are.
    """
    compared = {folder / "work" / ".mvcs": world.commits, folder / "far": world.far}
    for store in repositories(folder):
        found = digest(store, folder)
        if found not in world.whole:
            check_store(store, compared.get(store, {}) if values else {})
        if values:
            world.whole.add(found)


def check_store(store: Path, values: dict[str, Content]) -> None:
    with Repository.open(store) as repo:
        assert repo.fsck().problems == [], store
        if not (store / "HEAD").exists() and store.name == ".mvcs":
            return  # an interrupted init or clone, which says so
        for each in repo.branches():
            if each.commit not in values:
                repo.checkout(each.name, numpy=True)
        for commit, expected in values.items():
            assert content(repo, commit) == expected


def prepare(operation: Callable[[Path], None], world: World, target: Path) -> Path:
    folder = world.copy(target, late=operation in (fetch, pull))
    if operation is commit_files:
        write_model(folder / "work" / "model.safetensors", 7)
    return folder


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_stop_before_changes(operation: Callable[[Path], None], world: World, tmp_path: Path) -> None:
    stop_before(operation, world, tmp_path, STOPS)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_stop_before_each_change(operation: Callable[[Path], None], world: World, tmp_path: Path) -> None:
    stop_before(operation, world, tmp_path, None)


def spread(changes: int, stops: int | None) -> list[int]:
    """Some moments among the changes of an operation, the first and the last always; all without `stops`."""
    if stops is None or changes <= stops:
        return list(range(changes))
    return sorted({round(number * (changes - 1) / (stops - 1)) for number in range(stops)})


def stop_before(operation: Callable[[Path], None], world: World, tmp_path: Path, stops: int | None) -> None:
    folder = prepare(operation, world, tmp_path / "count")
    with Disk(folder) as disk:
        operation(folder)
    check(world, folder)
    assert disk.changes
    for allowed in spread(disk.changes, stops):
        folder = prepare(operation, world, tmp_path / str(allowed))
        with Disk(folder, allowed) as stopping, suppress(Stopped):
            operation(folder)
        # The probe of a new store races, and a pack may need a new folder: changes are now more, now less.
        assert stopping.refused or operation in LONG or allowed > disk.changes - 4
        check(world, folder)
        operation(folder)
        check(world, folder, values=stops is None)
        shutil.rmtree(folder)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_a_full_disk(operation: Callable[[Path], None], world: World, tmp_path: Path) -> None:
    fill_at(operation, world, tmp_path, FULL_DISKS)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_a_full_disk_at_each_change(operation: Callable[[Path], None], world: World, tmp_path: Path) -> None:
    fill_at(operation, world, tmp_path, None)


def fill_at(operation: Callable[[Path], None], world: World, tmp_path: Path, stops: int | None) -> None:
    folder = prepare(operation, world, tmp_path / "count")
    with Disk(folder) as disk:
        operation(folder)
    for allowed in spread(disk.changes, stops)[1:]:
        folder = prepare(operation, world, tmp_path / str(allowed))
        with Disk(folder, allowed, full_disk), suppress(StorageError):
            operation(folder)
        check(world, folder)
        operation(folder)
        check(world, folder, values=stops is None)
        shutil.rmtree(folder)


def test_the_commit_before_is_the_tip_until_the_record_is_there(world: World, tmp_path: Path) -> None:
    """Whatever moment it is, the tip is the old commit or the new one, never something between."""
    tips = set()
    expected = leaves(state(4))
    for allowed in range(60):
        folder = world.copy(tmp_path / str(allowed))
        with Repository.open(folder / "work") as repo:
            before = repo.head().id
        stopped = False
        try:
            with Disk(folder, allowed):
                commit_exact(folder)
        except Stopped:
            stopped = True
        with Repository.open(folder / "work") as repo:
            tip = repo.head()
            tips.add((tip.id == before, stopped))
            assert tip.id == before or (tip.parents == [before] and content(repo, tip.id) == expected)
        shutil.rmtree(folder)
        if not stopped:
            break
    assert (True, True) in tips
    assert (False, False) in tips
