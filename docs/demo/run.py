"""The demo: train, crash, resume bit for bit, look back, branch, push to S3, clone, count bytes.

Works in `demo-run/` below the current folder, or where DEMO_DIR says. DEMO_STEPS makes the training longer.
"""

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from corpus import write_corpus
from hook import show_hook
from picture import WHOLE, draw_bytes, folder_bytes, read_history, size
from place import make_room, remember
from server import BUCKET, s3_server
from stage import DemoError, check, elapsed, ended, explain, follow, heading, lines, mvcs, python, say

STEPS = int(os.environ.get("DEMO_STEPS", "160"))
EVERY = max(min(20, STEPS // 5), STEPS // 15)
TOP = Path(os.environ.get("DEMO_DIR") or "demo-run").absolute()
RUN, CLONE = TOP / "run", TOP / "clone"
BOUND = 0.01
ABOUT_FIGURES = """
    Sizes says what a commit wrote and what it was given; degradation, how much worse evaluate= finds what it
    restores (below 0 it is better). Worst is about single tensors: rounding takes one off by so much of its
    root mean square. It looks like much, but errors of many weights cancel: the search takes the coarsest
    steps that evaluate= does not mind. First moments are left out, since the optimizer refills them within a
    few steps; the exact layer of the newest commits has them.
"""
ABOUT_LOOKING = """
    Weights of that commit, and of the last one as it restores them and as they were, read without mvcs. The
    bound is kept on the valid text, which evaluate= reads; on the test text, which it does not, nearly so.
"""
ABOUT_BRANCH = """
    The exact values of that commit are gone, so this run continues from rounded ones. Its small moves must
    not be rounded away again: for a while its commits hold finer steps, and say so.
"""
COMMON = ("--data", "../corpus", "--every", str(EVERY))


def main() -> None:
    """Run every step, one after the other."""
    if STEPS < 15:
        raise DemoError("DEMO_STEPS must be 15 or more")
    make_room(TOP)
    try:
        perform()
    finally:
        remember(TOP)
    say(f"Go on from here: cd {os.path.relpath(RUN)}, then mvcs log, mvcs show HEAD, mvcs --help")


def perform() -> None:
    """Run every step in the folder that was made for it."""
    prepare()
    summary = train_and_crash()
    look_back()
    branch()
    with s3_server(TOP / "s3"):
        share()
    count(summary)


def prepare() -> None:
    """Write the corpus, make the repository, show the hook."""
    heading("The data: source files of the Python standard library, split by file")
    corpus = write_corpus(TOP / "corpus")
    say(f"train: {corpus.train_files} files, {size(corpus.train_bytes)}")
    say(f"valid: {corpus.valid_files} files, {size(corpus.valid_bytes)}; evaluate= reads these")
    say(f"test:  {corpus.test_files} files, {size(corpus.test_bytes)}; no commit has seen these")
    heading("A repository, and the hook: what differs between a plain training script and ours")
    RUN.mkdir()
    mvcs("init", cwd=RUN)
    show_hook()


def train_and_crash() -> str:
    """Train under version control, kill it, resume, and compare the steps that were done twice."""
    arguments = (*COMMON, "--steps", str(STEPS), "--out", "../weights.safetensors", "--trace")
    heading(f"Training for {STEPS} steps, a commit every {EVERY}")
    crash((*arguments, "../killed.txt"))
    heading("Resume from the last commit's exact layer: the same command again")
    resumed = python("train.py", *arguments, "../resumed.txt", cwd=RUN)
    printed = follow(resumed, "the resumed run")
    heading("Is it the same run? The steps behind that commit were done twice")
    compare()
    return next((line for line in reversed(printed) if "committed" in line), "")


def crash(arguments: tuple[str, ...]) -> None:
    """Start the training and kill it somewhere in the middle, some steps behind a commit."""
    chosen = secrets.randbelow(max(1, int(0.3 * STEPS))) + int(0.45 * STEPS)
    process = python("train.py", *arguments, cwd=RUN)
    with ended(process):
        for line in lines(process):
            print(line, flush=True)
            found = re.match(r"  step (\d+)/\d+ .* at ([\d.]+) s", line)
            if found and int(found[1]) + EVERY > chosen:
                break
        else:
            raise DemoError("the training ended before it could be killed")
        # Not at a step's boundary, nor at a commit's: any time until the next line.
        delay = (0.3 + secrets.randbelow(600) / 1000) * float(found[2]) * EVERY / int(found[1])
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.kill()
    say(f"SIGKILL {delay:.3f} s after step {found[1]} (exit status {process.returncode})")
    check(process.returncode == -9, "the run was killed in the middle")
    mvcs("log", "--oneline", "-n", "3", cwd=RUN)


def compare() -> None:
    """Compare the losses of the steps that both runs did: weights, moments, data and dropout are in them."""
    killed, resumed = (dict(losses(TOP / f"{name}.txt")) for name in ("killed", "resumed"))
    twice = sorted(killed.keys() & resumed.keys())
    for step in twice[-3:]:
        say(f"step {step}: loss {killed[step]} when it was killed, {resumed[step]} resumed")
    check(
        bool(twice) and all(killed[step] == resumed[step] for step in twice),
        f"killed and resumed, the {len(twice)} steps that were done twice have the same losses, bit for bit",
    )


def losses(trace: Path) -> Iterator[tuple[int, str]]:
    """Yield each step and its loss, as the bits of a float; the last line of a killed run may be cut."""
    for line in trace.read_text().split("\n")[:-1]:
        step, loss = line.split()
        yield int(step), loss


def look_back() -> None:
    """Show the history, take weights out of it, and measure them without mvcs."""
    heading("Look back")
    explain(ABOUT_FIGURES)
    mvcs("log", "-n", "4", cwd=RUN)
    early = f"step:{middle()}"
    mvcs("show", early, cwd=RUN, limit=28)
    explain(
        "Weights of that commit, and of the last one as it restores them and as they were, read without mvcs:"
    )
    mvcs("checkout", early, "-o", "early.safetensors", "--tensor", "model.*", cwd=RUN)
    mvcs("checkout", "main", "-o", "last.safetensors", "--tensor", "model.*", cwd=RUN)
    mvcs("checkout", "main", "-o", "last-exact.safetensors", "--tensor", "model.*", "--exact", cwd=RUN)
    names = [f"{name}.safetensors" for name in ("early", "last", "last-exact")]
    look = python("look.py", *names, "--data", "../corpus", "--prefix", "model.", cwd=RUN)
    follow(look, "loading the weights")


def middle() -> int:
    """Return the step of a commit in the middle of the run."""
    return max(1, STEPS // EVERY // 2) * EVERY - 1


def branch() -> None:
    """Branch from the middle with a lower learning rate, tag, and compare."""
    heading("Branch from an earlier commit, with another learning rate")
    mvcs("branch", "low-lr", f"step:{middle()}", cwd=RUN)
    mvcs("switch", "low-lr", cwd=RUN)
    explain(ABOUT_BRANCH)
    until = str(middle() + 1 + 3 * EVERY)
    arguments = (*COMMON, "--steps", until, "--lr-scale", "0.2", "--out", "../low-lr.safetensors")
    arguments += ("--trace", "../low-lr.txt")
    follow(python("train.py", *arguments, cwd=RUN), "the branch's run")
    mvcs("switch", "main", cwd=RUN)
    mvcs("tag", "trained", "main", "-m", f"{STEPS} steps", cwd=RUN)
    mvcs("diff", "low-lr", "main", cwd=RUN, limit=15)


def share() -> None:
    """Push to the S3 server, clone from it, verify."""
    heading("Share: a real S3 server (SeaweedFS) on loopback, push, clone, verify")
    url = f"s3://{BUCKET}/gpt"
    mvcs("remote", "add", "lab", url, cwd=RUN)
    mvcs("push", "lab", "--all", "--tags", cwd=RUN)
    mvcs("clone", url, CLONE.name, cwd=TOP)
    mvcs("fsck", cwd=CLONE)
    here, there = (json.loads(mvcs("log", "--json", cwd=folder, show=False)) for folder in (RUN, CLONE))
    same = [commit["id"] for commit in here] == [commit["id"] for commit in there]
    check(same, f"the clone has the same {len(here)} commits by id")
    files = []
    for folder in (RUN, CLONE):
        mvcs("checkout", f"step:{middle()}", "-o", "restored.safetensors", cwd=folder, show=False)
        files.append((folder / "restored.safetensors").read_bytes())
    check(files[0] == files[1], f"and restores the same {size(len(files[0]))}, byte for byte")


def count(summary: str) -> None:
    """Print what it all cost, where everything lies, and the picture of it."""
    heading("What it cost")
    say(f"milliseconds a commit, median, in the resumed run: {summary.partition('median ms: ')[2]}")
    say("(training waits for blocked, queue wait and search; encode and write go on beside it)")
    heading("Where everything lies")
    places = {
        RUN / ".mvcs": "the repository",
        TOP / "s3": "the S3 server's data",
        CLONE / ".mvcs": "the clone",
    }
    for place, what in places.items():
        say(f"{os.path.relpath(place):20} {size(folder_bytes(place)):>10}  {what}")
    picture()


def picture() -> None:
    """Draw the history as a graph and its bytes as bars, and check what was promised of them."""
    heading("The history")
    mvcs("log", "--graph", "--oneline", "--all", cwd=RUN)
    heading("Bytes by class: as handed over to all commits, and as the history keeps them")
    history = read_history(RUN)
    draw_bytes(history.rows)
    kept = size(history.rows[WHOLE].exact)
    say(f"Beside it {kept}: the exact layers of each branch's newest two commits, dropped as newer ones come")
    worst = f"{history.worst:.1%} worse by evaluate= ({BOUND:.0%} accepted)"
    exact = f"{history.exact} of {len(history.commits)} commits are exact"
    check(history.worst <= BOUND, f"no commit is more than {worst}; {exact}")
    ratio = history.rows["weights"].ratio
    if STEPS >= 300:
        check(ratio > 50, f"weights take less than a fiftieth: {ratio:.1f}x")
    else:
        say(f"weights: {ratio:.1f}x; more than 50x in a run of 300 steps")
    say(f"{elapsed():.0f} s in all")


if __name__ == "__main__":
    try:
        main()
    except DemoError as error:
        sys.exit(f"\nthe demo ended early: {error}")
    except KeyboardInterrupt:
        print(f"\nthe demo was interrupted; what it made lies in {TOP}", file=sys.stderr)
        sys.exit(130)
