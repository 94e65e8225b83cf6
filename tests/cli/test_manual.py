"""The manual pages that a wheel brings say what the help says."""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mvcs.cli.group import NAMES
from mvcs.cli.manual import pages

ROOT = Path(__file__).parent.parent.parent


def test_every_command_has_a_page_with_its_options_and_examples():
    found = dict(pages("1.2.3"))
    assert set(found) == {"mvcs.1", *(f"mvcs-{name}.1" for name in NAMES)}
    commit = found["mvcs-commit.1"]
    for part in (
        '"mvcs 1.2.3"',
        ".SH NAME\nmvcs\\-commit \\- ",
        "\\-\\-step\\-size",
        ".SH EXAMPLES",
        ".SH EXIT STATUS",
    ):
        assert part in commit
    assert ".SS mvcs remote set\\-url" in found["mvcs-remote.1"]
    assert "mvcs\\-ls\\-files(1)" in found["mvcs.1"]


def test_the_pages_are_made_where_only_what_the_build_needs_is_installed():
    """A wheel is built in an environment that holds what the build needs, and not what mvcs runs on."""
    script = f"""
import sys

class Bare:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {{"click", "lazy_loader", "mvcs", *sys.stdlib_module_names}}:
            raise ModuleNotFoundError(name)

sys.path.insert(0, {str(ROOT)!r})
sys.meta_path.insert(0, Bare())
from mvcs.cli.manual import pages
print(len(dict(pages("1"))))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout.strip()) == ("", str(len(NAMES) + 1))


def test_no_line_of_a_page_is_taken_for_a_request():
    known = {"TH", "SH", "SS", "PP", "TP", "nf", "fi", "nh", "ad"}
    for name, content in pages("1"):
        assert set(re.findall(r"^[.'](\w*)", content, re.MULTILINE)) <= known, name


def test_a_formatter_has_nothing_to_complain_of():
    if shutil.which("groff") is None:
        pytest.skip("there is no groff")
    text = "".join(content for _, content in pages("1"))
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-c"], input=text, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "mvcs checkout main -o head.npz --tensor 'blocks.3.*'" in done.stdout


def test_pages_are_made_with_what_the_build_needs(tmp_path):
    for name in ("click", "lazy_loader"):
        shutil.copytree(Path(str(importlib.import_module(name).__file__)).parent, tmp_path / name)
    program = f"import sys, runpy; sys.path[:0] = {[str(tmp_path), str(ROOT)]}; sys.argv[1:] = ['man', '1'];"
    program += "runpy.run_module('mvcs.cli.manual', run_name='__main__')"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], cwd=tmp_path, check=True)
    assert (tmp_path / "man" / "mvcs-log.1").exists()
