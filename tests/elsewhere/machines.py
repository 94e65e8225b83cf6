"""Other machines: programs built for them, and interpreters of theirs, run by qemu."""

import os
import pathlib
import re
import shutil
import subprocess
from dataclasses import dataclass

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
KERNELS = ROOT / "mvcs_native"


def kernel_flags() -> list[str]:
    """Return what kernels are compiled with, as CMake has it, but for warnings."""
    options = re.search(
        r"target_compile_options\(_core PRIVATE ([^)]*)\)", (KERNELS / "CMakeLists.txt").read_text()
    )
    assert options
    return [option for option in options[1].split() if not option.startswith("-W")]


def build(compiler: str, source: pathlib.Path, program: pathlib.Path, *flags: str) -> str:
    """Build a program; return what the compiler says where it refuses, else nothing."""
    command = [compiler, "-std=c++20", "-I", str(KERNELS / "src"), *flags, str(source), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


@dataclass(frozen=True)
class Machine:
    """A machine by its name in qemu and in Debian's packages."""

    name: str
    debian: str

    @property
    def compiler(self) -> str:
        """Its compiler, which runs here."""
        return f"{self.name}-linux-gnu-g++"

    @property
    def tree(self) -> pathlib.Path:
        """The folder with its interpreter, as `.ci/elsewhere` unpacks it."""
        return pathlib.Path(os.environ["ELSEWHERE"]) / self.debian

    def run(self, *words: str | pathlib.Path, **environment: str) -> str:
        """Run a program of the machine; return what it prints."""
        settings = [word for name, value in environment.items() for word in ("-E", f"{name}={value}")]
        command = [f"qemu-{self.name}-static", "-L", str(self.tree), *settings, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def python(self, library: pathlib.Path, *words: str | pathlib.Path) -> str:
        """Run a Python file under the machine's own interpreter; the library is what `blake3.cpp` became."""
        folders = [f"/usr/lib/{self.name}-linux-gnu/{name}" for name in ("blas", "lapack")]
        return self.run(
            self.tree / "usr/bin/python3",
            *words,
            LD_LIBRARY_PATH=":".join(folders),
            PYTHONPATH=f"{ROOT}:{HERE / 'stand_ins'}",
            PYTHONDONTWRITEBYTECODE="1",
            BLAKE3_LIBRARY=str(library),
        )


AARCH64, S390X = Machine("aarch64", "arm64"), Machine("s390x", "s390x")


def native_compiler() -> str:
    """Return the compiler of this machine."""
    return os.environ.get("CXX") or shutil.which("c++") or "g++"
