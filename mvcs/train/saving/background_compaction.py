"""A compaction beside a run, in a process of its own: begun after its first commit, ended with it."""

import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

import mvcs
from mvcs.errors import MvcsError
from mvcs.local import BackgroundCompaction as LocalCompaction
from mvcs.processes import Process
from mvcs.repository import Repository

_logger = logging.getLogger("mvcs.train")
SETTING = "compaction.background"
_END_SECONDS = 5.0
_MOST_SAID, _LINES = 1 << 16, 2
_CONFLICT = 4  # another compaction is at work on this clone
# What the folder of the run holds is imported by nobody; mvcs itself may lie where only this process looks.
_COMMAND = "import sys; sys.path.append(sys.argv.pop(1)); from mvcs.cli import main; sys.exit(main())"
_ROOT = str(Path(mvcs.__file__).parent.parent)


class BackgroundCompaction:
    """Compacts the history of a run within a share of one processor, where the settings give one.

    Whatever becomes of it, the run goes on.
    """

    def __init__(self, repo: Repository) -> None:
        """Begin nothing yet."""
        self._repo = repo
        self._begun = False
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None

    def committed(self) -> None:
        """Begin after the first commit of the run; later on see once whether it failed."""
        if not self._begun:
            self._begun = True
            try:
                self._begin()
            except (MvcsError, OSError, subprocess.SubprocessError) as error:
                _logger.warning("no compaction runs in the background: %s", error)
        elif self._process is not None and self._process.poll() is not None:
            self._ended(self._process)

    def _begin(self) -> None:
        share, top = self._repo.config_get(SETTING), self._repo.top
        if not share or top is None:
            return
        words = ["--share", str(share), "--beside", str(os.getpid())]
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - the other process writes to it
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with words of our own
            [sys.executable, "-P", "-c", _COMMAND, _ROOT, "-C", str(top), "compact", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            start_new_session=True,  # Ctrl-C is for the run, which ends it
        )

    def _ended(self, process: subprocess.Popen[bytes]) -> None:
        """Say why it failed, once, and put it on record for `status`."""
        self._process = None
        lines = self._lines()
        if process.returncode in (0, _CONFLICT):
            return
        why = (
            "; ".join(line.removeprefix("mvcs: error: ") for line in lines[-_LINES:])
            or f"it ended with {process.returncode}"
        )
        _logger.warning("the compaction in the background failed, and the run continues: %s", why)
        LocalCompaction(Process.current(), failure=why).keep(self._repo.local_records)

    def _lines(self) -> list[str]:
        """Return what it said on stderr at last."""
        said, self._said = self._said, None
        if said is None:
            return []
        with said:
            said.seek(max(0, said.seek(0, os.SEEK_END) - _MOST_SAID))
            return said.read().decode("utf-8", "replace").strip().splitlines()

    def close(self) -> None:
        """End it; the compaction of the next run goes on behind what was verified."""
        process, self._process = self._process, None
        if process is not None and process.poll() is not None:
            self._ended(process)
        elif process is not None:
            _end(process)
        self._lines()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
