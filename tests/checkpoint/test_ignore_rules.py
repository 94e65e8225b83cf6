"""`.mvcsignore` against git itself, and against lines that would keep a matcher busy."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mvcs.checkpoint.ignore_rules import IGNORE_FILE, MAX_BYTES, MAX_PATTERNS, IgnoreRules
from mvcs.errors import StorageError

LINES = r"""
*.tmp !keep.tmp logs/ /top a/b a/** **/b a/**/b ** /** a**b */b # #a \#hash \!bang space\  a//b / // !
[ab] [!ab] [^a] []a] [a-c]x [c-a] [[:digit:]] [[:nope:]] [a a\ \a ? a? *a*b* **/ a/**/ b/ !b/ /a/* !/a/b
a/*/b *** a/*** ***/b [a\]] [a-] [-a]
"""
HAND_MADE = [*LINES.split(), "# comment", "space\\ ", "spaces   ", "\ta", "a\r", "é*"]
WORDS = r"a b c ab abc aab a1 1 - ] \ #hash !bang x.tmp keep.tmp"
NAMES = [*WORDS.split(), "space "]
# What git makes of these follows from how it is written: a slash in brackets or escaped, spaces alone.
QUIRKS = re.compile(r"\[[^\]]*/|\\/|\A!? +\Z")


@pytest.fixture(scope="session", params=["files", "folders"])
def work(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder of git with names at three depths, of files or of folders at the deepest."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    top = tmp_path_factory.mktemp("git")
    subprocess.run(["git", "init", "-q", top], check=True)
    for path in paths_of():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        if path.count("/") < 2 or request.param == "folders":
            (top / path).mkdir(exist_ok=True)
        else:
            (top / path).touch()
    for name in NAMES[6:] if request.param == "files" else ():
        shutil.rmtree(top / name)
        (top / name).touch()
    return top


def paths_of() -> list[str]:
    two = [f"{one}/{other}" for one in NAMES for other in NAMES[:6]]
    return [*NAMES, *two, *(f"{path}/{last}" for path in two[:24] for last in ("a", "b"))]


def by_git(top: Path, lines: list[str]) -> set[str]:
    (top / ".gitignore").write_bytes("\n".join(lines).encode())
    command = [
        "git",
        "-C",
        str(top),
        "-c",
        "core.excludesFile=/dev/null",
        "check-ignore",
        "--no-index",
        "-z",
        "--stdin",
    ]
    there = [path for path in paths_of() if (top / path).exists()]
    found = subprocess.run(command, input="\0".join(there).encode(), capture_output=True, check=False)
    assert found.returncode in (0, 1), found.stderr
    return set(found.stdout.decode().split("\0")) - {""}


def by_mvcs(top: Path, lines: list[str]) -> set[str]:
    (top / IGNORE_FILE).write_bytes("\n".join(lines).encode())
    rules, ignored = IgnoreRules.of(top), set[str]()
    for path in paths_of():  # what a folder holds stands behind it
        if (top / path).exists() and (
            path.rpartition("/")[0] in ignored or rules.ignores(path, folder=(top / path).is_dir())
        ):
            ignored.add(path)
    return ignored


def test_each_line_means_what_git_takes_it_for(work: Path) -> None:
    for line in HAND_MADE:
        for lines in ([line], ["*.tmp", "a/**", line, "!a"]):
            assert by_mvcs(work, lines) == by_git(work, lines), lines


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=40)
@given(
    lines=st.lists(
        st.text("ab*?/!#\\[]-^ ", max_size=8).filter(lambda line: not QUIRKS.search(line)), max_size=4
    )
)
def test_any_lines_mean_what_git_takes_them_for(work: Path, lines: list[str]) -> None:
    assert by_mvcs(work, lines) == by_git(work, lines)


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("*a" * 2000 + "*b", "a" * 255),
        ("**/a/" * 800 + "b", "/".join("a" * 256)),
        ("[ab]*" * 1000 + "c", "ab" * 127),
    ],
)
def test_no_line_takes_long(tmp_path: Path, line: str, path: str) -> None:
    """A matcher that tries each place where a star could end takes longer than the universe."""
    (tmp_path / IGNORE_FILE).write_text(line)
    assert not IgnoreRules.of(tmp_path).ignores(path, folder=False)


def test_a_file_with_a_mark_of_its_encoding_is_read(tmp_path: Path) -> None:
    (tmp_path / IGNORE_FILE).write_bytes(b"\xef\xbb\xbf*.tmp\r\n\xff*\r\n")
    rules = IgnoreRules.of(tmp_path)
    assert rules.ignores("x.tmp", folder=False)
    assert rules.ignores("\udcffx", folder=False)


def test_a_file_that_is_no_list_of_patterns_is_refused(tmp_path: Path) -> None:
    assert not IgnoreRules.of(tmp_path).ignores("x", folder=False)
    (tmp_path / IGNORE_FILE).write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(StorageError, match="more than"):
        IgnoreRules.of(tmp_path)


def test_so_many_patterns_that_each_file_would_take_long_are_refused(tmp_path: Path) -> None:
    lines = [f"{number}*" for number in range(MAX_PATTERNS)]
    (tmp_path / IGNORE_FILE).write_text("\n".join(["# a comment is none"] * 1000 + lines))
    assert IgnoreRules.of(tmp_path).ignores("999.tmp", folder=False)
    (tmp_path / IGNORE_FILE).write_text("\n".join([*lines, "one more"]))
    with pytest.raises(StorageError, match="more than 1000 patterns") as caught:
        IgnoreRules.of(tmp_path)
    assert "instead of one by one" in caught.value.hint
