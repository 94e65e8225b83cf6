"""The fuzz target of the exact coders under sanitizers: the saved corpus, then damaged payloads."""

import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
KERNELS = HERE.parent.parent / "mvcs_native" / "src"
SANITIZED = ["-std=c++20", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
CORPUS = sorted(map(str, (HERE / "corpus/exact").iterdir()))


def build(folder: pathlib.Path) -> pathlib.Path:
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    program = folder / "fuzz_exact"
    source = str(HERE / "fuzz_exact.cpp")
    command = [compiler, *SANITIZED, "-DSTANDALONE", "-I", str(KERNELS), source, "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return program


@pytest.mark.parametrize("payloads", [300, pytest.param(30_000, marks=pytest.mark.slow)])
def test_damaged_payloads_under_sanitizers(tmp_path: pathlib.Path, payloads: int) -> None:
    result = subprocess.run(
        [str(build(tmp_path)), str(payloads), *CORPUS], capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stderr
    assert f"{payloads} payloads" in result.stdout + result.stderr
