"""The names at the top of the package, as a script uses them: a repository, states, and errors."""

import threading

import pytest
import torch
from torch import nn

import mvcs


class Tied(nn.Module):
    """Two layers, the second with the first's weights."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight


def test_a_repository_is_made_once_and_opened_from_then_on(tmp_path):
    folder = tmp_path / "runs" / "gpt"
    with mvcs.open_or_init(folder) as repo:
        made = repo.commit({"a": torch.ones(2)}, message="made")
        assert repo.top == folder
    with mvcs.open_or_init(str(folder)) as repo:
        assert repo.head().id == made.id
    with mvcs.open_or_init(folder / ".mvcs") as repo:
        assert repo.head().id == made.id


def test_one_in_a_folder_above_is_another(tmp_path):
    with mvcs.open_or_init(tmp_path) as above, mvcs.open_or_init(tmp_path / "run") as repo:
        above.commit({"a": 1})
        assert repo.head() is None


def test_two_that_begin_at_once_have_one_repository(tmp_path):
    opened = []
    together = threading.Barrier(2)

    def begin():
        together.wait()
        opened.append(mvcs.open_or_init(tmp_path))

    threads = [threading.Thread(target=begin) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [repo.branch for repo in opened] == ["main", "main"]


def test_what_is_no_folder_is_never_made(tmp_path):
    with pytest.raises(mvcs.NotFoundError):
        mvcs.open_or_init("memory://nowhere/at/all")
    with mvcs.open_or_init(tmp_path / "a", store=str(tmp_path / "store")) as repo:
        repo.commit({"a": 1})
    with mvcs.open_or_init(tmp_path / "store") as bare:
        assert bare.head() is not None


def test_what_is_shown_in_a_notebook_is_short(tmp_path):
    with mvcs.open_or_init(tmp_path) as repo:
        assert repr(repo) == f"<Repository '{tmp_path}' on main>"
        made = repo.commit({"a": torch.ones(2)}, message="warm-up\ndone", step=500, metrics={"loss": 2.125})
        assert repr(made) == f"<CommitInfo {made.short}, step 500, loss 2.125, exact, 'warm-up'>"
        assert isinstance(made, mvcs.CommitInfo)
        restored = repo.restore()
        assert isinstance(restored, mvcs.Restored)
        assert "tensor" not in repr(restored)
        assert len(repr(restored)) < 200


@pytest.mark.parametrize(
    ("state", "advice"),
    [
        (nn.Linear(1, 1), "pass model.state_dict()"),
        ({"net": nn.Linear(1, 1)}, "pass net.state_dict()"),
        ([torch.optim.SGD(nn.Linear(1, 1).parameters())], "pass sgd.state_dict()"),
    ],
)
def test_a_module_is_not_a_state_and_the_error_says_what_is(tmp_path, state, advice):
    with mvcs.open_or_init(tmp_path) as repo, pytest.raises(mvcs.StateError) as error:
        repo.commit(state)
    assert error.value.hint == advice


def test_a_model_takes_the_tensors_of_a_commit_without_the_names_around_them(tmp_path):
    torch.manual_seed(0)
    model, again = Tied(), Tied()
    with mvcs.open_or_init(tmp_path) as repo:
        repo.commit({"model": model.state_dict(), "model_ema": {"first.bias": torch.zeros(4)}})
        again.load_state_dict(repo.checkout(strip_prefix="model."))
        assert again.state_dict().keys() == repo.checkout(tensors="model.*", strip_prefix="model.").keys()
        assert list(repo.checkout(tensors="*.bias", strip_prefix="model.")) == [
            "first.bias",
            "second.bias",
            "model_ema.first.bias",
        ]
        with pytest.raises(mvcs.NotFoundError, match=r"no tensor begins with 'net\.'"):
            repo.checkout(strip_prefix="net.")
        repo.commit({"a": {"w": 1.0 * torch.ones(1)}, "w": torch.ones(1)})
        with pytest.raises(mvcs.UsageError, match="two tensors would be called 'w'"):
            repo.checkout(tensors="*", strip_prefix="a.")
    for mine, theirs in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_the_name_of_a_file_is_no_part_of_the_names_in_it(tmp_path):
    model = nn.Linear(2, 2)
    torch.save({"model": model.state_dict()}, tmp_path / "run.pt")
    with mvcs.open_or_init(tmp_path) as repo:
        repo.commit_files([tmp_path / "run.pt"], message="a file")
        for prefix in ("model.", "run.pt.model."):
            nn.Linear(2, 2).load_state_dict(repo.checkout(strip_prefix=prefix))
