"""What a shell completes: commands, options, and what the repository at hand has."""

import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from mvcs.cli import completion
from tests.cli.conftest import Console

SHELLS = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}
BREAKS = " \t\n\"'@><=;|&(:"
STRANGE = "two words$(touch sprung).safetensors"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A repository with three steps, a branch, a tag, a remote, and files in a folder."""
    mvcs = Console(tmp_path_factory.mktemp("made"))
    mvcs("init")
    for step in (100, 120, 300):
        mvcs.commit(f"state {step}", "--step", step, "--metric", f"val_loss={step}", shift=step / 100)
    mvcs.model("parts/head.safetensors", seed=1)
    mvcs.model(STRANGE, seed=2)
    mvcs("commit", "parts/head.safetensors", STRANGE, "-m", "more", "--step", 400)
    mvcs("note", "HEAD", "--metric", "score=3")
    mvcs("branch", "low-lr")
    mvcs("tag", "release")
    mvcs("remote", "add", "lab", "s3://nowhere/at/all")
    return mvcs.folder


@pytest.fixture
def run(made, tmp_path):
    """A copy of it."""
    shutil.copytree(made, tmp_path / "run")
    return Console(tmp_path / "run")


@pytest.fixture
def ask(run, monkeypatch):
    """Ask as the script of a shell does."""

    def asked(line, shell="bash", where=run.folder):
        with monkeypatch.context() as context:
            context.setenv("_MVCS_COMPLETE", f"{shell}_complete")
            context.setenv("COMP_WORDS", line)
            result = Console(where)()
        assert result.err == ""
        return result.out.splitlines()

    return asked


def test_each_place_of_a_command_line_has_its_words(ask):
    names = ["plain,low-lr", "plain,main", "plain,release", "plain,HEAD", "part,step:", "part,best:"]
    files = ["plain,model.safetensors", "part,parts/", f"plain,{completion._escaped(STRANGE)}"]
    expected = {
        "mvcs swi": ["plain,switch"],
        "mvcs commit --step-": ["plain,--step-size"],
        "mvcs commit --moments r": ["plain,resume"],
        "mvcs commit --moments=r": ["plain,--moments=resume"],
        "mvcs switch ": ["plain,low-lr", "plain,main"],
        "mvcs switch -c ": [],
        "mvcs branch -d l": ["plain,low-lr"],
        "mvcs branch new r": ["plain,release"],
        "mvcs tag -d ": ["plain,release"],
        "mvcs show ": names,
        "mvcs log main ": [name for name in names if name != "plain,main"],
        "mvcs show step:1": ["plain,step:120", "plain,step:100"],
        "mvcs show best:": ["plain,best:score", "plain,best:val_loss", "part,best:min:", "part,best:max:"],
        "mvcs show best:min:v": ["plain,best:min:val_loss"],
        "mvcs show step:300:": ["plain,step:300:model.safetensors"],
        "mvcs show HEAD:parts/": ["plain,HEAD:parts/head.safetensors"],
        "mvcs log -- ": files,
        "mvcs restore parts/": ["plain,parts/head.safetensors"],
        "mvcs restore --source rel": ["plain,release"],
        "mvcs checkout step:300 -o x --tensor blocks.1": ["plain,blocks.1.bias", "plain,blocks.1.weight"],
        "mvcs commit -m x --metric v": ["part,val_loss="],
        "mvcs remote rm ": ["plain,lab"],
        "mvcs push ": ["plain,lab"],
        "mvcs push lab r": ["plain,release"],
        "mvcs config ret": ["plain,retention.exact_coding", "plain,retention.exact_layers"],
        "mvcs help remote set": ["plain,set-url"],
        "mvcs clone ": ["dir,"],
        "mvcs commit ": ["file,"],
        "mvcs show 'ste": ["part,step:"],
    }
    found = {line: ask(line) for line in expected}
    found["mvcs log -- "] = [word for word in files if word in found["mvcs log -- "]]
    assert found == expected


def test_words_carry_what_they_are_where_a_shell_shows_it(ask):
    assert ask("mvcs show step:3", "fish") == ["plain,step:300\tstate 300"]
    assert ask("mvcs show step:3", "zsh") == ["plain", "step:300", "state 300"]
    assert "plain,low-lr\tbranch" in ask("mvcs show ", "fish")


def test_many_tensors_are_offered_part_by_part(ask, run):
    save_file(
        {f"layers.{i}.{j}": np.zeros(1, np.float32) for i in range(9) for j in range(9)},
        run.folder / "a.safetensors",
    )
    run("commit", "a.safetensors", "-m", "many")
    assert ask("mvcs checkout HEAD -o x --tensor layers") == ["part,layers."]
    assert len(ask("mvcs checkout HEAD -o x --tensor layers.3.")) == 9


def test_paths_are_those_of_the_folder_at_hand(ask, run):
    assert ask("mvcs restore ", where=run.folder / "parts") == ["plain,head.safetensors"]
    assert ask(f"mvcs -C {run.folder} switch l", where=run.folder.parent) == ["plain,low-lr"]


def test_where_a_branch_was_is_offered_by_number(ask, run):
    run("switch", "low-lr")
    run("switch", "main")
    found = [f"main@{{{number}}}" for number in range(4)]
    assert ask("mvcs show main@{", "fish")[0].startswith("plain,main@{0}\tcommit: more")
    assert [line.partition("\t")[0] for line in ask("mvcs show main@{", "fish")] == [
        f"plain,{name}" for name in found
    ]
    assert ask("mvcs rev-parse main@{3", "zsh") == ["plain", "main@{3}", "commit: state 100"]
    assert len(ask("mvcs show HEAD@{")) > 1
    assert ask("mvcs show @{2") == ["plain,@\\{2\\}"]
    assert ask("mvcs show nobody@{") == []


def test_the_beginning_of_an_id_becomes_the_id(ask, run):
    run("switch", "-c", "side")
    run.model(shift=9.0)
    beside = run.json("commit", "-m", "beside")["id"]
    run("switch", "main")
    whole = [commit["id"] for commit in run.json("log")]
    for commit in (beside, *whole):
        assert ask(f"mvcs show {commit[:5]}") == [f"plain,{commit[:12]}"]
        assert ask(f"mvcs show {commit[:20]}") == [f"plain,{commit}"]
    assert ask(f"mvcs show {beside[:4]}", "fish") == [f"plain,{beside[:12]}\tbeside"]


def test_bash_gets_only_what_stands_behind_its_last_break(ask, monkeypatch):
    monkeypatch.setenv("COMP_WORDBREAKS", BREAKS)
    assert ask("mvcs show step:1") == ["plain,120", "plain,100"]
    assert ask("mvcs commit --moments=r") == ["plain,resume"]
    assert ask("mvcs show 'step:1") == ["part,step:120", "part,step:100"]


@pytest.mark.parametrize(
    "line", ["mvcs show ", "mvcs switch ", "mvcs push ", "mvcs checkout x -o y --tensor "]
)
def test_where_there_is_no_repository_nothing_is_said(ask, tmp_path, line):
    assert ask(line, where=tmp_path) == []


def test_no_typing_makes_it_fail(ask):
    for line in (
        "",
        "mvcs",
        "mvcs nonsense x",
        "mvcs show 'a\"",
        "mvcs show no:such:",
        "mvcs -C /no/such show ",
        "mvcs show \\",
    ):
        ask(line)
    assert "plain,switch" in ask("mvcs ")


def test_a_damaged_repository_completes_what_is_left(ask, run):
    (run.folder / ".mvcs" / "HEAD").write_bytes(b"\xff\xfe")
    assert "plain,low-lr" in ask("mvcs show ")
    assert ask("mvcs show step:") == []
    for record in (run.folder / ".mvcs" / "refs" / "heads" / "low-lr").iterdir():
        record.write_bytes(b"x")
    assert ask("mvcs switch ") == ["plain,main"]
    (run.folder / ".mvcs" / "config.toml").write_bytes(b"[[[")
    assert ask("mvcs switch ") == []


def test_names_with_control_characters_stay_away_from_the_terminal(ask, run):
    save_file(
        {"a\x1b[2Jb": np.zeros(2, np.float32), "ab": np.zeros(2, np.float32)}, run.folder / "b.safetensors"
    )
    run("commit", "b.safetensors", "-m", "line\n\x1b]0;title", "--step", 7)
    assert ask("mvcs checkout HEAD -o x --tensor a") == ["plain,ab"]
    assert ask("mvcs show step:7", "fish") == ["plain,step:7\tline ]0;title"]


def test_a_store_elsewhere_is_not_asked(ask, run):
    run("branch")  # which remembers what it saw
    config = run.folder / ".mvcs" / "config.toml"
    config.write_text(config.read_text() + '\n[store]\nurl = "s3://nowhere/at/all"\n')
    assert ask("mvcs switch ") == ["plain,low-lr", "plain,main"]
    assert ask("mvcs push l") == ["plain,lab"]
    assert ask("mvcs show step:") == []


def test_completion_prints_the_script_of_a_shell(console, monkeypatch):
    for shell in completion.SHELLS:
        assert console("completion", shell).out.rstrip("\n") == completion.script(shell).rstrip("\n")
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert console.json("completion")["shell"] == "fish"
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert "name a shell: bash, zsh, fish" in console("completion", code=2).err


def environment(folder):
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder.parent),
        "TERM": "dumb",
        "PS1": "> ",
        "LC_ALL": "C.UTF-8",
    }


# What is run when a line is entered shows its words; only what completes them is mvcs.
SHOWN = 'mvcs() { if [ -n "$_MVCS_COMPLETE" ]; then command mvcs; else printf "<%s>" "$@"; fi; }'


class Typist:
    """Types into a real shell on a terminal, and reads what it shows."""

    def __init__(self, shell, folder):
        self._process, self._terminal = self._start(shell, folder)
        self.types(f'eval "$(mvcs completion {shell})"; {SHOWN}; echo re""ady\n', "ready")

    @staticmethod
    def _start(shell, folder):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            SHELLS[shell],
            cwd=folder,
            env=environment(folder),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        return process, ours

    def types(self, keys, until):
        """Type, and wait until something is shown."""
        os.write(self._terminal, keys.encode())
        shown = ""
        while until not in shown:
            assert select.select([self._terminal], [], [], 60)[0], shown
            shown += os.read(self._terminal, 4096).decode(errors="replace")

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)


@pytest.mark.parametrize("shell", list(SHELLS))
def test_a_line_that_a_shell_completes_is_the_one_that_was_meant(run, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    typist = Typist(shell, run.folder)
    try:
        typist.types("mvcs rev-parse step:3\t\n", "<rev-parse><step:300>")
        typist.types("mvcs ls-files two\t --json\n", f"<ls-files><{STRANGE}><--json>")
        if shell == "bash":  # zsh takes the brace for one of its own
            typist.types("mvcs rev-parse main@{2\t\n", "<rev-parse><main@{2}>")
        first = run("rev-parse", "main@{3}").out.strip()
        typist.types(f"mvcs show --json {first[:6]}\t\n", f"<show><--json><{first[:12]}>")
        typist.types("mvcs sho\trelea\t --no-such\n", "<show><release><--no-such>")
        typist.types("mvcs commit mod\t --no-such\n", "<commit><model.safetensors><--no-such>")
        assert not (run.folder / "sprung").exists()
    finally:
        typist.close()


def test_fish_completes(run):
    if shutil.which("fish") is None:
        pytest.skip("there is no fish")
    lines = "'mvcs swi' 'mvcs show step:1' 'mvcs ls-files two'"
    program = f"mvcs completion fish | source; for line in {lines}; complete -C $line; end"
    done = subprocess.run(
        ["fish", "--no-config", "-c", program],
        cwd=run.folder,
        env=environment(run.folder),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "switch\tcontinue another branch",
        "step:120\tstate 120",
        "step:100\tstate 100",
        STRANGE,
    ]
