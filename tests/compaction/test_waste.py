"""Packs of commits that are gone, of which others need a small part."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from mvcs import NotFoundError, Repository
from mvcs.restore import partly_needed
from mvcs.store import pack_path
from tests.repository.states import content

SMALL, HUGE = "small.safetensors", "huge.safetensors"


def write(folder: Path, name: str, seed: int, size: int) -> None:
    values = np.random.default_rng(seed).standard_normal(size).astype(np.float32)
    save_file({"w": values}, folder / name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A history whose second commit held a huge file until it was amended, and one commit behind that."""
    with Repository.init(tmp_path) as repo:
        write(tmp_path, SMALL, 0, 1000)
        repo.commit_files([tmp_path / SMALL], message="first")
        write(tmp_path, SMALL, 1, 30_000)
        write(tmp_path, HUGE, 2, 200_000)
        repo.commit_files([tmp_path / SMALL, tmp_path / HUGE], message="by mistake")
        repo.amend([tmp_path / SMALL], message="second", only=True)
        write(tmp_path, "other.safetensors", 3, 1000)
        repo.commit_files([tmp_path / "other.safetensors"], message="third")
    return tmp_path


def needed(repo: Repository) -> dict[str, int]:
    """Return the packs that the tip needs, with their bytes."""
    backend = repo._session.place.backend
    tip = repo._session.resolver.resolve("HEAD").id
    return {
        name: backend.size(pack_path(name)) or 0
        for name in repo._session.store.manifests.placement(tip).packs
    }


def test_what_commits_need_of_such_a_pack_is_stored_again(folder: Path) -> None:
    with Repository.open(folder) as repo:
        before, was = needed(repo), [content(repo, f"HEAD~{back}") for back in range(3)]
        found = repo.stats()
        assert found.unused_bytes > 600_000
        assert found.leant_bytes > found.unused_bytes
        assert found.unreached_bytes < 10_000
        assert sum(before.values()) > 700_000
        plan, done = repo.compact(dry_run=True), repo.compact()
        assert any("unused" in note for note in done.notes)
        assert done.after == pytest.approx(plan.after, rel=0.01)
        assert sum(needed(repo).values()) < 200_000
        assert repo.stats().leant_bytes == 0
        assert not repo.compact().rewritten
    with Repository.open(folder) as repo:
        assert [content(repo, f"HEAD~{back}") for back in range(3)] == was
        assert repo.fsck().ok


def test_a_clone_then_takes_what_is_needed_alone(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    near = tmp_path_factory.mktemp("near")
    with Repository.open(folder) as repo:
        repo.compact()
        was = [content(repo, f"HEAD~{back}") for back in range(3)]
    Repository.clone(f"file://{folder}/.mvcs", near / "clone").close()
    with Repository.open(near / "clone") as repo:
        assert sum(repo._session.quota.sizes().values()) < 200_000
        assert [content(repo, f"HEAD~{back}") for back in range(3)] == was
        assert repo.fsck().ok


def test_what_is_near_such_a_pack_is_stored_near_something_else(tmp_path: Path) -> None:
    """The amended commit moves the small file a little, so that it is stored near the one before."""
    with Repository.init(tmp_path) as repo:
        for number, names in enumerate(([SMALL], [SMALL, HUGE])):
            write(tmp_path, HUGE, 2, 200_000)
            nudge(tmp_path, number)
            files = [tmp_path / name for name in names]
            repo.commit_files(files, message=str(number), step_size=0.5, step=number)
        nudge(tmp_path, 2)
        repo.amend([tmp_path / SMALL], message="amended", only=True, step_size=0.5)
        was, before = content(repo, "HEAD"), needed(repo)
        assert repo.stats().unused_bytes > 50_000
        repo.compact()
        assert sum(needed(repo).values()) < sum(before.values()) - 50_000
    with Repository.open(tmp_path) as repo:
        assert content(repo, "HEAD") == was
        assert repo.fsck().ok


def nudge(folder: Path, number: int) -> None:
    values = np.random.default_rng(0).standard_normal(30_000) + 0.01 * np.random.default_rng(number).random(
        30_000
    )
    save_file({"w": values.astype(np.float32)}, folder / SMALL)


def test_a_pack_that_cannot_be_read_is_left_out(folder: Path) -> None:
    with Repository.open(folder) as repo:
        session = repo._session
        revisions = list(session.graph.walk([session.resolver.resolve("HEAD")]))
        [found] = partly_needed(session.store, revisions, ())
        assert found.commits == 2
        (folder / ".mvcs" / pack_path(found.pack)).unlink()
        assert not partly_needed(session.store, revisions, ())
        with pytest.raises(NotFoundError):
            repo.compact()


def test_less_waste_than_is_allowed_stays(folder: Path) -> None:
    with Repository.open(folder) as repo:
        repo.config_set("compaction.max_waste", "0.95")
    with Repository.open(folder) as repo:
        assert not repo.compact().rewritten
        assert repo.stats().unused_bytes > 600_000


def test_a_range_leaves_waste_alone(folder: Path) -> None:
    with Repository.open(folder) as repo:
        assert not repo.compact("HEAD").rewritten
