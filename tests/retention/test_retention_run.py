"""Retention applied: what rules keep restores bit for bit, the rest is dropped on record, and bytes go."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from mvcs import Repository
from mvcs.errors import ConflictError, CorruptionError, NotFoundError
from mvcs.objects import ObjectId, half
from mvcs.repository.keeping.retained import Retained
from mvcs.repository.keeping.retention_run import RetentionRun
from mvcs.store import read_footer
from tests.repository.states import content, leaves, state

COMMITS = 12
ROWS = 600


def made(number: int) -> dict[str, object]:
    return state(number, ROWS)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of exact and bounded commits, each near the one before, with a branch and a tag."""
    folder = tmp_path_factory.mktemp("pristine") / "work"
    with Repository.init(folder) as repo:
        for number in range(COMMITS):
            step_size = None if number % 3 == 0 else 0.5
            repo.commit(
                made(number), step=100 * number, metrics={"loss": 1 / (number + 1)}, step_size=step_size
            )
        repo.create_branch("side", "HEAD~4")
        repo.create_tag("v1", "HEAD~7", "first")
        repo.commit(made(50), step=5000, branch="side")
    return folder


@pytest.fixture
def work(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "work"))


def restored(repo: Repository) -> dict[int, object]:
    """What every commit restores whose data are there, by step."""
    found: dict[int, object] = {}
    for info in repo.log(all_branches=True):
        if not info.data_dropped:
            found[info.step or 0] = content(repo, info.id)
    return found


def age(folder: Path, days: float = 30) -> None:
    written = time.time() - days * 86400
    for pack in folder.rglob("*.pack"):
        os.utime(pack, (written, written))


def packs(folder: Path) -> int:
    return sum(pack.stat().st_size for pack in (folder / ".mvcs").rglob("*.pack"))


def applied(work: Path, **rules: object) -> tuple[dict[int, object], set[int]]:
    """Apply rules and collect; return what was restored before, and the steps that were dropped."""
    with Repository.open(work) as repo:
        before = restored(repo)
        repo.set_retention(**rules)
        report = repo.apply_retention()
        dropped = {item.step for item in report.dropped if item.layer == "data"}
        assert report.executed
    age(work)
    with Repository.open(work) as repo:
        repo.gc(wait_days=0, execute=True)
    return before, dropped


def test_what_is_kept_restores_and_what_goes_is_told(work: Path) -> None:
    before, dropped = applied(work, last=2, every=300, tagged=True)
    # The tip of side is at 5000, behind it 700; the tag at 400.
    assert dropped == {100, 200, 500, 800}
    with Repository.open(work) as repo:
        after = restored(repo)
        assert after == {step: values for step, values in before.items() if step not in dropped}
        assert {info.step for info in repo.log(all_branches=True) if info.data_dropped} == dropped
        report = repo.fsck()
        assert report.ok, report.problems
        assert any("4 commits were dropped on purpose" in note for note in report.notes)
        with pytest.raises(
            NotFoundError, match=r"main@500 .* were dropped on 20.* no rule kept it .*every 300 steps"
        ) as caught:
            repo.checkout("step:500", numpy=True)
        assert "nearest commit that is there is main@600" in str(caught.value.hint)
        assert repo.show("step:500").commit.data_dropped


def test_bytes_go_as_the_dry_run_says(work: Path) -> None:
    before = packs(work)
    with Repository.open(work) as repo:
        repo.set_retention(last=1, best="1:loss", every=400)
        files = sorted(work.rglob("*"))
        plan = repo.apply_retention(dry_run=True)
        assert sorted(work.rglob("*")) == files
        assert not plan.executed
        done = repo.apply_retention()
    assert [item.commit for item in plan.dropped] == [item.commit for item in done.dropped]
    assert abs(plan.bytes - done.bytes) < 0.05 * done.bytes
    age(work)
    with Repository.open(work) as repo:
        repo.gc(wait_days=0, execute=True)
        assert repo.fsck().ok
    gone = before - packs(work)
    assert abs(gone - plan.bytes) < 0.05 * gone
    assert packs(work) < 0.7 * before


def test_applied_again_nothing_happens(work: Path) -> None:
    applied(work, last=2, every=300)
    names = sorted(path for path in work.rglob("*.pack"))
    with Repository.open(work) as repo:
        report = repo.apply_retention()
        assert [item for item in report.dropped if item.layer == "data"] == []
        assert report.written == 0
    assert sorted(path for path in work.rglob("*.pack")) == names


def test_rules_that_keep_more_later_say_what_is_gone(work: Path) -> None:
    applied(work, last=2, every=300)
    with Repository.open(work) as repo:
        shown = repo.set_retention(last=3, every=100)
        [said] = shown.notes
        assert said.startswith(f"the data of {shown.dropped} commits, main@")
        assert "were dropped before" in repo.pin("step:100", "too late").notes[0]


def test_a_pin_takes_a_drop_back_at_once_where_the_data_are_there(work: Path) -> None:
    with Repository.open(work) as repo:
        before = content(repo, "main@100")
        repo.set_retention(last=2, every=300)
        repo.apply_retention()
    with Repository.open(work) as repo:
        assert "are still there and are kept now" in repo.pin("main@100").notes[0]
        assert content(repo, "main@100") == before


def test_nothing_goes_without_rules(work: Path) -> None:
    with Repository.open(work) as repo:
        before = sorted(path for path in work.rglob("*.pack"))
        report = repo.apply_retention()
        assert (report.dropped, report.bytes) == ([], 0)
        assert sorted(path for path in work.rglob("*.pack")) == before


def test_what_would_drop_everything_needs_force(work: Path) -> None:
    with Repository.open(work) as repo:
        repo.set_retention(last=1, force=True)
        with pytest.raises(ConflictError, match="keep nothing but tips"):
            repo.apply_retention()
        repo.apply_retention(force=True)
        assert {info.step for info in repo.log(all_branches=True) if not info.data_dropped} == {1100, 5000}


def test_a_detached_head_and_pins_keep_theirs(work: Path) -> None:
    with Repository.open(work) as repo:
        head = repo.resolve("main@100").id
    (work / ".mvcs/HEAD").write_text(head + "\n")
    with Repository.open(work) as repo:
        repo.pin("main@200", "figure 3")
        repo.set_retention(last=2)
        report = repo.apply_retention()
        reasons = {item.step: item.reasons for item in report.kept if item.layer == "data"}
        assert reasons[100] == ["HEAD stands on it"]
        assert reasons[200] == ["pinned: figure 3"]
        content(repo, "HEAD")


def test_a_run_goes_on_behind_dropped_commits(work: Path) -> None:
    applied(work, last=1, every=400)
    with Repository.open(work) as repo:
        for number in range(20, 23):
            repo.commit(made(number), step=100 * number, step_size=0.5)
            assert repo.checkout("HEAD", numpy=True)["step"] == number
        repo.switch("late", create_from="main@500")
        repo.commit(made(60), step=6000, step_size=0.5)
        assert leaves(repo.checkout("HEAD", exact=True, numpy=True)) == leaves(made(60))
        assert repo.fsck().ok


def test_dropped_commits_travel(work: Path, tmp_path: Path) -> None:
    _, dropped = applied(work, last=2, every=300)
    with Repository.open(work) as repo:
        repo.add_remote("far", str(tmp_path / "far"))
        repo.push("far", all_branches=True, tags=True)
        kept = restored(repo)
    with Repository.clone(str(tmp_path / "far"), tmp_path / "clone") as clone:
        assert clone.fsck().ok
        assert restored(clone) == kept
        assert {info.step for info in clone.log(all_branches=True) if info.data_dropped} == dropped
        clone.set_retention(last=7)  # whose record has the number of those that dropped
        by_rules = r"no rule kept it \(the rules then, record 0: the last 2 of each branch, every 300 steps\)"
        with pytest.raises(NotFoundError, match=f"were dropped on .*{by_rules}"):
            clone.checkout("step:500", numpy=True)
        assert "no rule kept it (the rules then" in clone.show("step:500").dropped


def test_a_remote_goes_by_its_own_rules_and_says_what_others_lose(work: Path, tmp_path: Path) -> None:
    far = tmp_path / "far"
    with Repository.open(work) as repo:
        repo.add_remote("far", str(far))
        repo.push("far", all_branches=True, tags=True)
        before = restored(repo)
        assert repo.apply_retention(remote="far").dropped == []
        repo.set_retention(last=2, every=300, remote="far")
        assert repo.retention().rules == []
        plan = repo.apply_retention(remote="far", dry_run=True)
        done = repo.apply_retention(remote="far")
        dropped = {item.step for item in done.dropped if item.layer == "data"}
        assert (plan.remote, done.remote) == ("far", "far")
        assert f"from 'far' gets {len(dropped)} commits without their data" in done.notes[-1]
        assert f"this clone has {len(dropped)} of them whole" in done.notes[-1]
        assert restored(repo) == before
    age(far)
    with Repository.open(str(far)) as there:
        there.gc(wait_days=0, execute=True)
        assert there.fsck().ok
    size = sum(pack.stat().st_size for pack in far.rglob("*.pack"))
    with Repository.open(work) as repo:
        repo.commit(made(70), step=7000, step_size=0.5)
        repo.push("far")
        assert restored(repo) == {**before, 7000: content(repo, "HEAD")}
    with Repository.clone(str(far), tmp_path / "clone") as clone:
        assert clone.fsck().ok
        assert dropped <= {info.step for info in clone.log(all_branches=True) if info.data_dropped}
        assert clone.checkout("main@7000", numpy=True)["step"] == 70
    # Data that were dropped over there do not come back with a push of something else.
    assert sum(pack.stat().st_size for pack in far.rglob("*.pack")) < size + 500_000


@pytest.mark.parametrize("archived", [False, True], ids=["plain", "archived"])
def test_an_amended_commit_stays_where_its_parent_goes(tmp_path: Path, *, archived: bool) -> None:
    """It reaches the pack of the commit in whose place it is, which only the reflog leads to."""
    with Repository.init(tmp_path / "work") as repo:
        for number in range(4):
            repo.commit(made(number), step=number, step_size=0.5)
        repo.set_retention(last=2)
        if archived:
            repo.apply_retention()
            repo.compact(for_archive=True)
            repo.apply_retention()
            repo.gc(grace_days=0, wait_days=0, execute=True)
            for number in (4, 5):
                repo.commit(made(number), step=number, step_size=0.5)
        repo.amend(message="a better message")
        repo.set_retention(last=1, force=True)
        before = content(repo, "HEAD")
        repo.apply_retention(dry_run=True, force=True)
        assert repo.apply_retention(force=True).dropped
        repo.gc(grace_days=0, wait_days=0, execute=True)
        assert content(repo, "HEAD") == before
        assert repo.fsck().ok


def test_no_pack_is_needed_of_which_a_part_is_near_what_was_dropped(tmp_path: Path) -> None:
    """An amended commit shares a file with the one before it, whose other file was near its parent's."""
    drawn = np.random.default_rng(0)
    first, other = (drawn.standard_normal(size).astype(np.float32) for size in (30_000, 300_000))
    near = first + np.float32(0.01) * drawn.standard_normal(30_000).astype(np.float32)
    paths = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    with Repository.init(tmp_path) as repo:
        save_file({"w": first}, paths[0])
        repo.commit_files(paths[:1], message="a", step_size=0.5)
        save_file({"w": near}, paths[0])
        save_file({"w": other}, paths[1])
        repo.commit_files(paths, message="both", step_size=0.5)
        repo.amend(paths[1:], message="b alone", only=True, step_size=0.5)
        before = content(repo, "HEAD")
        repo.set_retention(last=1, force=True)
        assert repo.apply_retention(force=True).dropped
        store, commits = repo._session.store, [ObjectId(bytes.fromhex(info.id)) for info in repo.log()]
        needed = {name for _, where in store.manifests.placements(commits) for name in where.packs}
        entries = [placed for name in needed for placed in read_footer(store.backend, name).entries]
        held = {half(identifier) for placed in entries for identifier in placed.ids}
        assert all(held.issuperset(placed.entry.base_ids) for placed in entries)
        assert content(repo, "HEAD") == before


def test_lost_data_are_not_called_dropped(work: Path) -> None:
    applied(work, last=2, every=300)
    with Repository.open(work) as repo:
        largest = max(repo.log("main"), key=lambda info: info.stored_bytes if not info.data_dropped else 0)
    for pack in work.rglob("packs/*/*.pack"):
        if pack.stat().st_size > 100_000:
            pack.unlink()
    with Repository.open(work) as repo:
        assert not repo.fsck().ok
        with pytest.raises((NotFoundError, CorruptionError)) as caught:
            repo.checkout(largest.id, numpy=True)
        assert "dropped" not in str(caught.value)


def test_stats_count_what_is_left_of_dropped_commits(work: Path) -> None:
    with Repository.open(work) as repo:
        repo.set_retention(last=2)
        report = repo.apply_retention()
        age(work)
        repo.gc(grace_days=0, wait_days=0, execute=True)
        found = repo.stats()
        kept = sum(not info.data_dropped for info in repo.log(all_branches=True))
    assert report.dropped
    assert found.unreached_bytes == 0
    assert found.notes == []
    assert sum(item.commits for item in found.restores) == kept


def test_what_was_stored_of_dropped_tensors_is_not_called_metadata(work: Path) -> None:
    _, dropped = applied(work, last=2)
    with Repository.open(work) as repo:
        details = repo.show(f"step:{min(dropped)}")
        (metadata,) = [found for found in details.classes if found.name == "metadata"]
        assert 0 < metadata.stored_bytes < details.commit.stored_bytes / 2


def test_a_repair_counts_commits_whose_data_should_be_there(work: Path) -> None:
    with Repository.open(work) as repo:
        repo.set_retention(last=2)
        repo.apply_retention()
        age(work)
        repo.gc(grace_days=0, wait_days=0, execute=True)
        kept = sum(not info.data_dropped for info in repo.log(all_branches=True))
        repaired = repo.repair(execute=False)
    assert (repaired.commits, repaired.losses, repaired.ok) == (kept, [], True)


class Meanwhile:
    """Does something when the first commits are stored again."""

    def __init__(self, work: Path, act: Callable[[Repository], object]) -> None:
        self.work, self.act, self.done = work, act, False

    def start(self, *_: object) -> None:
        if not self.done:
            self.done = True
            with Repository.open(self.work) as other:
                self.act(other)

    def advance(self, *_: object) -> None: ...

    def finish(self) -> None: ...

    def note(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    "act",
    [
        lambda other: other.pin("main@500"),
        lambda other: other.create_branch("keep", "main@500"),
        lambda other: other.create_tag("keep", "main@500"),
        lambda other: other._session.set_head(other.resolve("main@500").id),
    ],
    ids=["pin", "branch", "tag", "HEAD"],
)
def test_what_is_kept_meanwhile_is_not_dropped(work: Path, act: Callable[[Repository], object]) -> None:
    with Repository.open(work) as repo:
        repo.set_retention(last=2, every=300, tagged=True)
        before, names = restored(repo), sorted(work.rglob("*.pack"))
    with Repository.open(work, progress=Meanwhile(work, act)) as repo:
        with pytest.raises(ConflictError, match=r"changed while|since commits are being"):
            repo.apply_retention()
        assert restored(repo) == before
    assert sorted(work.rglob("*.pack")) == names


def test_every_rehearsal_gives_the_same_answer(work: Path) -> None:
    with Repository.open(work) as repo:
        repo.set_retention(last=2, every=300)
        found = [repo.apply_retention(dry_run=True) for _ in range(3)]
        done = repo.apply_retention()
    assert found[0] == found[1] == found[2]
    assert found[0].written == pytest.approx(done.written, rel=0.05)
    assert found[0].bytes == pytest.approx(done.bytes, rel=0.05)


def test_what_was_moved_is_as_old_as_it_was(tmp_path: Path) -> None:
    """Its packs and its newest record are young."""
    with Repository.init(tmp_path) as repo:
        for number in range(3):
            repo.commit(state(number), step=number)
        old = time.time() - 40 * 86400
        for path in (tmp_path / ".mvcs/manifests").rglob("*.*"):
            os.utime(path, (old, old))
        repo.commit(state(3), step=3)
        repo.compact(max_depth=0)
        repo.set_retention(newer="14d", force=True)
        found = repo.apply_retention(dry_run=True, force=True)
        assert {item.step for item in found.dropped} == {0, 1, 2}


def test_layers_that_stayed_are_not_reported_as_freed(work: Path) -> None:
    with Repository.open(work) as repo:
        repo.set_retention(layer="exact", last=1, force=True)
        before = packs(work)
        going = RetentionRun.begin(Retained.of(repo._session, None), force=True)
        with Repository.open(work) as other:
            other.pin("main@500", "meanwhile")
        report = going.execute()
        assert packs(work) == before
        assert (report.bytes, report.dropped) == (0, [])
        assert "every exact layer stayed" in report.notes[-1]


KEEPERS = {"pin": 100, "branch": 200, "tag": 500, "HEAD": 800}


def keep(repo: Repository) -> None:
    """Have a pin, a branch, a tag and HEAD keep a commit each that was dropped."""
    repo.pin("main@100", "too late?")
    repo.create_branch("late", "main@200")
    repo.create_tag("late", "main@500")
    repo._session.set_head(repo.resolve("main@800").id)


def see_that_all_are_kept(work: Path, before: dict[int, object]) -> None:
    """Collect and apply in turn: what is kept restores at every step, and its drop is taken back."""
    for _ in range(2):
        with Repository.open(work) as repo:
            repo.gc(grace_days=0, wait_days=0, execute=True)
            for step in KEEPERS.values():
                assert content(repo, f"main@{step}") == before[step]
            report = repo.apply_retention()
            kept = {item.step for item in report.kept if item.layer == "data"}
            assert kept >= set(KEEPERS.values())
    with Repository.open(work) as repo:
        repo.gc(grace_days=0, wait_days=0, execute=True)
        assert restored(repo).keys() >= set(KEEPERS.values())
        assert restored(repo).items() <= before.items()
        report = repo.fsck()
        assert report.ok, report.problems
        assert repo.apply_retention().written == 0


def test_what_is_kept_before_its_data_are_collected_keeps_them(work: Path) -> None:
    with Repository.open(work) as repo:
        before = restored(repo)
        repo.set_retention(last=2, every=300, tagged=True)
        repo.apply_retention()
        keep(repo)
    see_that_all_are_kept(work, before)


def test_a_drop_can_be_taken_back_after_a_compaction(work: Path) -> None:
    """Which has nothing more to do with the data that were dropped."""
    with Repository.open(work) as repo:
        before = restored(repo)
        repo.set_retention(last=2, every=300, tagged=True)
        repo.apply_retention()
        keep(repo)
        repo.compact(max_depth=1)
    see_that_all_are_kept(work, before)
