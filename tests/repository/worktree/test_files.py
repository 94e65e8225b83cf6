"""Files under version control: status, checkout, what must not be overwritten, where values came from."""

import os
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save, save_file

from mvcs import Repository
from mvcs.errors import ConflictError, CorruptionError, MvcsError, UsageError
from mvcs.objects.ids import Kind
from mvcs.progress import Silent
from mvcs.refs.refstore import HEADS, RefChange
from mvcs.store.manifests import Manifest, WrittenCommit
from mvcs.store.writing.writer import ObjectWriter
from tests.repository.states import leaves, state, write_model
from tests.store.faults import Disk, Stopped

HOUR = 3_600_000_000_000


@pytest.fixture
def work(tmp_path: Path) -> Path:
    Repository.init(tmp_path / "work").close()
    return tmp_path / "work"


def states_of(repo: Repository) -> dict[str, str]:
    return {entry.path: entry.state for entry in repo.status().entries}


def test_safetensors_come_back_byte_for_byte(work: Path) -> None:
    path = work / "model.safetensors"
    written = [write_model(path, 0)]
    with Repository.open(work) as repo:
        first = repo.commit_files([path], message="0")
        written.append(write_model(path, 1))
        second = repo.commit_files([], message="1")
        for commit, data in zip((first, second), written, strict=True):
            report = repo.checkout_files(commit.id)
            assert path.read_bytes() == data
            assert (report.written, report.removed, report.layer) == (["model.safetensors"], [], "exact")
            assert states_of(repo) == {"model.safetensors": "unmodified"}


def test_torch_and_numpy_files_come_back_with_their_content(work: Path) -> None:
    shared = torch.arange(6.0)
    content = {
        "model": {"w": torch.randn(4, 5), "tied": [shared, shared]},
        "step": 3,
        "lr": 1e-3,
        "betas": (0.9, 0.99),
    }
    torch.save(content, work / "run.pt")
    arrays = {"a": np.arange(5, dtype=np.int16), "b": np.full((2, 3), np.nan), "empty": np.zeros((0, 4))}
    np.savez(work / "data.npz", **arrays)
    with Repository.open(work) as repo:
        repo.commit_files([work / "run.pt", work / "data.npz"], message="both")
        (work / "run.pt").unlink()
        (work / "data.npz").unlink()
        assert states_of(repo) == {"run.pt": "deleted", "data.npz": "deleted"}
        repo.checkout_files("HEAD")
        assert states_of(repo) == {"run.pt": "unmodified", "data.npz": "unmodified"}
    found = torch.load(work / "run.pt", weights_only=True)
    assert torch.equal(found["model"]["w"], content["model"]["w"])
    assert found["model"]["tied"][0].data_ptr() == found["model"]["tied"][1].data_ptr()
    assert (found["step"], found["lr"], found["betas"]) == (3, 1e-3, (0.9, 0.99))
    with np.load(work / "data.npz") as loaded:
        assert leaves(dict(loaded)) == leaves(arrays)


def test_status_tells_the_four_states(work: Path) -> None:
    for name in ("same", "changed", "gone"):
        write_model(work / f"{name}.safetensors", 0)
    with Repository.open(work) as repo:
        repo.commit_files([work / f"{name}.safetensors" for name in ("same", "changed", "gone")], message="x")
        write_model(work / "changed.safetensors", 1)
        (work / "gone.safetensors").unlink()
        write_model(work / "new" / "other.safetensors", 1)
        (work / "notes.txt").write_text("not a checkpoint")
        assert states_of(repo) == {
            "same.safetensors": "unmodified",
            "changed.safetensors": "modified",
            "gone.safetensors": "deleted",
            "new/other.safetensors": "untracked",
        }


def test_an_edit_of_the_same_size_and_time_is_seen(work: Path) -> None:
    """A file as young as the moment it was looked at may change unseen by size and time."""
    path = work / "model.safetensors"
    write_model(path, 0)
    later = path.stat().st_mtime_ns + HOUR
    os.utime(path, ns=(later, later))
    with Repository.open(work) as repo:
        repo.commit_files([path], message="0")
        size = path.stat().st_size
        write_model(path, 1)
        os.utime(path, ns=(later, later))
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (size, later)
        assert states_of(repo) == {"model.safetensors": "modified"}


class Meddler(Silent):
    """Replaces a file while it is being committed, after it was read."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.action = action

    def finish(self) -> None:
        self.action()


def test_an_edit_while_the_commit_runs_is_seen(work: Path) -> None:
    path = work / "model.safetensors"
    data = write_model(path, 0)
    meddler = Meddler(lambda: write_model(path, 1))
    with Repository.open(work, progress=meddler) as repo:
        repo.commit_files([path], message="0")
    with Repository.open(work) as repo:
        assert states_of(repo) == {"model.safetensors": "modified"}
        repo.checkout_files("HEAD", force=True)
        assert path.read_bytes() == data


def test_a_checkout_refuses_to_overwrite_what_is_not_committed(work: Path) -> None:
    path, other = work / "a.safetensors", work / "b.safetensors"
    write_model(path, 0)
    with Repository.open(work) as repo:
        first = repo.commit_files([path], message="a")
        write_model(path, 1)
        write_model(other, 1)
        second = repo.commit_files([path, other], message="ab")
        edited = write_model(path, 2)
        for action in (
            lambda: repo.checkout_files(first.id),
            lambda: repo.checkout_files(second.id),
            lambda: repo.switch("side", create_from=first.id),
        ):
            with pytest.raises(ConflictError) as caught:
                action()
            assert "--force" in caught.value.hint
            assert path.read_bytes() == edited
            assert repo.head().id == second.id
        repo.checkout_files(second.id, force=True)
        untracked = write_model(other, 3)
        repo.checkout_files(first.id, force=True)
        assert not other.exists()
        other.write_bytes(untracked)
        with pytest.raises(ConflictError):
            repo.checkout_files("main")
        assert other.read_bytes() == untracked


def test_values_of_a_dropped_exact_layer_are_not_overwritten(work: Path) -> None:
    path = work / "model.safetensors"
    with Repository.open(work) as repo:
        write_model(path, 0)
        first = repo.commit_files([path], message="0", bins=16)
        exact = path.read_bytes()
        for number in (1, 2):
            write_model(path, number)
            repo.commit_files([path], message=str(number), bins=16)
        assert repo.resolve(first.id).exact_layer == "dropped"
        repo.checkout_files(first.id, force=True)
        assert path.read_bytes() != exact
        path.write_bytes(exact)
        assert states_of(repo) == {"model.safetensors": "unmodified"}
        with pytest.raises(ConflictError) as caught:
            repo.checkout_files("main")
        assert "--force" in caught.value.hint
        assert "stored nowhere" in caught.value.message
        assert path.read_bytes() == exact
        repo.checkout_files("main", force=True)


def lossy_commit(repo: Repository, path: Path) -> str:
    """Commit three bounded versions and restore the first, whose exact layer is gone."""
    commits = []
    for number in range(3):
        write_model(path, number)
        commits.append(repo.commit_files([path], message=str(number), bins=16).id)
    repo.checkout_files(commits[0], force=True)
    return commits[0]


def edit(path: Path) -> None:
    tensors = load_file(path)
    save_file({name: tensor + np.float32(1e-3) for name, tensor in tensors.items()}, path)


def test_a_commit_that_continues_from_lossy_values_says_so(work: Path) -> None:
    path = work / "model.safetensors"
    with Repository.open(work) as repo:
        origin = lossy_commit(repo, path)
        edit(path)
        expected = save(load_file(path))
        info = repo.commit_files([path], message="continues", bins=16)
        assert (info.exactness, info.lineage_exact, info.restored_from) == ("bounded", False, origin)
        assert info.errors["snap-back"]["retained"] >= 0.9
        path.unlink()
        repo.checkout_files("HEAD")
        assert save(load_file(path)) == expected
        edit(path)
        later = repo.commit_files([path], message="later", bins=16)
        assert (later.exactness, later.lineage_exact, later.restored_from) == ("bounded", False, info.id)
        assert [commit.lineage_exact for commit in repo.log()] == [False, False, True]


def test_the_mark_outlives_an_interrupted_checkout(work: Path) -> None:
    """Wherever a lossy checkout stops: when the lossy values are in place, the next commit says so."""
    path = work / "model.safetensors"
    with Repository.open(work) as repo:
        for number in range(3):
            data = write_model(path, number)
            repo.commit_files([path], message=str(number), bins=16)
    replaced = False
    for allowed in range(40):
        with Repository.open(work) as repo:
            stopped = False
            try:
                with Disk(work, allowed):
                    repo.checkout_files("main~2")
            except Stopped:
                stopped = True
        if path.read_bytes() != data:
            replaced = True
            edit(path)
            with Repository.open(work) as repo:
                info = repo.commit_files([path], message="continues", bins=16)
                assert (info.exactness, info.lineage_exact) == ("bounded", False), allowed
            break
        assert stopped
    assert replaced


def test_a_file_that_is_not_in_the_next_commit_keeps_its_mark(work: Path) -> None:
    path, other = work / "model.safetensors", work / "other.safetensors"
    with Repository.open(work) as repo:
        origin = lossy_commit(repo, path)
        write_model(other, 5)
        # Nothing tells where a stranger behind a bounded commit comes from.
        assert repo.commit_files([other], message="other", only=True).lineage_exact is None
        edit(path)
        info = repo.commit_files([path], message="continues", bins=16)
        assert (info.exactness, info.restored_from) == ("bounded", origin)


def test_files_committed_from_elsewhere_stay_where_they_are(work: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.safetensors"
    data = write_model(outside, 0)
    with Repository.open(work) as repo:
        repo.commit_files([outside], message="named", names={outside: "inside.safetensors"})
        assert states_of(repo) == {"inside.safetensors": "unmodified"}
        write_model(work / "own.safetensors", 1)
        repo.commit_files([work / "own.safetensors"], message="own", only=True)
        repo.checkout_files("HEAD~1")
        assert (work / "inside.safetensors").read_bytes() == data
        repo.checkout_files("main")
        assert not (work / "inside.safetensors").exists()
        assert outside.read_bytes() == data
        mine = write_model(work / "inside.safetensors", 7)
        with pytest.raises(ConflictError):
            repo.checkout_files("HEAD~1")
        assert (work / "inside.safetensors").read_bytes() == mine


def test_what_an_interrupted_checkout_leaves_is_not_committed(work: Path) -> None:
    folder = work / "run"
    write_model(folder / "model.safetensors", 0)
    with Repository.open(work) as repo:
        repo.commit_files([folder], message="0")
        write_model(folder / "model.safetensors", 1)
        repo.commit_files([folder], message="1")
        leftovers = set()
        for allowed in count():
            try:
                with Disk(work, allowed):
                    Repository.open(work).checkout_files("main~1")
                break
            except Stopped:
                pass
            leftovers |= {path.name for path in folder.iterdir()} - {"model.safetensors"}
        assert leftovers
        repo.checkout_files("main", force=True)
        repo.commit_files([folder], message="2")
        assert list(repo.show().files) == ["run/model.safetensors"]


@pytest.mark.parametrize(
    "path",
    [
        "../out",
        "/tmp/out",
        "a/../../out",
        "./x",
        "a//b",
        "C:/x",
        "a\\b",
        ".mvcs/config.toml",
        ".MVCS/HEAD",
        "sub/.mvcs/HEAD",
        "",
        "x\0y",
    ],
)
def test_a_tree_made_by_hand_never_writes_outside(work: Path, path: str) -> None:
    """A commit whose tree names a file outside the folder, with right ids and checksums throughout."""
    write_model(work / "aa" / "model.safetensors", 0)
    with Repository.open(work) as repo:
        repo.commit_files([work / "aa"], message="good")
        forge(repo, path)
    before = sorted(work.parent.rglob("*"))
    with Repository.open(work) as repo:
        for action in (
            lambda: repo.checkout_files("evil"),
            lambda: repo.checkout_files("evil", force=True),
            lambda: repo.export("evil", work / "target"),
            lambda: repo.checkout("evil"),
        ):
            with pytest.raises(CorruptionError) as caught:
                action()
            assert "stay inside" in caught.value.message
        assert sorted(work.parent.rglob("*")) == before
        assert not repo.fsck().ok
    with pytest.raises(MvcsError):
        Repository.clone(str(work), work.parent / "clone").checkout_files("origin/evil")
    assert not (work.parent / "out").exists()


def forge(repo: Repository, path: str) -> None:
    """Make branch `evil` at a copy of HEAD whose only file has another path."""
    session = repo._session
    head = session.head()
    session.store.catalog.attach_commit(head.id)
    tree = session.store.tree(head.commit.tree).encode()
    good = b"aa/model.safetensors"
    # The name's length is part of its encoding: 0x74 begins a text of 20 bytes.
    assert tree.count(bytes([0x60 + len(good)]) + good) == 1
    name = path.encode()
    forged = tree.replace(bytes([0x60 + len(good)]) + good, bytes([0x60 + len(name)]) + name)
    writer = ObjectWriter(session.store)
    tree_id = writer.put(Kind.TREE, forged)
    content = head.commit.encode().replace(head.commit.tree, tree_id)
    commit = writer.put(Kind.COMMIT, content)
    writer.finish()
    others = session.store.manifests.placement(head.id).packs
    placement = replace(writer.placement, others=others)
    session.store.manifests.write(Manifest(WrittenCommit(commit, content), placement))
    session.refs.update(HEADS, "evil", None, RefChange(commit, "eve", "forged"))


def test_a_link_out_of_the_folder_is_not_followed(work: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    data = write_model(work / "run" / "model.safetensors", 0)
    with Repository.open(work) as repo:
        repo.commit_files([work / "run"], message="run")
        write_model(work / "other.safetensors", 1)
        repo.commit_files([work / "other.safetensors"], message="other", only=True)
        (work / "run" / "model.safetensors").rename(outside / "model.safetensors")
        (work / "run").rmdir()
        (work / "run").symlink_to(outside)
        precious = write_model(outside / "model.safetensors", 9)
        for force in (False, True):
            with pytest.raises((UsageError, ConflictError)):
                repo.checkout_files("HEAD~1", force=force)
            assert (outside / "model.safetensors").read_bytes() == precious
        assert {path.name for path in outside.iterdir()} == {"model.safetensors"}
        (work / "run").unlink()
        repo.checkout_files("HEAD~1")
        assert (work / "run" / "model.safetensors").read_bytes() == data
        (work / "run").rename(tmp_path / "moved")
        (work / "run").symlink_to(tmp_path / "moved")
        repo.checkout_files("main", force=True)
        assert (tmp_path / "moved" / "model.safetensors").read_bytes() == data


def test_an_unsupported_object_is_named_by_its_path(work: Path) -> None:
    with Repository.open(work) as repo:
        for bad, path in (
            ({"model": {"f": print}}, "model.f"),
            ({"a": [1, {"b": object()}]}, "a.1.b"),
            ({"x": torch.randn(3).to_sparse()}, "x"),
        ):
            with pytest.raises(MvcsError) as caught:
                repo.commit({"ok": state(0), **bad})
            assert path in caught.value.message.replace("[", ".").replace("]", "")
        assert repo.head() is None
        assert repo.fsck().ok


def test_files_that_a_folder_brought_stay_opaque_ever_after(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "model"
    folder.mkdir(parents=True)
    save_file({"w": np.zeros((4, 4), np.float32)}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"layers": 2}')
    repository = Repository.init(tmp_path / "run")
    repository.commit_files([folder], message="as downloaded")
    (folder / "config.json").touch()
    (repository.top / ".mvcs" / "index").unlink()

    assert {entry.state for entry in repository.status().entries} == {"unmodified"}

    (folder / "config.json").write_text('{"layers": 3}')

    assert {entry.path: entry.state for entry in repository.status().entries} == {
        "model/config.json": "modified",
        "model/model.safetensors": "unmodified",
    }

    repository.commit_files(message="HEAD's files, without naming them")
    repository.checkout_files("HEAD~1")

    assert (folder / "config.json").read_text() == '{"layers": 2}'
