"""`mvcs config --global`, and folders of other users, as one meets them."""

import os
import shlex

import pytest

from tests.cli.conftest import Console

STRANGER = 4321


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "mvcs" / "config.toml"


def give_away(folder):
    for path in (folder / ".mvcs", *(folder / ".mvcs").rglob("*")):
        os.chown(path, STRANGER, STRANGER)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_strangers_folder_is_refused_until_one_trusts_it(history, settings, monkeypatch):
    give_away(history.folder)
    below = Console(history.folder / "below")
    below.folder.mkdir()
    for command in ("status", "log", "fsck", "config", "remote"):
        error = below(command, "--json", code=2).error
        assert "another user" in error["message"]
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    below("status")
    monkeypatch.setenv("SUDO_UID", "not a number")
    below("status", code=2)
    below(*shlex.split(error["hint"].partition("mvcs ")[2]))
    assert str(history.folder) in settings.read_text()
    assert below.json("log")


def test_settings_for_all_repositories_need_none(console, settings):
    assert console("config", "--global").out == ""
    console("config", "--global", "user.name", "Ada")
    console("config", "--global", "--add", "safe.directory", ".")
    console("config", "--global", "--add", "safe.directory", "*")
    console("config", "--global", "--add", "safe.protocol", "hf")
    assert console.json("config", "--global", "--list") == {
        "safe.directory": [str(console.folder), "*"],
        "safe.protocol": ["hf"],
        "user.name": "Ada",
    }
    assert console("config", "--global", "safe.directory").out == f"{console.folder}\n*\n"
    assert console("config", "--global", "user.name").out == "Ada\n"
    console("config", "--global", "--unset", "safe.directory")
    assert console.json("config", "--global", "safe.directory", code=1) == {"safe.directory": None}
    assert settings.is_file()
    console("init")
    assert console.commit()["author"] == "Ada"
    assert console("config", "user.name").out == "Ada\n"
    assert console("config", "--local", "user.name", code=1).out == ""
    assert console.json("config", "-l") == console.json("config", "--global", "-l")
    assert console.json("config", "-l", "--local") == {}
    console("config", "user.name", "Grace")
    assert console("config", "user.name").out == console("config", "--local", "user.name").out == "Grace\n"
    assert console("config", "--global", "--get", "user.name").out == "Ada\n"


@pytest.mark.parametrize(
    "words",
    [
        ("--add", "user.name", "x"),
        ("--global", "--add", "user.name"),
        ("--global", "--add", "user.name", "x"),
        ("--global", "store.url", "s3://x"),
        ("safe.directory", "*"),
        ("safe.protocol", "hf"),
    ],
)
def test_what_is_no_such_setting(mvcs, settings, words):
    assert mvcs("config", *words, code=2).err
    assert not settings.exists()
