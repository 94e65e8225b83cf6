"""What a commit of files keeps of the commit before, and what leaves it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from mvcs import Repository
from mvcs.errors import ConflictError, CorruptionError, NotFoundError, UsageError
from mvcs.reports.commits import CommitInfo
from tests.repository.states import write_model


@pytest.fixture
def repo(tmp_path: Path) -> Any:
    with Repository.init(tmp_path) as repository:
        yield repository


def files(repo: Repository, rev: str = "HEAD") -> list[str]:
    return list(repo.show(rev).files or ())


def tensors(repo: Repository, rev: str = "HEAD") -> dict[str, tuple[str, str | None]]:
    return {tensor.path: (tensor.value_id, tensor.exact_id) for tensor in repo.show(rev).tensors}


def weights(number: int, *, rows: int = 64) -> dict[str, torch.Tensor]:
    """A model that moves a little with `number`, too random to be small alone."""
    start = torch.randn(rows, 256, generator=torch.Generator().manual_seed(0))
    moves = torch.randn(rows, 256, generator=torch.Generator().manual_seed(number + 1))
    return {"w": start + 1e-4 * moves, "b": torch.full((256,), float(number))}


def save(path: Path, number: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(weights(number), path)
    return path


def test_naming_one_file_keeps_the_others_as_they_were(repo: Repository, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_model(tmp_path / f"{name}.safetensors", 0)
    np.savez(tmp_path / "c.npz", x=np.arange(5))
    repo.commit_files([tmp_path / name for name in ("a.safetensors", "b.safetensors", "c.npz")], message="0")
    before = tensors(repo)
    committed = (tmp_path / "b.safetensors").read_bytes()
    write_model(tmp_path / "b.safetensors", 7)
    mine = (tmp_path / "b.safetensors").read_bytes()
    write_model(tmp_path / "a.safetensors", 1)
    (tmp_path / "c.npz").unlink()

    info = repo.commit_files([tmp_path / "a.safetensors"], message="1")

    assert (info.kept, info.left) == (["b.safetensors", "c.npz"], [])
    assert files(repo) == ["a.safetensors", "b.safetensors", "c.npz"]
    after = tensors(repo)
    assert {path: ids for path, ids in after.items() if not path.startswith("a.")} == {
        path: ids for path, ids in before.items() if not path.startswith("a.")
    }
    assert {entry.path: entry.state for entry in repo.status().entries} == {
        "a.safetensors": "unmodified",
        "b.safetensors": "modified",
        "c.npz": "deleted",
    }
    assert (tmp_path / "b.safetensors").read_bytes() == mine
    with pytest.raises(ConflictError):
        repo.checkout_files("HEAD~1")
    repo.checkout_files("HEAD", force=True)
    assert (tmp_path / "b.safetensors").read_bytes() == committed
    assert repo.fsck().ok


def test_a_clone_gets_what_a_commit_keeps(repo: Repository, tmp_path: Path) -> None:
    save(tmp_path / "a.pt", 0)
    save(tmp_path / "b.pt", 1)
    repo.commit_files([tmp_path / "a.pt", tmp_path / "b.pt"], message="0")
    for number in (2, 3):
        repo.commit_files([save(tmp_path / "a.pt", number)], message=str(number))
    Repository.clone(str(tmp_path), tmp_path / "clone").close()
    found = torch.load(tmp_path / "clone" / "b.pt", weights_only=True)
    assert torch.equal(found["w"], weights(1)["w"])


def test_only_commits_exactly_what_is_named(repo: Repository, tmp_path: Path) -> None:
    repo.commit_files([save(tmp_path / "a.pt", 0), save(tmp_path / "b.pt", 1)], message="0")
    info = repo.commit_files([save(tmp_path / "a.pt", 2)], message="1", only=True)
    assert (info.kept, info.left, files(repo)) == ([], ["b.pt"], ["a.pt"])
    report = repo.checkout_files("HEAD~1")
    assert (report.written, report.unchanged) == (["a.pt"], ["b.pt"])


def test_none_named_takes_the_files_of_head(repo: Repository, tmp_path: Path) -> None:
    repo.commit_files([save(tmp_path / "a.pt", 0), save(tmp_path / "b.pt", 1)], message="0")
    save(tmp_path / "a.pt", 2)
    save(tmp_path / "c.pt", 3)
    info = repo.commit_files(message="1")
    assert (info.kept, info.left, files(repo)) == ([], [], ["a.pt", "b.pt"])


def test_what_is_gone_from_a_named_folder_leaves(repo: Repository, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save(folder / "one.pt", 0)
    save(folder / "two.pt", 1)
    (folder / "config.json").write_text("{}")
    save(tmp_path / "other.pt", 2)
    repo.commit_files([folder, tmp_path / "other.pt"], message="0")
    (folder / "two.pt").unlink()
    save(folder / "three.pt", 3)
    info = repo.commit_files([folder], message="1")
    assert (info.kept, info.left) == (["other.pt"], ["model/two.pt"])
    assert files(repo) == ["model/config.json", "model/one.pt", "model/three.pt", "other.pt"]
    repo.checkout_files("HEAD~1")
    assert torch.equal(torch.load(folder / "two.pt", weights_only=True)["w"], weights(1)["w"])


def test_a_file_of_a_folder_can_be_named_alone(repo: Repository, tmp_path: Path) -> None:
    """Also one of no known format: it is treated as when its folder was committed."""
    folder = tmp_path / "model"
    save(folder / "one.pt", 0)
    (folder / "config.json").write_text("{}")
    repo.commit_files([folder], message="0")
    (folder / "config.json").write_text('{"layers": 2}')
    info = repo.commit_files([folder / "config.json"], message="1")
    assert info.kept == ["model/one.pt"]
    assert [entry.state for entry in repo.status().entries] == ["unmodified"] * 2
    assert not info.notes


def test_a_folder_that_became_a_file_leaves(repo: Repository, tmp_path: Path) -> None:
    save(tmp_path / "model.pt" / "inner.pt", 0)
    repo.commit_files([tmp_path / "model.pt"], message="0")
    (tmp_path / "model.pt" / "inner.pt").unlink()
    (tmp_path / "model.pt").rmdir()
    info = repo.commit_files([save(tmp_path / "model.pt", 1)], message="1")
    assert (info.left, files(repo)) == (["model.pt/inner.pt"], ["model.pt"])


def test_a_later_step_takes_the_place_of_the_earlier(repo: Repository, tmp_path: Path) -> None:
    """The issue's case: from the third file on none was stored near another."""
    sizes = []
    for step in (1000, 2000, 3000, 4000):
        info = repo.commit_files([save(tmp_path / f"step_{step}.pt", step)], message=str(step))
        sizes.append(info.stored_bytes)
        assert files(repo) == [f"step_{step}.pt"]
        if step > 1000:
            assert info.left == [f"step_{step - 1000}.pt"]
            assert f"'step_{step}.pt' takes the place of 'step_{step - 1000}.pt'" in info.notes
    assert max(sizes[1:3]) < 0.9 * sizes[0]  # the fourth is stored alone: two deltas are as many as pay
    assert all((tmp_path / f"step_{step}.pt").exists() for step in (1000, 2000, 3000, 4000))
    assert repo.checkout_files("main~3").unchanged == ["step_1000.pt"]


def test_a_later_checkpoint_folder_takes_the_place_of_the_earlier(repo: Repository, tmp_path: Path) -> None:
    def checkpoint(step: int) -> CommitInfo:
        folder = tmp_path / "run" / f"checkpoint-{step}"
        save(folder / "model.pt", step)
        save(folder / f"optimizer_{step}.pt", step)
        (folder / "state.json").write_text(str(step))
        return repo.commit_files([folder], message=str(step))

    checkpoint(100)
    save(tmp_path / "run" / "tokens.pt", 5)
    repo.commit_files([tmp_path / "run" / "tokens.pt"], message="tokens")
    info = checkpoint(200)
    assert info.kept == ["run/tokens.pt"]
    assert [path.split("/")[1] for path in info.left] == ["checkpoint-100"] * 3
    assert info.stored_bytes < 0.9 * info.raw_bytes


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("model-00001-of-00002.pt", "model-00002-of-00002.pt"),
        ("rank_0.pt", "rank_1.pt"),
        ("v1.pt", "v2.pt"),
        ("step_2000.pt", "step_1000.pt"),
        ("step_1000_rank_0.pt", "step_2000_rank_1.pt"),
        ("a/step_1000.pt", "b/step_2000.pt"),
        ("epoch_1.pt", "epoch_2.npz"),
    ],
)
def test_other_names_stand_side_by_side(repo: Repository, tmp_path: Path, old: str, new: str) -> None:
    repo.commit_files([save(tmp_path / old, 0)], message="0")
    if new.endswith(".npz"):
        np.savez(tmp_path / new, x=np.arange(3))
    else:
        save(tmp_path / new, 1)
    assert repo.commit_files([tmp_path / new], message="1").kept == [old]


def test_steps_that_were_committed_together_stay(repo: Repository, tmp_path: Path) -> None:
    for step in (1000, 2000, 3000):
        save(tmp_path / f"step_{step}.pt", step)
    repo.commit_files([tmp_path / "step_1000.pt", tmp_path / "step_2000.pt"], message="both")
    info = repo.commit_files([tmp_path / "step_3000.pt"], message="a third")
    assert info.kept == ["step_1000.pt", "step_2000.pt"]
    assert info.stored_bytes < 0.9 * info.raw_bytes / 3


def test_what_is_new_is_stored_near_what_is_most_like_it(repo: Repository, tmp_path: Path) -> None:
    """Several files fit by format; the one with the same tensors tells most, and then the nearest number."""
    other = {f"layer{i}.w": torch.randn(64, 256) for i in range(3)}
    torch.save(other, tmp_path / "encoder.pt")
    save(tmp_path / "weights7.pt", 7)
    torch.save({name: tensor.half() for name, tensor in weights(9).items()}, tmp_path / "weights8.pt")
    repo.commit_files(
        [tmp_path / "encoder.pt", tmp_path / "weights7.pt", tmp_path / "weights8.pt"], message="0"
    )
    info = repo.commit_files([save(tmp_path / "best.pt", 8)], message="1")
    assert info.stored_bytes < 0.9 * 64 * 256 * 4
    torch.save({name: tensor + 1e-4 for name, tensor in other.items()}, tmp_path / "second.pt")
    info = repo.commit_files([tmp_path / "second.pt"], message="2")
    assert info.stored_bytes < 0.9 * 3 * 64 * 256 * 4


def test_replace_takes_the_place_of_what_it_is_stored_near(repo: Repository, tmp_path: Path) -> None:
    save(tmp_path / "first" / "model.pt", 0)
    (tmp_path / "first" / "config.json").write_text("{}")
    repo.commit_files([tmp_path / "first"], message="0")
    save(tmp_path / "second" / "model.pt", 1)
    info = repo.commit_files([tmp_path / "second"], message="1", replaces=True)
    assert (info.kept, info.left) == ([], ["first/config.json", "first/model.pt"])
    assert "'second' takes the place of 'first'" in info.notes
    info = repo.commit_files([save(tmp_path / "final.pt", 2)], message="2", replaces=True)
    assert info.left == ["second/model.pt"]
    np.savez(tmp_path / "data.npz", x=np.arange(3))
    with pytest.raises(UsageError, match=r"data\.npz"):
        repo.commit_files([tmp_path / "data.npz"], message="3", replaces=True)


def bounded(repo: Repository, path: Path, number: int, **options: Any) -> CommitInfo:
    write_model(path, number)
    return repo.commit_files([path], message=str(number), bins=16, **options)


def test_a_bounded_file_that_is_kept_stays_bounded_with_its_exact_layer(
    repo: Repository, tmp_path: Path
) -> None:
    one, two = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    bounded(repo, one, 0)
    exact = one.read_bytes()
    ids, errors = tensors(repo), repo.head().errors
    for number in range(1, 5):
        write_model(two, number)
        info = repo.commit_files([two], message=str(number), bins=None if number % 2 else 4)
        assert (info.exactness, info.exact_layer) == ("bounded", "kept")
        assert info.lineage_exact is None  # a new file after a bounded commit: no record tells its origin
        assert info.errors["weight"]["relative"] >= errors["weight"]["relative"]
        # Once the worst is replaced, which is it now nobody has measured.
        worst = (None if info.worst is None else info.worst.tensor.partition(".")[0]) or ""
        assert worst == ("one" if number == 1 else "" if number == 3 else "two")
    assert {path: found for path, found in tensors(repo).items() if path.startswith("one")} == ids
    assert repo.show().quantizer is not None
    repo.checkout_files("HEAD", exact=True, force=True)
    assert one.read_bytes() == exact
    assert repo.resolve("main~4").exact_layer == "dropped"
    assert repo.fsck().ok


def test_without_the_exact_layer_of_what_is_kept_there_is_none(repo: Repository, tmp_path: Path) -> None:
    one, two = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    bounded(repo, one, 0)
    Repository.clone(str(tmp_path), tmp_path / "clone").close()
    with Repository.open(tmp_path / "clone") as clone:
        info = bounded(clone, tmp_path / "clone" / "two.safetensors", 1)
        assert (info.exactness, info.exact_layer, info.exact_bytes) == ("bounded", "dropped", 0)
        assert any("exact layer" in note for note in info.notes)
        with pytest.raises(NotFoundError):
            clone.checkout_files("HEAD", exact=True)
        assert clone.fsck().ok
        assert not list((tmp_path / "clone" / ".mvcs" / "exact").rglob("*.pack"))
    assert bounded(repo, two, 1).exact_layer == "kept"


def test_a_kept_file_that_was_restored_lossily_keeps_its_mark(repo: Repository, tmp_path: Path) -> None:
    one, two = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    for number in range(3):
        bounded(repo, one, number)
    repo.switch("side", create_from="main~2", force=True)
    info = bounded(repo, two, 3)
    assert info.kept == ["one.safetensors"]
    changed = {name: tensor + np.float32(1e-3) for name, tensor in load_file(one).items()}
    save_file(changed, one)
    info = repo.commit_files([one], message="continues", bins=16)
    assert (info.lineage_exact, info.kept) == (False, ["two.safetensors"])


def test_a_damaged_file_is_not_kept_in_silence(repo: Repository, tmp_path: Path) -> None:
    repo.commit_files([save(tmp_path / "a.pt", 0)], message="0")
    (first,) = (tmp_path / ".mvcs" / "packs").rglob("*.pack")
    repo.commit_files([save(tmp_path / "b.pt", 1)], message="1")
    data = first.read_bytes()
    first.unlink()
    with Repository.open(tmp_path) as again:
        with pytest.raises(CorruptionError) as caught:
            again.commit_files([save(tmp_path / "b.pt", 2)], message="2")
        assert "--only" in caught.value.hint
        again.commit_files([save(tmp_path / "b.pt", 2)], message="2", only=True)
    first.write_bytes(data)
