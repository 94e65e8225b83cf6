"""The fuzz targets under sanitizers: damaged payloads, then the corpus that libFuzzer found."""

import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
KERNELS = HERE.parent.parent / "mvcs_native" / "src"
SANITIZED = ["-std=c++20", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# Unoptimized code is built in a third of the time, and few payloads run in no time at all.
QUICK, FULL = (300, ["-O0"]), (30_000, ["-O1", "-g"])
TARGETS = sorted(path.stem for path in HERE.glob("fuzz_*.cpp"))


def build(folder: pathlib.Path, target: str, options: list[str]) -> pathlib.Path:
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    program = folder / target
    source = str(HERE / f"{target}.cpp")
    command = [compiler, *SANITIZED, *options, "-DSTANDALONE", "-I", str(KERNELS), source, "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return program


def run(program: pathlib.Path, *arguments: str) -> str:
    result = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize(
    ("payloads", "options"), [QUICK, pytest.param(*FULL, marks=pytest.mark.slow)], ids=["quick", "full"]
)
@pytest.mark.parametrize("target", TARGETS)
def test_hostile_payloads_under_sanitizers(
    tmp_path: pathlib.Path, target: str, payloads: int, options: list[str]
) -> None:
    program = build(tmp_path, target, options)
    corpus = sorted(map(str, (HERE / "corpus" / target.removeprefix("fuzz_")).iterdir()))

    assert corpus
    assert run(program, str(payloads)) == f"{payloads} payloads\n"
    assert run(program, *corpus) == f"{len(corpus)} inputs\n"
