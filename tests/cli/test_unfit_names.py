"""Names that another system could not hold: refused by a commit, and never written into a folder."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError, MvcsError, UsageError
from tests.repository.states import write_model
from tests.restore.test_acting_paths import committed_under, listed, paths, pushed_under

UNFIT = {
    "12:30.txt": "stream",
    "con.txt": "device",
    "sub/COM¹": "device",
    "end.": "leaves out dots",
    "end /x": "leaves out dots",
    ".mv\u200ccs/config.toml": "version control",
    "MVCS~1/config.toml": "version control",
    "A/x": "one name",
    "a/y": "one name",
}
LONG = f"{'x' * 256}.txt"


def write(top: Path, name: str, text: str = "x") -> Path:
    (top / name).parent.mkdir(parents=True, exist_ok=True)
    (top / name).write_text(text)
    return top / name


def test_a_commit_names_all_files_that_other_systems_could_not_hold(mvcs: Any) -> None:
    mvcs.model()
    for name in UNFIT:
        write(mvcs.folder, name)
    error = mvcs("commit", ".", "-m", "x", "--json", code=2).error
    for name, reason in UNFIT.items():
        assert reason in error["message"]
        shown = (
            name.partition("/x")[0] if name.startswith("end") else name.removesuffix("/x").removesuffix("/y")
        )
        assert shown.replace("\u200c", "\\u200c") in error["message"]
    assert "--as NAME" in error["hint"]
    assert mvcs.json("log") == []
    # Without them the rest is committed, and one of them under another name.
    mvcs("commit", "model.safetensors", "-m", "x")
    mvcs("commit", "12:30.txt", "--as", "half-past-twelve.txt", "--plain", "-m", "x")
    assert set(mvcs.json("show")["files"]) == {
        "half-past-twelve.txt",
        "model.safetensors",
    }


@pytest.mark.parametrize(
    "name", ["x/a:b", "nul", "x.", "x ", "GIT~1/x", LONG, "Model.safetensors", ".mvcs /x", "a\\b"]
)
def test_a_file_gets_no_such_name(mvcs: Any, name: str) -> None:
    mvcs.commit()
    write(mvcs.folder, "y.txt")
    assert "cannot be" in mvcs("commit", "y.txt", "--plain", "--as", name, "-m", "x", code=2).err
    if name not in ("Model.safetensors", LONG):
        assert "cannot be" in mvcs("mv", "model.safetensors", name, "-m", "x", code=2).err
    assert len(mvcs.json("log")) == 1


def test_a_file_that_head_has_in_another_case_is_told_of(mvcs: Any) -> None:
    mvcs.commit()
    mvcs.model("Model.safetensors", seed=1)
    error = mvcs("commit", "Model.safetensors", "-m", "x", "--json", code=2).error
    assert error["message"].startswith("'Model.safetensors' and 'model.safetensors' cannot be")
    assert "mvcs mv" in error["hint"]
    mvcs("commit", "Model.safetensors", "--only", "-m", "x")
    mvcs("mv", "Model.safetensors", "MODEL.safetensors", "-m", "x")


@pytest.fixture
def old(tmp_path: Path) -> Any:
    """A function that makes a history as an earlier version did, with names that no commit takes now."""

    def made(*names: str) -> Path:
        source = tmp_path / "source"
        for number in range(len(names)):
            write(source, str(number), f"text {number}")
        return pushed_under(tmp_path, source, {str(number): name for number, name in enumerate(names)})

    return made


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (["x/a:b", "z"], UsageError, "'x/a:b' is not restored: Windows takes what follows a colon"),
        (["CON", "lpt1.pt"], UsageError, "'CON', 'lpt1.pt' are not restored: Windows takes it for a device"),
        (["x./a", "y /b"], UsageError, "'x.', 'y ' are not restored: Windows leaves out"),
        (["Model", "model"], UsageError, "'Model' and 'model' are not restored: macOS and Windows take them"),
        (["e\u0301/a", "é/b"], UsageError, "are not restored: macOS and Windows take them"),
        ([LONG, "z"], UsageError, "255 bytes"),
        (["mvcs~1/config", "z"], CorruptionError, "'mvcs~1/config' is not restored: version control tools"),
        ([".mv\u200dcs/config", "CON"], CorruptionError, "'CON' is not restored"),
    ],
)
def test_a_history_with_such_names_is_seen_and_never_written(
    old: Any, tmp_path: Path, names: list[str], error: type[MvcsError], message: str
) -> None:
    far = old(*names)
    with Repository.open(tmp_path / "near") as near:
        with pytest.raises(error) as caught:
            near.pull()
        assert message in caught.value.message
        tip = near.resolve("origin/main")
        assert sorted(paths(near, tip.id)) == sorted(names)
        assert near.show(tip.id).commit.id == tip.id
        assert len(list(near.log(tip.id))) == 2
        assert near.diff("HEAD", tip.id).files
        assert near.fsck().problems == []
        for action in (
            lambda: near.checkout_files(tip.id, force=True),
            lambda: near.switch("side", create_from=tip.id),
            lambda: near.reset(tip.id, hard=True, force=True),
            lambda: near.restore_files([near.top], rev=tip.id, force=True),
            lambda: near.export(tip.id, tmp_path / "out"),
        ):
            with pytest.raises(error):
                action()
        assert listed(near.top) == ["model.safetensors"]
        for number, name in enumerate(names):
            near.export(f"{tip.id}:{name}", tmp_path / f"one-{number}")
            assert (tmp_path / f"one-{number}").read_text() == f"text {number}"
    with pytest.raises(error):
        Repository.clone(str(far), tmp_path / "clone")
    assert listed(tmp_path / "clone") == []
    assert not (tmp_path / "out").exists()


def test_tensors_of_such_a_commit_can_still_be_written(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write_model(source / "0.safetensors", 0)
    with Repository.init(tmp_path / "old") as repo:
        rev = committed_under(repo, source, {"0.safetensors": "run/12:30.safetensors"})
        for target in ("tensors.npz", "model.safetensors", "bare"):
            repo.export(rev, tmp_path / target)
        assert (tmp_path / "bare").read_bytes() == (source / "0.safetensors").read_bytes()
        with pytest.raises(UsageError, match="is not restored"):
            repo.export(rev, f"{tmp_path}/folder/")
        with pytest.raises(UsageError, match="is not restored"):
            repo.export(rev, tmp_path)


def test_such_a_commit_is_put_right_file_by_file(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for number in range(3):
        write(source, str(number), f"text {number}")
    with Repository.init(tmp_path / "old") as repo:
        committed_under(repo, source, {"0": "12:30", "1": "Model", "2": "model"})
        for name in ("12:30", "Model", "model"):
            shutil.copy(source / {"12:30": "0", "Model": "1", "model": "2"}[name], repo.top / name)
        write(repo.top, "new.txt")
        assert {entry.state for entry in repo.status().entries} == {"unmodified"}
        with pytest.raises(UsageError, match="'12:30' cannot be") as caught:
            repo.commit_files([repo.top / "new.txt"], message="x", plain=True)
        assert "mvcs mv" in caught.value.hint
        assert "mvcs rm" in caught.value.hint
        repo.move_files([repo.top / "12:30"], repo.top / "half", message="x")
        repo.remove_files([repo.top / "Model"], message="x")
        repo.commit_files([repo.top / "new.txt"], message="x", plain=True)
        assert paths(repo) == ["half", "model", "new.txt"]
        repo.checkout_files("HEAD", force=True)
