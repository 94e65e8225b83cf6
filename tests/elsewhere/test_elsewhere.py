"""Other processors restore the same values: aarch64, big-endian s390x, x86-64 at every instruction level."""

import importlib.util
import json
import os
import shutil
import subprocess

import blake3
import pytest

import mvcs_native
from tests.elsewhere import calls, stores
from tests.elsewhere.machines import (
    AARCH64,
    HERE,
    KERNELS,
    S390X,
    build,
    kernel_flags,
    native_compiler,
)
from tests.golden.kinds import commits

pytestmark = [
    pytest.mark.elsewhere,
    pytest.mark.skipif("ELSEWHERE" not in os.environ, reason="`make test-elsewhere` sets all of this up"),
]

ENCODINGS = {0, 1, *range(4, 12)}
FORMS = {0, 1, 2, 3, 4, 5, 7}
REFUSAL = "mvcs works on little-endian machines only"


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """Stores, what mvcs restores from them here, and the kernels that were called meanwhile."""
    recorder = calls.Recorder()
    with recorder.listening():
        places = stores.make(tmp_path_factory.mktemp("stores"))
        found = {str(place): commits(place) for place in places}
    return found, [*recorder.calls(), *calls.every_width(), *calls.groups()]


@pytest.fixture(scope="session")
def all_calls(recorded):
    asked = recorded[1]
    return [*asked, *calls.damaged(asked), *calls.special(), *calls.products()]


@pytest.fixture(params=mvcs_native.levels())
def level(request):
    before = mvcs_native.level()
    mvcs_native.use_level(request.param)
    yield
    mvcs_native.use_level(before)


def library(folder, compiler):
    place = folder / "blake3.so"
    assert not build(
        compiler, HERE / "stand_ins/blake3.cpp", place, "-O2", "-shared", "-fPIC", "-static-libstdc++"
    )
    return place


def differing(asked, folder, *flags):
    """Return the kernels that answer otherwise when they are built with these flags for aarch64."""
    program, questions, answers = folder / "driver", folder / "calls", folder / "answers"
    assert not build(AARCH64.compiler, HERE / "driver.cpp", program, "-static", *flags)
    calls.written(asked, questions)
    AARCH64.run(program, questions, answers)
    there = calls.answered(asked, answers)
    return {call.kernel for call, answer in zip(asked, there, strict=True) if call.answer() != answer}


@pytest.mark.parametrize("machine", [AARCH64, S390X], ids=["aarch64", "s390x"])
def test_the_second_reader_restores_the_same_from_every_store(machine, recorded, tmp_path):
    found = json.loads(
        machine.python(library(tmp_path, machine.compiler), HERE / "read_stores.py", *recorded[0])
    )
    assert found["byteorder"] == ("big" if machine is S390X else "little")
    assert {place: store["commits"] for place, store in found["stores"].items()} == recorded[0]
    assert {store["damaged"] for store in found["stores"].values()} == {0}
    assert {one for store in found["stores"].values() for one in store["encodings"]} == ENCODINGS
    assert {one for store in found["stores"].values() for one in store["forms"]} == FORMS


def test_what_stands_in_for_blake3_is_blake3(tmp_path, monkeypatch):
    monkeypatch.setenv("BLAKE3_LIBRARY", str(library(tmp_path, native_compiler())))
    spec = importlib.util.spec_from_file_location("stand_in", HERE / "stand_ins/blake3.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for length in (0, 1, 63, 64, 65, 1023, 1024, 1025, 2048, 2049, 3072, 3073, 8193, 100_000):
        data = bytes(number * number % 251 for number in range(length))
        for named in ({}, {"derive_key_context": "a context"}):
            assert module.blake3(data, **named).digest() == blake3.blake3(data, **named).digest()


@pytest.mark.usefixtures("level")
def test_every_level_restores_the_same_from_every_store(recorded):
    assert {place: commits(place) for place in recorded[0]} == recorded[0]


def test_every_level_answers_the_same(all_calls):
    answers = {}
    for name in mvcs_native.levels():
        mvcs_native.use_level(name)
        answers[name] = [call.answer() for call in all_calls]
    for call, *each in zip(all_calls, *answers.values(), strict=True):
        assert all(one == each[0] for one in each), call.kernel


def test_every_kernel_is_called_and_some_refuse(all_calls):
    assert {call.kernel for call in all_calls} == set(calls.KERNELS)
    assert sum(call.answer()[0] for call in all_calls) > 50


def test_kernels_of_aarch64_answer_the_same(all_calls, tmp_path):
    assert differing(all_calls, tmp_path, *kernel_flags()) == set()


def test_a_build_that_fuses_would_be_noticed(all_calls, tmp_path):
    assert "-ffp-contract=off" in kernel_flags()
    found = differing(all_calls, tmp_path, *kernel_flags(), "-ffp-contract=fast")
    assert {"less_product", "spectrum", "times_columns", "times_rows"} <= found


def test_a_big_endian_machine_is_refused_by_the_compiler(tmp_path):
    assert REFUSAL in build(S390X.compiler, HERE / "driver.cpp", tmp_path / "driver")


@pytest.mark.skipif(shutil.which("cmake") is None, reason="this machine has no cmake of its own")
def test_a_big_endian_machine_is_refused_before_anything_is_built(tmp_path):
    words = ["-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_CXX_COMPILER={S390X.compiler}", "-B", str(tmp_path)]
    done = subprocess.run(["cmake", "-S", str(KERNELS), *words], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert REFUSAL in " ".join(done.stderr.split())
