"""What repositories of many small things cost each command: `python -m tests.bench.hostile_stores [NAME …]`.

Prints a row for each: its bytes, seconds of the processor for each command, and the largest peak of memory
above that of an idle command.
"""

import contextlib
import io
import json
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

# A process that forks has one thread.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

from mvcs.cli import main as command
from mvcs.objects.trees.tree import Tree
from tests.cli.many import EMPTY, MAKERS, Forger

COMMANDS: dict[str, tuple[str, ...]] = {
    "log": ("log",),
    "show": ("show",),
    "show --all": ("show", "--all"),
    "status": ("status",),
    "diff": ("diff", "main~1", "main"),
    "checkout": ("checkout", "main"),
    "checkout -o": ("checkout", "main", "-o", "{out}"),
    "fsck": ("fsck",),
    "clone": ("clone", "{there}", "{new}"),
    "fetch": ("fetch",),
}
MOST_SECONDS = 60


def main(names: Sequence[str]) -> None:
    """Measure every command on every repository, or on those that are named."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        top = Path(folder)
        idle = warmed(top)
        print(f"idle: {idle >> 10} MB")
        print(f"| repository | things | MB | {' | '.join(COMMANDS)} | most MB |")
        print("|---" * (len(COMMANDS) + 4) + "|")
        for name in names or MAKERS:
            print(row(top, name, idle), flush=True)


def warmed(top: Path) -> int:
    """Make a small repository and a clone of it, load what commands load, and return the memory of one."""
    Forger(top / "small").commit(Tree((EMPTY,), root=[9, 0, 0]))
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        command(["clone", str(top / "small"), str(top / "clone")])
        with contextlib.chdir(top / "small"):
            for words in (
                ["log"],
                ["show"],
                ["status"],
                ["checkout", "main", "-o", str(top / "x.npz")],
                ["fsck"],
            ):
                command(words)
    return max(measured(top, top / "small", words)[1] for words in (("show",), ("fsck",)))


def row(top: Path, name: str, idle: int) -> str:
    """Return the row of one repository."""
    make, count = MAKERS[name]
    there, clone = top / "there", top / "victim"
    for old, new in ((top / "small", there), (top / "clone", clone)):
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(old, new)
    config = clone / ".mvcs" / "config.toml"
    config.write_text(config.read_text().replace(str(top / "small"), str(there)))
    apart(lambda: make(there, count))
    size = sum(path.stat().st_size for path in there.rglob("*") if path.is_file())
    costs = [cost(top, there, clone, words) for words in COMMANDS.values()]
    seconds = " | ".join(said for said, _ in costs)
    most = max(memory for _, memory in costs) - idle
    return f"| {name} | {count:,} | {size / 1e6:.2f} | {seconds} | {most >> 10} |"


def cost(top: Path, there: Path, clone: Path, words: Sequence[str]) -> tuple[str, int]:
    """Return what a command took, as it is printed, and its peak of memory in kB."""
    out, new = top / "out.npz", top / "new"
    for old in (out, new):
        shutil.rmtree(old, ignore_errors=True)
        out.unlink(missing_ok=True)
    given = {"out": out, "there": there, "new": new}
    where = {"clone": top, "fetch": clone}.get(words[0], there)
    seconds, memory, code = measured(top, where, [word.format(**given) for word in words])
    return (f"{seconds:.2f}" if code == 0 else f"{seconds:.2f} ({code})"), memory


def measured(top: Path, folder: Path, words: Sequence[str]) -> tuple[float, int, int]:
    """Run a command in a process of its own; return seconds of the processor, peak in kB, and its code."""
    said = top / "said"

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
        for number in (1, 2):
            os.dup2(os.open(top / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.chdir(folder)
        code = command(list(words))
        used = resource.getrusage(resource.RUSAGE_SELF)
        said.write_text(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss, code]))

    if not apart(work):
        return float(MOST_SECONDS), 0, -1
    seconds, memory, code = json.loads(said.read_text())
    return seconds, memory, code


def apart(work: Callable[[], None]) -> bool:
    """Work in a process of its own, whose memory is no one else's; tell whether it came to its end."""
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    main(sys.argv[1:])
