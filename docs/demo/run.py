"""The demo: train, crash, resume bit for bit, look back, branch, push to S3, clone, count bytes.

Works in `demo-run/` below the current folder, which is removed first. DEMO_STEPS makes the training longer.
"""

import difflib
import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

from corpus import write_corpus
from server import BUCKET, s3_server
from stage import HERE, DemoError, check, ended, follow, heading, lines, mvcs, python, say
from table import byte_table, folder_bytes, size

STEPS = int(os.environ.get("DEMO_STEPS", "300"))
EVERY = max(1, STEPS // 15)
TOP = Path("demo-run").absolute()
RUN, CLONE = TOP / "run", TOP / "clone"
COMMON = ("--data", "../corpus", "--every", str(EVERY))


def main() -> None:
    """Run every step, one after the other."""
    if STEPS < 15:
        raise DemoError("DEMO_STEPS must be 15 or more")
    shutil.rmtree(TOP, ignore_errors=True)
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
    say(f"valid: {corpus.valid_files} files, {size(corpus.valid_bytes)}")
    heading("A repository, and the hook: what differs between a plain training script and ours")
    RUN.mkdir()
    mvcs("init", cwd=RUN)
    plain, ours = ((HERE / name).read_text().splitlines() for name in ("train_plain.py", "train.py"))
    changed = list(difflib.ndiff([line.strip() for line in plain], [line.strip() for line in ours]))
    for line in changed:
        if line.startswith(("+ ", "- ")) and line[2:]:
            say(line)
    added = sum(line.startswith("+ ") and line != "+ " for line in changed)
    check(added < 10, f"the hook is under ten lines: {added}")


def train_and_crash() -> str:
    """Train under version control, kill it, resume, and compare with a run that nobody disturbed."""
    arguments = (*COMMON, "--steps", str(STEPS), "--out", "../weights.safetensors")
    reference = python("train_plain.py", *arguments[:-1], "../reference.safetensors", cwd=RUN, show=False)
    two_cores = len(os.sched_getaffinity(0)) > 1
    with ended(reference) if two_cores else nullcontext():
        heading(f"Training for {STEPS} steps, a commit every {EVERY}, an undisturbed reference run beside it")
        if not two_cores:
            follow(reference, "the reference run")
        crash(arguments)
        heading("Resume from the last commit's exact layer: the same command again")
        printed = follow(python("train.py", *arguments, cwd=RUN), "the resumed run")
        heading("Is it the same run? The weights against those of the undisturbed one")
        if two_cores:
            say("waiting for the reference run")
            reference.communicate()
    if reference.returncode:
        raise DemoError(f"the reference run ended with {reference.returncode}")
    compare()
    return next((line for line in reversed(printed) if "committed" in line), "")


def crash(arguments: tuple[str, ...]) -> None:
    """Start the training and kill it somewhere in the middle, wherever it is."""
    chosen = secrets.randbelow(max(1, int(0.35 * STEPS))) + int(0.35 * STEPS)
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
        delay = secrets.randbelow(1000) / 1000 * float(found[2]) * EVERY / int(found[1])
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.kill()
    say(f"SIGKILL {delay:.3f} s after step {found[1]} (exit status {process.returncode})")
    check(process.returncode == -9, "the run was killed in the middle")
    mvcs("log", "--oneline", "-n", "3", cwd=RUN)


def compare() -> None:
    """Compare the final weights, byte for byte."""
    digests = {}
    for name in ("reference", "weights"):
        digests[name] = hashlib.sha256((TOP / f"{name}.safetensors").read_bytes()).hexdigest()
        say(f"{digests[name]}  {name}.safetensors")
    check(
        digests["reference"] == digests["weights"],
        "killed and resumed, it ends with the same weights, bit for bit",
    )


def look_back() -> None:
    """Show the history, and take an earlier commit out of it."""
    heading("Look back")
    mvcs("log", "--graph", "-n", "8", cwd=RUN)
    early = f"step:{middle()}"
    mvcs("checkout", early, "-o", "early.safetensors", "--tensor", "model.*", cwd=RUN)
    look = python("look.py", "early.safetensors", "--data", "../corpus", "--prefix", "model.", cwd=RUN)
    follow(look, "loading the weights")
    mvcs("show", early, cwd=RUN, limit=24)


def middle() -> int:
    """Return the step of a commit in the middle of the run."""
    return max(1, STEPS // EVERY // 2) * EVERY - 1


def branch() -> None:
    """Branch from the middle with a lower learning rate, tag, and compare."""
    heading("Branch from an earlier commit, with another learning rate")
    mvcs("branch", "low-lr", f"step:{middle()}", cwd=RUN)
    mvcs("switch", "low-lr", cwd=RUN)
    until = str(middle() + 1 + 3 * EVERY)
    arguments = (*COMMON, "--steps", until, "--lr-scale", "0.2", "--out", "../low-lr.safetensors")
    follow(python("train.py", *arguments, cwd=RUN), "the branch's run")
    mvcs("switch", "main", cwd=RUN)
    mvcs("tag", "trained", "main", "-m", f"{STEPS} steps", cwd=RUN)
    mvcs("log", "--graph", "--oneline", "--all", cwd=RUN)
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
    """Print what it all cost, and where everything lies."""
    heading("What it cost")
    byte_table(RUN)
    copy = python("copytime.py", cwd=RUN, show=False)
    state_bytes, copy_ms = copy.communicate()[0].split()
    say(f"milliseconds a commit, median, in the resumed run: {summary.partition('median ms: ')[2]}")
    say(f"one copy of the {size(int(state_bytes))} of tensors, with nothing else to do: {copy_ms}")
    heading("Where everything lies")
    places = {
        RUN / ".mvcs": "the repository",
        TOP / "s3": "the S3 server's data",
        CLONE / ".mvcs": "the clone",
    }
    for place, what in places.items():
        say(f"{place.relative_to(TOP.parent)!s:20} {size(folder_bytes(place)):>10}  {what}")
    say("Go on from here: cd demo-run/run, then mvcs log, mvcs show HEAD, mvcs --help")


if __name__ == "__main__":
    try:
        main()
    except DemoError as error:
        sys.exit(f"\nthe demo failed: {error}")
