"""What torch.save wrote is known by its content, whatever it is called, alone and in a folder."""

import zipfile

import pytest
import torch

from mvcs.objects.trees.leaves import FileFormat
from mvcs.repository import Repository

STATE = {
    "model": {"weight": torch.arange(6.0).reshape(2, 3)},
    "optimizer": {"state": {0: {}}, "param_groups": []},
}
NAMES = ["run.ckpt", "pytorch_model.bin", "best.tar", "epoch=3", "run.PT"]


@pytest.fixture
def repo(tmp_path):
    with Repository.init(tmp_path) as made:
        yield made


def formats(repo):
    reading = repo._reading("HEAD", exact=True)
    return {entry.path: entry.format for entry in reading.tree.files}


@pytest.mark.parametrize("old", [False, True])
def test_it_is_read_alone_and_in_a_folder_by_any_name(repo, old):
    folder = repo.top / "checkpoint"
    folder.mkdir()
    for name in NAMES:
        torch.save(STATE, folder / name, _use_new_zipfile_serialization=not old)
    for paths in ([folder], [folder / name for name in NAMES]):
        repo.commit_files(paths, message="files", only=True)
        assert set(formats(repo).values()) == {FileFormat.TORCH}
        assert [state.state for state in repo.status().entries] == ["unmodified"] * len(NAMES)
    for path in folder.iterdir():
        path.unlink()
    repo.restore_files([folder])
    for name in NAMES:
        assert torch.equal(torch.load(folder / name)["model"]["weight"], STATE["model"]["weight"])


def test_what_something_else_wrote_is_no_such_file(repo):
    folder = repo.top / "folder"
    folder.mkdir()
    with zipfile.ZipFile(folder / "archive.bin", "w") as archive:
        archive.writestr("weights/data.txt", "no tensors")
    (folder / "tokens.bin").write_bytes(b"\x80\x02" + bytes(100))
    (folder / "empty.ckpt").write_bytes(b"")
    (folder / "short.ckpt").write_bytes(b"PK\x03\x04")
    torch.save(STATE, folder / "cut.bin")
    (folder / "cut.bin").write_bytes((folder / "cut.bin").read_bytes()[:600])
    (note,) = repo.commit_files([folder], message="kept").notes
    assert note.startswith("'folder/cut.bin' is kept as it is: ")
    (folder / "empty.ckpt").write_bytes(b"1")
    assert not repo.commit_files([folder], message="what was said once is not said again").notes
    assert set(formats(repo).values()) == {FileFormat.OPAQUE}
    (repo.top / "alone.bin").write_bytes(b"\x80\x02" + bytes(100))
    (note,) = repo.commit_files([repo.top / "alone.bin"], message="alone").notes
    assert note == "'alone.bin' is kept as it is: it is not of a format that mvcs reads"


def test_status_lists_those_that_are_not_committed(repo):
    torch.save(STATE, repo.top / "run.ckpt")
    (repo.top / "tokens.bin").write_bytes(bytes(100))
    assert [(file.path, file.state) for file in repo.status().entries] == [("run.ckpt", "untracked")]


def test_a_file_that_an_earlier_commit_kept_as_it_is_stays_so_until_its_folder_is_named(repo):
    folder = repo.top / "folder"
    folder.mkdir()
    (folder / "run.bin").write_bytes(b"no tensors yet")
    repo.commit_files([folder], message="kept")
    torch.save(STATE, folder / "run.bin")
    repo.commit_files(message="again")
    assert formats(repo) == {"folder/run.bin": FileFormat.OPAQUE}
    assert [file.state for file in repo.status().entries] == ["unmodified"]
    repo.commit_files([folder], message="named")
    assert formats(repo) == {"folder/run.bin": FileFormat.TORCH}


def test_weights_and_moments_are_told_apart_in_it(repo):
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(8)).sum().backward()
    optimizer.step()
    for name in ("run.ckpt", "run.pt"):
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, repo.top / name)
    found = [
        repo.commit_files([repo.top / name], message=name, only=True, step_size=0.5)
        for name in ("run.ckpt", "run.pt")
    ]
    assert found[0].errors.keys() == found[1].errors.keys() > {"weight", "second moment"}
