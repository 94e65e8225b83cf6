"""A quota: what may go goes first, then commits are refused, and what is there stays whole."""

import os
import shutil
import time
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import StorageError, UsageError
from mvcs.repository.quota import LISTED_EVERY, Quota
from tests.repository.states import content, state, through_faults, write_model

ROWS = 200


def packs(folder: Path) -> dict[str, int]:
    return {str(pack): pack.stat().st_size for pack in (folder / ".mvcs").rglob("*.pack")}


def age(folder: Path, days: float) -> None:
    """Let so many days pass by the clock of the store: for packs, manifests and what collectors said."""
    local, written = folder / ".mvcs", time.time() - days * 86400
    for path in (*local.rglob("*.pack"), *local.glob("manifests/*/*"), *local.glob("gc/*")):
        os.utime(path, (written, written))


def commit(repo: Repository, number: int) -> str:
    return repo.commit(state(number, ROWS), step=number).id


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    made = Repository.init(tmp_path)
    for number in range(4):
        commit(made, number)
    return made


def limited(repo: Repository, size: int) -> Repository:
    repo.config_set("store.max_bytes", str(size))
    return Repository.open(repo.top or "")


def test_a_commit_that_would_pass_it_is_refused_and_leaves_nothing(repo: Repository, tmp_path: Path) -> None:
    before = packs(tmp_path)
    repo = limited(repo, sum(before.values()) + 1000)
    with pytest.raises(StorageError, match=r"the store takes .* more, and store\.max_bytes") as caught:
        commit(repo, 10)
    assert "retention set" in str(caught.value.hint)
    assert packs(tmp_path) == before
    assert repo.resolve("HEAD").step == 3
    assert repo.fsck().ok
    assert not list((tmp_path / ".mvcs/local").glob("*.journal"))
    repo.config_set("store.max_bytes", "1GB")
    with Repository.open(tmp_path) as again:
        commit(again, 10)


def test_a_store_that_is_full_already_says_that_nothing_is_left(repo: Repository, tmp_path: Path) -> None:
    repo = limited(repo, sum(packs(tmp_path).values()) - 1)
    with pytest.raises(StorageError, match=r"store\.max_bytes allows .*: nothing is left"):
        commit(repo, 10)


def test_a_quota_of_the_layers_that_are_kept_says_that_one_more_needs_room(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        for number in range(2):
            repo.commit(state(number, ROWS), step=number, step_size=0.5)
        taken = sum(packs(tmp_path).values())
        layer = max(packs(tmp_path).values())
        repo.config_set("store.max_bytes", str(taken + layer // 2))
    with Repository.open(tmp_path) as repo:
        with pytest.raises(StorageError) as caught:
            repo.commit(state(2, ROWS), step=2, step_size=0.5)
        assert "there has to be room for one more than are kept" in str(caught.value.hint)
        assert "this commit needs about " in str(caught.value.hint)
        repo.config_set("store.max_bytes", str(taken + 2 * layer))
    with Repository.open(tmp_path) as repo:
        repo.commit(state(2, ROWS), step=2, step_size=0.5)


def test_old_commits_go_first(repo: Repository, tmp_path: Path) -> None:
    """A month passes between two commits, so that what one of them condemns goes with the next."""
    repo.set_retention(last=2)
    one = max(packs(tmp_path).values())
    repo = limited(repo, sum(packs(tmp_path).values()) + 2 * one)
    made: list[int] = []
    for number in range(10, 24):
        age(tmp_path, 30)
        try:
            commit(repo, number)
        except StorageError as error:
            assert "go once they have waited" in str(error.hint)  # noqa: PT017 - not every one is refused
            continue
        made.append(number)
        assert sum(packs(tmp_path).values()) <= int(str(repo.config_get("store.max_bytes")))
        assert content(repo, "HEAD") == content(repo, f"step:{number}")
    assert len(made) > 7
    assert sum(info.data_dropped for info in repo.log()) > 7
    assert repo.fsck().ok


def test_what_rules_just_dropped_is_said_to_wait(repo: Repository, tmp_path: Path) -> None:
    repo.set_retention(last=2)
    repo = limited(repo, sum(packs(tmp_path).values()) + 1000)
    with pytest.raises(StorageError, match="nothing was committed") as caught:
        commit(repo, 10)
    assert "go once they have waited" in str(caught.value.hint)


def test_what_nothing_needs_is_condemned_and_goes_a_day_later(repo: Repository, tmp_path: Path) -> None:
    """Others may be about to lean on it: they hear of it first."""
    before = packs(tmp_path)
    repo.commit(state(20, 2 * ROWS), branch="given-up")
    lost = packs(tmp_path).keys() - before.keys()
    shutil.rmtree(tmp_path / ".mvcs/refs/heads/given-up")
    (tmp_path / ".mvcs/local/seen.json").unlink()
    repo = limited(repo, sum(packs(tmp_path).values()) + 1000)
    age(tmp_path, 30)
    with pytest.raises(StorageError, match="nothing was committed") as caught:
        commit(repo, 10)
    assert "go once they have waited: 'mvcs gc' shows them" in str(caught.value.hint)
    assert lost <= packs(tmp_path).keys()
    with pytest.raises(StorageError, match="nothing was committed"):
        commit(repo, 10)
    assert lost <= packs(tmp_path).keys()
    age(tmp_path, 2)
    commit(repo, 10)
    assert not lost & packs(tmp_path).keys()
    assert repo.fsck().ok


def test_a_quota_below_the_tip_says_so(repo: Repository, tmp_path: Path) -> None:
    before = packs(tmp_path)
    repo = limited(repo, 1000)
    with pytest.raises(StorageError, match=r"what the tips of branches need takes .* alone") as caught:
        commit(repo, 10)
    assert "store.max_bytes SIZE" in str(caught.value.hint)
    assert packs(tmp_path) == before
    content(repo, "HEAD")


def test_others_who_fill_the_store_are_noticed(repo: Repository, tmp_path: Path) -> None:
    room = 3 * max(packs(tmp_path).values())
    repo = limited(repo, sum(packs(tmp_path).values()) + 2 * room)
    commit(repo, 10)
    with Repository.open(tmp_path) as other:
        other.config_set("store.max_bytes", "1GB")
    with Repository.open(tmp_path) as other:
        for number in range(20, 30):
            commit(other, number)
    for number in range(30, 40):
        try:
            commit(repo, number)
        except StorageError:
            break
    else:
        pytest.fail("the quota was never met")


def test_what_is_no_size_is_refused(repo: Repository) -> None:
    with pytest.raises(UsageError, match="a size above zero such as 500GB"):
        repo.config_set("store.max_bytes", "much")


def test_a_store_elsewhere_is_opened_with_a_quota(tmp_path: Path) -> None:
    with Repository.init(tmp_path / "work", store=str(tmp_path / "store")) as repo:
        repo.config_set("store.max_bytes", "50kB")
    with (
        Repository.open(tmp_path / "work") as repo,
        pytest.raises(StorageError, match="nothing was committed"),
    ):
        commit(repo, 0)


def test_whatever_makes_a_commit_keeps_to_it(tmp_path: Path) -> None:
    repo = Repository.init(tmp_path)
    write_model(tmp_path / "a.safetensors", 1)
    repo.commit_files([tmp_path / "a.safetensors"], message="one")
    before = packs(tmp_path)
    repo = limited(repo, sum(before.values()) + 1)
    files = [tmp_path / "a.safetensors"]
    with pytest.raises(StorageError, match=r"store\.max_bytes"):
        repo.amend(message="two")
    with pytest.raises(StorageError, match=r"store\.max_bytes"):
        repo.move_files(files, tmp_path / "b.safetensors", message="two")
    with pytest.raises(StorageError, match=r"store\.max_bytes"):
        repo.remove_files(files, message="two")
    assert packs(tmp_path) == before
    assert files[0].exists()


def test_asking_counts_nothing(tmp_path: Path) -> None:
    Repository.init(tmp_path)
    _, backend = through_faults(tmp_path)
    quota = Quota(backend, 1000)
    assert not quota.is_passed()
    backend.put("packs/00/other", bytes(2000))
    for _ in range(3 * LISTED_EVERY):
        assert not quota.is_near(900)  # it goes by what it counted, and no commit was noted
    for _ in range(LISTED_EVERY):
        quota.note(1)
    assert quota.is_passed()
    assert quota.is_near(0)


def test_whoever_sets_it_below_what_is_there_hears_it(repo: Repository, tmp_path: Path) -> None:
    taken = sum(packs(tmp_path).values())
    with Repository.open(tmp_path) as again:
        again.config_set("store.max_bytes", str(taken - 1))
    assert limited(repo, taken - 1).status().room == (taken, taken - 1)
    assert Quota.of(repo._session.place.backend, repo._session.place.config).told.startswith(
        "the store takes "
    )
    assert limited(repo, taken + 1)._session.quota.told is None
    repo.config_unset("store.max_bytes")
    with Repository.open(tmp_path) as again:
        assert again.status().room is None


def test_no_room_at_all_is_no_quota(repo: Repository) -> None:
    with pytest.raises(UsageError, match="takes the limit away"):
        repo.config_set("store.max_bytes", "0")


def test_a_refusal_says_what_exact_layers_take(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        for number in range(3):
            repo.commit(state(number, ROWS), step=number, step_size=0.5)
        repo.config_set("store.max_bytes", str(sum(packs(tmp_path).values()) + 100))
    with (
        Repository.open(tmp_path) as repo,
        pytest.raises(StorageError, match=r"% of it exact layers") as caught,
    ):
        repo.commit(state(9, ROWS), step=9, step_size=0.5)
    assert "retention.exact_layers 1" in str(caught.value)


def test_a_setting_that_is_nearly_it_is_a_slip(repo: Repository) -> None:
    with pytest.raises(UsageError, match=r"no setting 'store\.maxbytes'") as caught:
        repo.config_set("store.maxbytes", "5GB", plain=True)
    assert "store.max_bytes" in str(caught.value.hint)
