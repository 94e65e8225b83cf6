"""A process that has torch and mvcs loaded, and is `python` and `mvcs` for a shell: each a fork of it."""

import json
import multiprocessing
import re
import socket
import sys
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path

from tests.loaded import run_script

TOLD = Path(__file__).with_name("told.py")
BIN = Path(sys.executable).parent


@contextmanager
def commands(forked: ForkServerContext, folder: Path) -> Iterator[Path]:
    """Make a folder for the path of a shell, whose `python` and `mvcs` find their libraries loaded."""
    address = f"mvcs-{uuid.uuid4()}"
    folder.mkdir()
    for name in ("python", "mvcs"):
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} -IS {TOLD} {address} {name} "$@"\n')
        (folder / name).chmod(0o755)
    here, there = forked.Pipe()
    process = forked.Process(target=_serve, args=(there, address))
    process.start()
    there.close()
    here.recv()
    yield folder
    process.terminate()
    process.join()


def _serve(parent: Connection, address: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{address}")
        listener.listen()
        parent.send("listening")
        while True:
            _answer(listener.accept()[0])


def _answer(client: socket.socket) -> None:
    with client, client.makefile("rb") as told:
        length, streams, _, _ = socket.recv_fds(client, 8, 3)
        words, folder, known = json.loads(told.read(int(length)))
        ends = [Connection(stream) for stream in streams]
        program = multiprocessing.get_context("fork").Process(target=_run, args=(ends, words, folder, known))
        program.start()
        for end in ends:
            end.close()
        program.join()
        client.sendall(str(program.exitcode).encode())


def _run(ends: list[Connection], words: list[str], folder: str, known: dict[str, str]) -> None:
    """Be `python SCRIPT ...` or `mvcs ...`."""
    action, _, _, module = known["PYTHONWARNINGS"].split(":")
    warnings.filterwarnings(action, category=UserWarning, module=re.escape(module))
    script = words[1:] if words[0] == "python" else [str(BIN / words[0]), *words[1:]]
    run_script(ends, script, Path(folder), known)
