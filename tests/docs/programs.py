"""The two programs that a reader types into: bash and Python, each one process for a whole page."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_MARK = "-- status"
_KILLED = re.compile(r"bash: line \d+: +\d+ Killed .*")  # what a person's own shell says shorter
_PYTHON = f"""
import sys, traceback
sys.path.insert(0, "")
for line in sys.stdin:
    status = 0
    try:
        exec(compile(eval(line), "page", "exec"), globals())
    except BaseException:
        status = traceback.print_exc() or 1
    print(f"\\n{_MARK} {{status}}", flush=True)
"""


class _Program:
    """A process that is told something, answers, and prints a status behind every answer."""

    def __init__(self, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            umask=0o022,  # what a page says of who may write holds for folders of one person
        )

    def tell(self, text: str) -> tuple[int, str]:
        """The status of what was told and what it printed, errors included."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line.startswith(_MARK):
                return int(line.split()[-1]), _KILLED.sub("Killed", "".join(lines)[:-1])
            lines.append(line)
        raise AssertionError(f"the program ended: {''.join(lines)}")

    def close(self) -> None:
        """End the program."""
        with self._process:
            self._process.communicate()


class Shell(_Program):
    """One bash, so that `cd` and `export` hold from block to block."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__(["bash", "--norc"], folder, environment)

    def run(self, command: str) -> tuple[int, str]:
        """The exit status of a command and what it printed."""
        return self.tell(f"{{ {command}\n}} </dev/null\nprintf '\\n{_MARK} %d\\n' $?\n")


class Interpreter(_Program):
    """One Python, so that names hold from block to block."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__([sys.executable, "-c", _PYTHON], folder, environment)

    def run(self, code: str) -> tuple[int, str]:
        """1 where the code raised, else 0, and what it printed."""
        return self.tell(f"{code!r}\n")


def environment(home: Path, first: Path | None = None, **more: str) -> dict[str, str]:
    """What a reader's programs know: a path, a home, and nothing of other libraries' warnings."""
    kept = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    folders = [first, Path(sys.executable).parent, os.environ["PATH"]]
    path = os.pathsep.join(str(folder) for folder in folders if folder)
    quiet = "ignore::UserWarning:torchdata.stateful_dataloader.stateful_dataloader"
    own = {
        "PATH": path,
        "HOME": str(home),
        "LOGNAME": "ada",
        "COLUMNS": "100",
        "LC_ALL": "C.UTF-8",
        "PYTHONWARNINGS": quiet,
    }
    return kept | own | more
