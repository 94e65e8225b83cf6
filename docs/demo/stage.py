"""The stage of the demo: headings, commands shown before they run, and processes that are always ended."""

import os
import shlex
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = Path(sys.executable).parent
BEGAN = time.perf_counter()


class DemoError(Exception):
    """What the demo promises does not hold."""


def elapsed() -> float:
    """Return the seconds since the demo began."""
    return time.perf_counter() - BEGAN


def heading(text: str) -> None:
    """Announce what comes next."""
    print(f"\n== {text}  [{elapsed():.0f} s]", flush=True)


def say(text: str) -> None:
    """Print one indented line."""
    print(f"  {text}", flush=True)


def explain(text: str) -> None:
    """Print a paragraph before or after what it is about, as wide as a terminal."""
    print(
        "\n" + textwrap.fill(" ".join(text.split()), 96, initial_indent="  ", subsequent_indent="  "),
        flush=True,
    )


def check(condition: bool, promise: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Say that a promise holds, or end the demo.

    Raises:
        DemoError: it does not.
    """
    if not condition:
        raise DemoError(promise)
    say(f"[ok] {promise}")


def command(name: str, *arguments: str) -> list[str]:
    """Return the command line of a program that was installed beside Python."""
    program = SCRIPTS / name
    return [str(program) if program.exists() else name, *arguments]


def mvcs(*arguments: str, cwd: Path, show: bool = True, limit: int = 100) -> str:
    """Run the mvcs command as a user would, show it with the first lines it prints, and return all of them.

    Raises:
        DemoError: it failed.
    """
    if show:
        print(f"\n$ {shlex.join(['mvcs', *arguments])}", flush=True)
    done = subprocess.run(command("mvcs", *arguments), cwd=cwd, capture_output=True, text=True, check=False)
    printed = done.stdout.splitlines(keepends=True) if show else []
    sys.stdout.writelines(printed[:limit])
    if len(printed) > limit:
        say(f"... and {len(printed) - limit} more lines")
    if show or done.returncode:
        sys.stdout.write(done.stderr)
    if done.returncode:
        raise DemoError(f"'mvcs {shlex.join(arguments)}' ended with {done.returncode}")
    return done.stdout


def python(script: str, *arguments: str, cwd: Path, show: bool = True) -> subprocess.Popen[str]:
    """Start a script of the demo, its output in a pipe."""
    if show:
        print(f"\n$ {shlex.join(['python', f'docs/demo/{script}', *arguments])}", flush=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, str(HERE / script), *arguments],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def lines(process: subprocess.Popen[str]) -> Iterator[str]:
    """Give the lines a process prints, as they come."""
    if process.stdout is not None:
        yield from (line.rstrip("\n") for line in process.stdout)


def follow(process: subprocess.Popen[str], name: str) -> list[str]:
    """Show what a process prints until it ends, and return it.

    Raises:
        DemoError: it failed.
    """
    printed = []
    with ended(process):
        for line in lines(process):
            print(line, flush=True)
            printed.append(line)
    if process.returncode:
        raise DemoError(f"{name} ended with {process.returncode}")
    return printed


@contextmanager
def ended(process: subprocess.Popen[str], patience: float = 20) -> Iterator[subprocess.Popen[str]]:
    """Wait for a process at the end of the block; end it first when the block failed."""
    try:
        yield process
    except BaseException:
        process.terminate()
        raise
    finally:
        try:
            process.wait(None if sys.exc_info()[0] is None else patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
