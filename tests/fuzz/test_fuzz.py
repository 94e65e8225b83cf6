"""The fuzz targets under sanitizers: damaged payloads, then the corpus that libFuzzer found."""

import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
KERNELS = HERE.parent.parent / "mvcs_native" / "src"
SANITIZED = ["-std=c++20", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g"]
PAYLOADS = 30_000
TARGETS = sorted(path.stem for path in HERE.glob("fuzz_*.cpp"))


def build(folder: pathlib.Path, target: str) -> pathlib.Path:
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    program = folder / target
    source = str(HERE / f"{target}.cpp")
    command = [compiler, *SANITIZED, "-DSTANDALONE", "-I", str(KERNELS), source, "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return program


def run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow  # compilers take half a minute
@pytest.mark.parametrize("target", TARGETS)
def test_hostile_payloads_under_sanitizers(tmp_path: pathlib.Path, target: str) -> None:
    program = str(build(tmp_path, target))
    corpus = sorted(map(str, (HERE / "corpus" / target.removeprefix("fuzz_")).iterdir()))
    assert corpus
    assert run(program, str(PAYLOADS)) == f"{PAYLOADS} payloads\n"
    assert run(program, *corpus) == f"{len(corpus)} inputs\n"
