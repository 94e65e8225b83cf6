"""What interrupted work leaves is found and removed; what mvcs did not make is never touched."""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest

from mvcs import Repository
from mvcs.errors import NotFoundError, StorageError
from mvcs.local_files import SCRATCH, maker_of, scratch_folder
from mvcs.processes import Process
from mvcs.store import pack_path
from mvcs.store.backend.local import LocalBackend
from mvcs.upkeep.collecting.leftovers import remove_leftovers
from tests.repository.states import own_packs, write_model
from tests.store import dying
from tests.store.dying import Nursery, state
from tests.store.faults import Disk

# Runs a command, and kills it when it opens its first file after it has made a folder to work in.
KILLED_AT_WORK = """
import os, signal, sys
from mvcs.cli import main
is_made = False

def look(event, arguments):
    global is_made
    if is_made and event == "open":
        os.kill(os.getpid(), signal.SIGKILL)
    is_made = is_made or (event == "os.mkdir" and str(arguments[0]).endswith(".scratch"))

sys.addaudithook(look)
main(sys.argv[1:])
"""
DAY = 24 * 3600
YEAR = 365 * DAY


@pytest.fixture
def folder_of_a_user(tmp_path):
    """A folder with the user's own files, a year old, some of them where mvcs keeps its own."""
    folder = tmp_path / "data"
    for name in (
        "tmp/thesis.tex",
        "tmp/probe/run.log",
        "tmp/deep/er/0123456789abcdef",
        "notes.md",
        "packs/x",
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        os.utime(path, (time.time() - YEAR,) * 2)
    return folder


def own_files(folder):
    return {path for path in folder.rglob("*") if path.is_file() and path.read_bytes() == b"mine"}


def test_a_commit_leaves_the_files_of_a_user_alone(tmp_path, folder_of_a_user):
    before = own_files(folder_of_a_user)
    with Repository.init(tmp_path / "work", store=str(folder_of_a_user)) as repo:
        for number in range(3):
            repo.commit({"n": number}, bins=None)
    assert len(before) == 5
    assert own_files(folder_of_a_user) == before


def test_init_says_what_else_lies_there(tmp_path, folder_of_a_user):
    with Repository.init(tmp_path / "work", store=str(folder_of_a_user)) as repo:
        [warning] = repo.warnings
    assert "holds 5 files and folders that mvcs did not make" in warning
    assert "'notes.md'" in warning
    assert "left alone" in warning
    with Repository.init(tmp_path / "again", store=str(folder_of_a_user)) as repo:
        repo.commit({"n": 1})
        assert repo.warnings == [warning]


def test_init_says_nothing_of_what_mvcs_made(tmp_path):
    with Repository.init(tmp_path / "one", store=str(tmp_path / "store")) as repo:
        repo.commit({"n": 1}, bins=None)
        assert repo.warnings == []
    with Repository.init(tmp_path / "two", store=str(tmp_path / "store")) as repo:
        assert repo.warnings == []
    (tmp_path / "one/.mvcs/HEAD").unlink()
    with Repository.init(tmp_path / "one") as repo:
        assert repo.warnings == []


@pytest.fixture(scope="module")
def nursery():
    with Nursery() as running:
        yield running


def leftovers(folder):
    """What no manifest names below a repository: packs, temporary files, journals."""
    with Repository.open(folder) as repo:
        report = repo.fsck(full=False)
        assert report.problems == []
    hidden = [path for path in folder.rglob(".mvcs-*") if path.is_file()]
    lost = [note for note in report.notes if "belongs to no commit" in note and "but to" not in note]
    return lost + hidden + [path for path in folder.glob(".mvcs/tmp/*") if path.is_file()]


@pytest.mark.parametrize("bins", [None, 16], ids=["exact", "bounded"])
def test_the_next_commit_removes_what_a_killed_one_left(tmp_path, nursery, bins):
    with Repository.init(tmp_path) as repo:
        repo.commit(state(0), step=0, bins=bins)
    left, before = 0, 0
    while nursery.kill("commit", tmp_path, 100 + before, bins, root=tmp_path, before=before):
        left += len(leftovers(tmp_path))
        with Repository.open(tmp_path) as repo:
            repo.commit(state(before), step=before, bins=bins)
        assert leftovers(tmp_path) == []
        before += 3
    assert before > 9
    assert left >= before // 3


def test_the_next_commit_removes_what_a_killed_first_one_left(tmp_path, nursery):
    """While no branch is there any commit may have been named by one, and its packs wait for the next one."""
    before, left = 0, 0
    while True:
        folder = tmp_path / str(before)
        Repository.init(folder).close()
        if not nursery.kill("commit", folder, 1, None, root=folder, before=before):
            break
        left += len(leftovers(folder))
        with Repository.open(folder) as repo:
            repo.commit(state(2), step=2, bins=None)
        assert leftovers(folder) == []
        before += 1
    assert before > 9
    assert left >= before // 3


def test_what_a_killed_commit_published_is_no_leftover(tmp_path, nursery):
    """It was killed behind its ref, before it could forget what it had on record."""
    with Repository.init(tmp_path) as repo:
        first = repo.commit(state(0)).id
    journal = Disk(tmp_path)
    with journal:
        dying.commit(str(tmp_path), 1, None)
    landed = False
    for before in range(journal.changes - 8, journal.changes + 1):
        nursery.kill("commit", tmp_path, before, None, root=tmp_path, before=before)
        with Repository.open(tmp_path) as repo:
            tip = repo.head()
            repo.commit(state(before))
            assert repo.head().parents == [tip.id]
            landed = landed or tip.id != first
            assert [repo.checkout(info.id, numpy=True)["step"] for info in repo.log()]
        assert leftovers(tmp_path) == []
    assert landed


@pytest.mark.parametrize("work", ["commit", "reader"])
def test_a_commit_that_is_interrupted_leaves_nothing(tmp_path, work):
    with Repository.init(tmp_path) as repo:
        repo.commit(state(0))
    for allowed in range(0, 30, 2):
        with Repository.open(tmp_path) as repo:
            if work == "reader":
                with pytest.raises(NotFoundError):
                    repo.cat_file("0" * 12)
            tip = repo.head().id
            interrupted = Disk(tmp_path / ".mvcs/exact", allowed, KeyboardInterrupt, once=True)
            with interrupted as disk, suppress(KeyboardInterrupt):
                repo.commit(state(allowed), bins=16)
            if disk.refused:
                assert repo.head().id == tip
                assert leftovers(tmp_path) == []
            # The same process goes on, and leans on nothing that is gone.
            repo.commit(state(allowed), bins=16)
            assert repo.fsck().problems == []
        if not disk.refused:
            break
    assert allowed


def test_nothing_leans_on_what_a_dead_writer_left(tmp_path, nursery):
    """It had all its packs written; a writer that has seen them stores the same content again."""
    with Repository.init(tmp_path) as repo:
        repo.commit(state(0))
    with Repository.open(tmp_path) as seen:
        assert nursery.kill("commit", tmp_path, 7, 16, root=tmp_path / ".mvcs/manifests", before=0)
        names = {path.name for path in (tmp_path / ".mvcs").rglob("*.pack")}
        assert len(names) == 3
        with pytest.raises(NotFoundError):
            seen.cat_file("0" * 12)  # looks into every pack
        commit = seen.commit(state(7), bins=16)
        assert names & {path.name for path in (tmp_path / ".mvcs").rglob("*.pack")} == names_of(
            seen, "HEAD~1"
        )
        assert np.array_equal(seen.checkout(commit.id, exact=True, numpy=True)["weight"], state(7)["weight"])
    assert leftovers(tmp_path) == []


def names_of(repo, rev):
    return {f"{name}.pack" for name in own_packs(repo, rev)}


def test_a_journal_that_tells_less_than_happened_costs_no_commit(tmp_path, nursery):
    """As in a copy of a repository whose journal was copied early, and its refs late."""
    with Repository.init(tmp_path) as repo:
        repo.commit(state(0))
    local = tmp_path / ".mvcs/local"
    for before in range(2, 12):
        assert nursery.kill("commit", tmp_path, 1, 16, root=local, before=before)
        with Repository.open(tmp_path) as repo:
            if repo.head().step == 1:
                break
    for journal in local.glob(".mvcs-*"):
        journal.write_bytes(journal.read_bytes().replace(b"publishes", b"other"))
    with Repository.open(tmp_path) as repo:
        assert repo.head().step == 1
        repo.commit(state(2))
        assert repo.fsck().problems == []
    assert leftovers(tmp_path) == []


def by(folder, maker, days=0.0):
    """Say that a process made what another left, some days ago."""
    for path in hidden(folder):
        renamed = path.with_name(path.name.replace(str(maker_of(path.name, path.suffix[1:])), str(maker)))
        path.rename(renamed)
        os.utime(renamed, (time.time() - days * DAY,) * 2)


@pytest.mark.parametrize(
    ("boot", "days", "goes"), [("earlier", 0, True), ("foreign", 13, False), ("foreign", 15, True)]
)
def test_what_a_boot_before_left_goes_at_once_and_what_another_machine_left_after_two_weeks(
    tmp_path, nursery, boot, days, goes
):
    with Repository.init(tmp_path) as repo:
        repo.commit(state(0))
    assert nursery.kill("commit", tmp_path, 7, 16, root=tmp_path / ".mvcs/manifests", before=0)
    packs_left = packs(tmp_path)
    here = Process.current().machine
    earlier = here[:6] + ("0" * 5 if here[6:11] != "0" * 5 else "1" * 5) + here[11:]
    by(tmp_path, Process(earlier if boot == "earlier" else "ab" * 8, 1, 5), days)
    with Repository.open(tmp_path) as repo:
        repo.commit(state(1))
    assert bool(packs(tmp_path) & packs_left < packs_left) is goes
    assert (leftovers(tmp_path) == []) is goes


def test_packs_that_a_lost_manifest_may_have_named_are_left_to_a_collector(tmp_path):
    with Repository.init(tmp_path) as repo:
        repo.commit(state(0))
        repo.commit(state(1))
        manifest = next(tmp_path.glob(f".mvcs/manifests/*/{repo.head().id}.*"))
        [name] = own_packs(repo, "HEAD")
        dead = Process(Process.current().machine, 1, 5)
        journal = tmp_path / f".mvcs/local/.mvcs-{dead}-{'0' * 16}.journal"
        path = manifest.relative_to(tmp_path / ".mvcs")
        journal.write_text(f'["pack", "{pack_path(name)}"]\n["publishes", "{path}"]\n')
    data = manifest.read_bytes()
    manifest.unlink()
    remove_leftovers(repo._session.place)
    assert not journal.exists()
    with Repository.open(tmp_path) as repo:
        assert repo.repair().problems == []
    assert manifest.read_bytes() == data


def test_a_journal_removes_nothing_but_packs_and_temporary_files(tmp_path):
    """Wherever it came from."""
    victims = [tmp_path / "thesis.tex", tmp_path / ".mvcs/config.toml", tmp_path / ".mvcs/HEAD"]
    with Repository.init(tmp_path) as repo:
        repo.config_set("user.name", "Ada")
        repo.commit(state(0))
        repo.commit(state(1), bins=16)
    victims[0].write_text("mine")
    dead = Process.current()
    dead = Process(dead.machine, dead.number, dead.started - 1)
    lines = [["file", str(path)] for path in victims]
    lines += [
        ["pack", name] for name in ("../../thesis.tex", "HEAD", "mvcs.json", "packs/../HEAD", "/etc/hosts")
    ]
    packs = [*(tmp_path / ".mvcs/packs").rglob("*.pack"), *(tmp_path / ".mvcs/exact").rglob("*.pack")]
    lines += [["pack", path.relative_to(tmp_path / ".mvcs").as_posix()] for path in packs]
    lines += [["pack"], [1], {"pack": 2}, ["file", str(tmp_path)], ["copy", "origin"]]
    journal = tmp_path / f".mvcs/local/.mvcs-{dead}-{'0' * 16}.journal"
    journal.parent.mkdir(exist_ok=True)
    journal.write_text("\n".join(map(json.dumps, lines)) + '\n["pack", "pa')
    with Repository.open(tmp_path) as repo:
        repo.commit(state(2))
        assert repo.fsck().problems == []
    assert not journal.exists()
    assert all(path.exists() for path in (*victims, *packs[:1]))


def test_a_journal_removes_nothing_through_a_link(tmp_path):
    """A store that was copied may lead anywhere; what lies there is another store's."""
    with Repository.init(tmp_path / "work") as repo:
        repo.commit(state(0))
    local = tmp_path / "work/.mvcs"
    digits = next(digits for digits in ("de", "ad") if not (local / "packs" / digits).exists())
    name = f"packs/{digits}/{digits * 32}.pack"
    victim = tmp_path / "victim" / name
    victim.parent.mkdir(parents=True)
    victim.write_text("mine")
    (local / "packs" / digits).symlink_to(victim.parent)
    dead = Process.current()
    dead = Process(dead.machine, dead.number, dead.started - 1)
    journal = local / f"local/.mvcs-{dead}-{'0' * 16}.journal"
    journal.parent.mkdir(exist_ok=True)
    journal.write_text(json.dumps(["pack", name]) + "\n")
    with Repository.open(tmp_path / "work") as repo:
        remove_leftovers(repo._session.place)
        repo.gc(grace_days=0, execute=True)
    assert victim.read_text() == "mine"
    assert not journal.exists()
    backend = LocalBackend(local)
    for change in (
        lambda: backend.delete(name),
        lambda: backend.replace(name, b"x"),
        lambda: backend.put(name, b"many"),
        lambda: backend.create(f"{name}2", b"x"),
        lambda: backend.adopt(tmp_path / "none", name),
    ):
        with pytest.raises(StorageError, match="is a link"):
            change()
    assert [path.name for path in victim.parent.iterdir()] == [victim.name]


def test_a_damaged_history_keeps_every_pack(tmp_path, nursery):
    """Nobody can tell then what is needed."""
    with Repository.init(tmp_path) as repo:
        repo.commit(state(0))
        repo.create_branch("old")
        repo.commit(state(1))
    assert nursery.kill("commit", tmp_path, 2, 16, root=tmp_path / ".mvcs/refs/heads", before=0)
    packs = set((tmp_path / ".mvcs").rglob("*.pack"))
    [record] = (tmp_path / ".mvcs/refs/heads/old").iterdir()
    whole = record.read_bytes()
    record.write_bytes(b"rotten")
    with Repository.open(tmp_path) as repo:
        repo.commit(state(3))
        assert packs <= set((tmp_path / ".mvcs").rglob("*.pack"))
        record.write_bytes(whole)
        repo.commit(state(4))
    assert leftovers(tmp_path) == []


@pytest.fixture
def folder_of_models(tmp_path):
    """A repository with two commits of two files, one of them in a folder of its own."""
    folder = tmp_path / "work"
    with Repository.init(folder) as repo:
        for number in range(2):
            for path in (folder / "model.safetensors", folder / "deep/side.safetensors"):
                write_model(path, number)
            repo.commit_files([folder / "model.safetensors", folder / "deep"], message=str(number))
    return folder


def hidden(folder):
    return [path for path in folder.rglob(".mvcs-*") if path.is_file()]


@pytest.mark.parametrize("following", ["commit", "checkout", "export"])
def test_files_that_a_killed_checkout_had_begun_go_with_the_next_command(
    folder_of_models, nursery, following, tmp_path
):
    left = 0
    for before in range(0, 9, 2):
        assert nursery.kill("checkout", folder_of_models, "HEAD~1", root=folder_of_models, before=before)
        left += len(hidden(folder_of_models / "deep"))
        with Repository.open(folder_of_models) as repo:
            if following == "commit":
                repo.commit({"n": before}, branch="other")
            elif following == "checkout":
                repo.checkout_files("main", force=True)
            else:
                repo.export("main", tmp_path / f"out{before}")
        assert hidden(folder_of_models) == []
    assert left
    assert sorted(path.name for path in (folder_of_models / "deep").iterdir()) == ["side.safetensors"]


@pytest.mark.parametrize("place", ["far/out.safetensors", "far"])
def test_files_that_a_killed_export_had_begun_are_found_wherever_they_lie(
    folder_of_models, nursery, place, tmp_path
):
    (tmp_path / "far").mkdir()
    (tmp_path / "far/mine.tmp").write_text("mine")
    work = (folder_of_models, "main", tmp_path / place)
    left = sum(
        nursery.kill("export", *work, root=tmp_path / "far", before=before) and bool(hidden(tmp_path / "far"))
        for before in range(1, 4)
    )
    assert left
    with Repository.open(folder_of_models) as repo:
        repo.commit({"n": 1}, branch="other")
    assert hidden(tmp_path) == []
    assert (tmp_path / "far/mine.tmp").read_text() == "mine"


@pytest.fixture
def pushing(tmp_path):
    """A repository with a branch that its remote has, and one of two bounded commits that it has not."""
    folder = tmp_path / "work"
    with Repository.init(folder) as repo:
        repo.add_remote("origin", str(tmp_path / "far"))
        repo.commit(state(0))
        repo.push()
        repo.switch("side", create_from="main")
        for number in (1, 2):
            repo.commit(state(number), bins=16)
        repo.switch("main")
    return folder


def packs(folder):
    return {path.name for path in folder.rglob("*.pack")}


def test_what_a_killed_push_brought_is_left_to_a_collector(pushing, nursery, tmp_path):
    """Another clone may have found it there, and be about to name it."""
    far = tmp_path / "far"
    before = packs(far)
    for allowed in (4, 8, 12):
        assert nursery.kill("push", pushing, "side", root=far, before=allowed)
    assert len(packs(far) - before) == 2
    with Repository.open(pushing) as repo:
        repo.delete_branch("side", force=True)
        repo.push()
        assert len(packs(far) - before) == 2
        repo.gc(remote="origin", grace_days=0, wait_days=0, execute=True)
    assert packs(far) == before
    assert hidden(pushing) == []
    assert [path for path in far.glob("tmp/*") if path.is_file()] == []


def test_a_push_goes_on_where_a_killed_one_stopped(pushing, nursery, tmp_path):
    before = packs(tmp_path / "far")
    assert nursery.kill("push", pushing, "side", root=tmp_path / "far", before=5)
    arrived = len(packs(tmp_path / "far") - before)
    with Repository.open(pushing) as repo:
        assert repo.push(refs=["side"]).packs_sent == 2 - arrived
    with Repository.open(tmp_path / "far") as repo:
        assert repo.fsck().notes == []
        assert repo.checkout("side", numpy=True)["step"] == 2
    assert hidden(pushing) == []


def test_what_another_push_came_to_need_stays(pushing, nursery, tmp_path):
    """A second clone pushes what the killed push of the first had brought."""
    assert nursery.kill("push", pushing, "side", root=tmp_path / "far", before=9)
    with Repository.clone(str(pushing), tmp_path / "second") as repo:
        repo.config_set("remote.origin.url", str(tmp_path / "far"))
        repo.push(refs=["side"])
    with Repository.open(pushing) as repo:
        repo.delete_branch("side", force=True)
        repo.push()
    with Repository.open(tmp_path / "far") as repo:
        assert repo.fsck().problems == []
        assert repo.checkout("side", numpy=True)["step"] == 2
    assert hidden(pushing) == []


@pytest.fixture(scope="module")
def five_steps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("steps")
    weights = np.random.default_rng(0).normal(size=5000).astype(np.float32)
    with Repository.init(folder) as repo:
        for step in range(5):
            repo.commit({"w": weights + np.float32(step * 1e-3)}, step=step)
        repo.set_retention(last=1, force=True)
    return folder


def scratch_folders(folder):
    return [path.name for path in folder.iterdir() if maker_of(path.name, SCRATCH)]


@pytest.mark.parametrize(
    "words",
    [
        "compact --max-depth 1",
        "retention apply --dry-run --force",
        "repair --dry-run",
    ],
)
def test_a_killed_command_leaves_nothing_where_temporary_files_lie(tmp_path, five_steps, words):
    folder, temporary = tmp_path / "run", tmp_path / "tmp"
    shutil.copytree(five_steps, folder)
    temporary.mkdir()
    command = [sys.executable, "-c", KILLED_AT_WORK, *words.split()]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    assert subprocess.run(command, cwd=folder, env=environment, check=False).returncode == -9
    assert list(temporary.iterdir()) == []
    assert len(scratch_folders(folder / ".mvcs")) == 1
    with Repository.open(folder) as repo:
        assert not repo.fsck().problems
        repo.gc(execute=True)
    assert scratch_folders(folder / ".mvcs") == []


def test_a_scratch_folder_goes_with_its_block_and_others_with_their_makers(tmp_path):
    gone = Process(Process.current().machine, 1, 1)
    left = tmp_path / f".mvcs-{gone}-{'0' * 16}.scratch"
    (left / "packs/ab").mkdir(parents=True)
    (left / "outside").symlink_to(tmp_path / "mine")
    (tmp_path / "mine").mkdir()
    with scratch_folder(tmp_path) as ours, scratch_folder(tmp_path) as beside:
        assert not left.exists()
        (ours / "file").touch()
        assert {ours, beside, tmp_path / "mine"} == set(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"]


def test_where_a_place_cannot_be_written_the_next_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").touch()
    with scratch_folder(tmp_path / "file", None) as folder:
        assert folder.parent == tmp_path
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    with pytest.raises(StorageError, match="cannot make"), scratch_folder():
        pass
