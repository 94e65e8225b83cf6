"""The fuzz targets under sanitizers: damaged payloads, then the corpus that libFuzzer found."""

import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
KERNELS = HERE.parent.parent / "mvcs_native" / "src"
SANITIZED = ["-std=c++20", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# Half of the time to build it goes into checks that find little which the address sanitizer does not.
FEWER = ["-fno-sanitize=null,vptr,object-size,alignment"]
# Unoptimized code is built in a third of the time, and few payloads run in no time at all.
QUICK, FULL = (160, ["-O0", *FEWER]), (30_000, ["-O1", "-g"])
TARGETS = sorted(path.stem for path in HERE.glob("fuzz_*.cpp"))


def build(folder: pathlib.Path, target: str, options: list[str]) -> pathlib.Path:
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    program = folder / target
    source = str(HERE / f"{target}.cpp")
    command = [compiler, *SANITIZED, *options, "-DSTANDALONE", "-I", str(KERNELS), source, "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return program


def run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def attack(command: list[str], target: str, payloads: int) -> None:
    corpus = sorted(map(str, (HERE / "corpus" / target.removeprefix("fuzz_")).iterdir()))

    assert corpus
    assert run(*command, str(payloads)) == f"{payloads} payloads\n"
    assert run(*command, *corpus) == f"{len(corpus)} inputs\n"


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_hostile_payloads_under_sanitizers(tmp_path: pathlib.Path, target: str) -> None:
    payloads, options = FULL
    attack([str(build(tmp_path, target, options))], target, payloads)


def test_some_hostile_payloads_for_targets_that_are_built_together(tmp_path: pathlib.Path) -> None:
    payloads, options = QUICK
    program = build(tmp_path, "together", options)
    for target in TARGETS:
        attack([str(program), target.removeprefix("fuzz_")], target, payloads)
