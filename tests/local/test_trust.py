"""Another user's folder is not obeyed and odd kinds of stores are not opened, unless the user says so."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError, NotFoundError, UsageError
from mvcs.local import Trust
from mvcs.local.user_config import UserConfig
from mvcs.store.backend import open_backend
from tests.repository.states import state, write_model


@pytest.fixture
def mine(tmp_path: Path) -> Trust:
    return Trust.of_user(tmp_path / "settings")


@pytest.fixture
def strange(mine: Trust) -> Trust:
    """As another user sees what this one owns."""
    return replace(mine, owners=frozenset({os.geteuid() + 1}))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    with Repository.init(tmp_path / "work") as repo:
        repo.commit(state(0))
    return tmp_path / "work"


def test_another_users_repository_is_not_opened_before_one_says_so(work: Path, strange: Trust) -> None:
    (work / "below" / "deep").mkdir(parents=True)
    (work / ".mvcs" / "config.toml").write_text("this is not even looked at [")
    for start in (work, work / ".mvcs", work / "below" / "deep"):
        with pytest.raises(UsageError, match="belongs to another user") as caught:
            Repository.open(start, trust=strange)
        assert f"--add safe.directory {work}" in caught.value.hint
    (work / ".mvcs" / "config.toml").unlink()
    for allowed in (str(work), str(work / "below" / ".."), "*"):
        strange.config.set("safe.directory", allowed)
        Repository.open(work / "below", trust=replace(strange)).close()
    strange.config.set("safe.directory", str(work.parent))
    with pytest.raises(UsageError):
        Repository.open(work, trust=replace(strange))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(
    "given", [".mvcs", ".mvcs/config.toml", ".mvcs/HEAD", ".mvcs/local", ".mvcs/local/odd.json"]
)
def test_a_single_strange_file_is_enough(work: Path, mine: Trust, given: str) -> None:
    (work / ".mvcs" / "config.toml").touch()
    (work / ".mvcs" / "local").mkdir(exist_ok=True)
    (work / ".mvcs" / "local" / "odd.json").touch()
    Repository.open(work, trust=mine).close()
    os.chown(work / given, os.geteuid() + 1, -1)
    with pytest.raises(UsageError, match="another user"):
        Repository.open(work, trust=mine)
    Repository.open(work, trust=Trust.of_user(mine.settings.parent, [os.geteuid() + 1])).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_index_of_a_stranger_is_ignored(work: Path, tmp_path: Path, mine: Trust) -> None:
    """It says where files lie, and another user could have anything committed."""
    secret = tmp_path / "secret.safetensors"
    write_model(secret, 0)
    with Repository.open(work, trust=mine) as repo:
        repo.commit_files([secret], message="one", names={secret: "model.safetensors"})
        assert [file.state for file in repo.status().entries] == ["unmodified"]
        os.chown(work / ".mvcs/index", os.geteuid() + 1, -1)
        assert [file.state for file in repo.status().entries] == ["deleted"]
        write_model(work / "model.safetensors", 1)
        assert [file.state for file in repo.status().entries] == ["modified"]
        assert not any(str(secret) in note for note in repo.commit_files([], message="two").notes)


def test_a_file_from_elsewhere_that_nobody_named_is_said(work: Path, tmp_path: Path, mine: Trust) -> None:
    far = tmp_path / "far.safetensors"
    write_model(far, 0)
    with Repository.open(work, trust=mine) as repo:
        told = repo.commit_files([far], message="one", names={far: "model.safetensors"}).notes
        assert not any("outside" in note for note in told)
        write_model(far, 1)
        [note] = [note for note in repo.commit_files([], message="two").notes if "outside" in note]
        assert note == f"'model.safetensors' was read outside the folder, from '{far}'"


def test_settings_of_a_stranger_are_not_even_looked_at(
    work: Path, tmp_path: Path, mine: Trust, strange: Trust
) -> None:
    Repository.clone(str(work), tmp_path / "copy", trust=mine).close()
    (work / ".mvcs" / "config.toml").write_text("this is not even looked at [")
    with pytest.raises(UsageError, match="another user"):
        Repository.clone(str(work), tmp_path / "again", trust=strange)


def test_a_link_to_a_repository_of_ones_own_is_followed(work: Path, tmp_path: Path, mine: Trust) -> None:
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".mvcs").symlink_to(work / ".mvcs")
    Repository.open(tmp_path / "linked", trust=mine).close()


def test_a_stranger_s_folder_is_cloned_from_but_does_not_lead_elsewhere(
    work: Path, tmp_path: Path, mine: Trust, strange: Trust
) -> None:
    Repository.clone(str(work), tmp_path / "copy", trust=mine).close()
    config = work / ".mvcs" / "config.toml"
    config.write_text('[store]\nurl = "memory://elsewhere"\n')
    with pytest.raises(UsageError, match="another user"):
        Repository.clone(str(work), tmp_path / "again", trust=strange)
    with pytest.raises(NotFoundError):
        Repository.clone(str(work), tmp_path / "again", trust=mine)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.invalid/x",
        "https://example.invalid/x",
        "reference://x",
        "github://x",
        "zip://x",
        "simplecache::s3://bucket/x",
        "filecache::memory://x",
        "zip://x.zip::memory://x",
        "s3://bucket::zip://x",
        "memory://x::reference://y",
        "S3://bucket",
        "os.system://x",
        "dir://x",
        "jupyter://x",
    ],
)
def test_only_stores_of_known_kinds_are_opened(work: Path, tmp_path: Path, mine: Trust, url: str) -> None:
    with pytest.raises(UsageError, match="cannot open") as caught:
        open_backend(url)
    assert caught.value.hint
    with pytest.raises(UsageError):
        Repository.clone(url, tmp_path / "copy", trust=mine)
    with pytest.raises(UsageError):
        Repository.init(tmp_path / "new", store=url, trust=mine)
    assert not (tmp_path / "new").exists()
    (work / ".mvcs" / "config.toml").write_text(f'[store]\nurl = "{url}"\n')
    with pytest.raises(UsageError):
        Repository.open(work, trust=mine)


def test_the_user_may_add_a_kind_of_store_and_a_repository_may_not(work: Path, mine: Trust) -> None:
    for text in ('[safe]\nprotocol = ["dir"]\n', '[safe]\ndirectory = ["*"]\n'):
        (work / ".mvcs" / "config.toml").write_text(text)
        with pytest.raises(CorruptionError, match="yours alone"):
            Repository.open(work, trust=mine)
    (work / ".mvcs" / "config.toml").unlink()
    with Repository.open(work, trust=mine) as repo, pytest.raises(UsageError, match="yours alone"):
        repo.config_set("safe.directory", "*")
    mine.config.set("safe.protocol", "local-cache")
    assert mine.opens("local-cache")
    assert not mine.opens("http")
    with pytest.raises(UsageError, match="chains"):
        mine.open("local-cache::memory://x")


def test_settings_of_a_user(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "config.toml"
    config = UserConfig(path)
    assert (config.items(), config.get("user.name"), config.listed("safe.directory")) == ({}, None, ())
    config.set("user.name", "Ada")
    config.set("safe.directory", "/a", add=True)
    config.set("safe.directory", "/b", add=True)
    config.set("safe.directory", "/b", add=True)
    path.write_text("# mine\n" + path.read_text())
    assert UserConfig(path).items() == {"safe.directory": ["/a", "/b"], "user.name": "Ada"}
    config.set("safe.directory", "*")
    config.unset("user.name")
    assert UserConfig(path).items() == {"safe.directory": ["*"]}
    assert path.read_text().startswith("# mine\n")
    with pytest.raises(NotFoundError):
        config.unset("user.name")
    for key, value in (("store.url", "s3://x"), ("safe.everything", "1"), ("user.name", "https://u:p@h")):
        with pytest.raises(UsageError):
            config.set(key, value)
    with pytest.raises(UsageError, match="one value"):
        config.set("user.name", "Bob", add=True)
    for text in (
        "[safe]\ndirectory = [1]\n",
        "[user]\nname = ['a', 'b']\n",
        "[store]\nurl = 's3://x'\n",
        "[",
    ):
        path.write_text(text)
        with pytest.raises(CorruptionError):
            UserConfig(path)
    assert UserConfig(None).listed("safe.directory") == ()


def test_the_users_own_name_signs_where_the_repository_has_none(work: Path, mine: Trust) -> None:
    mine.config.set("user.name", "Ada of all repositories")
    with Repository.open(work, trust=mine) as repo:
        assert repo.commit(state(1)).author == "Ada of all repositories"
        repo.config_set("user.name", "Ada of this one")
        assert repo.commit(state(2)).author == "Ada of this one"
    mine.settings.write_text("damaged [")
    with Repository.open(work, trust=replace(mine)) as repo:
        repo.config_unset("user.name")
        assert repo.commit(state(3)).author
