"""Paths that act on whoever restores them, in every spelling that some file system takes for the same."""

import pytest

from mvcs.errors import CorruptionError
from mvcs.objects.trees.paths import MAX_PARTS, acting_paths, safe_path


@pytest.mark.parametrize(
    "path",
    [
        ".git",
        ".git/config",
        "sub/.git/hooks/post-checkout",
        ".GIT/config",
        ".git /config",
        ".git./config",
        ".git . /config",
        "GIT~1/config",
        "git~2",
        "a/hg~1/x",
        ".g\u200cit/config",
        ".git\ufeff/config",
        "\u202e.git",
        ".git::$INDEX_ALLOCATION/config",
        ".git:stream",
        "\uff0egit/config",
        ".hg/hgrc",
        ".HG",
        ".svn/wc.db",
        ".\u017fvn/wc.db",
        "a/.mv\u200bcs/config.toml",
        ".mvcs ",
        ".JJ/repo/config.toml",
        "sub/.sl/config",
        "sl~1",
        ".bzr./branch/branch.conf",
        "a/_DARCS/prefs/defaults",
    ],
)
def test_names_that_some_file_system_takes_for_a_tools_folder_act(path):
    assert list(acting_paths(["model.pt", path])) == [path]


@pytest.mark.parametrize(
    "paths",
    [
        [".gitattributes", ".gitignore", ".gitmodules", "git", "x.git", ".github/workflows/x.yml", "git~"],
        ["HEAD", "config", "objects/pack", "refs.txt"],
        ["a/HEAD", "b/objects/x", "c/refs/y"],
        ["model.pt", "größe/模型"],
    ],
)
def test_other_names_do_not(paths):
    assert list(acting_paths(paths)) == []


@pytest.mark.parametrize("top", ["", "sub/", "x.git/"])
@pytest.mark.parametrize("names", [["HEAD", "objects/x", "refs/y"], ["head", "COMMONDIR"]])
def test_a_folder_that_is_a_repository_without_being_called_one_acts(top, names):
    assert list(acting_paths(["model.pt", *(top + name for name in names)])) == [f"{top or './'}HEAD"]


def test_paths_are_as_deep_as_any_system_goes_and_no_deeper():
    assert safe_path("/".join("a" * MAX_PARTS))
    with pytest.raises(CorruptionError, match="2000 parts"):
        safe_path("/".join("a" * 2000))
