"""How much memory and how many processors a process may use: limits count, whoever sets them."""

import os
import resource
import subprocess
import sys

import pytest

from mvcs.machine import group_limits, machine_memory, processors

GIB = 1 << 30


def told(program, before):
    code = f"from mvcs.machine import machine_memory, processors; print({program})"
    result = subprocess.run(
        [sys.executable, "-c", code], preexec_fn=before, capture_output=True, text=True, check=True
    )
    return int(result.stdout)


def test_a_limit_of_the_shell_counts():
    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (3 * GIB, 3 * GIB))

    assert told("machine_memory()", limited) == min(3 * GIB, machine_memory())


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux pins processes")
def test_processors_are_those_that_a_process_may_run_on():
    allowed = os.sched_getaffinity(0)
    assert processors() == len(allowed)
    assert told("processors()", lambda: os.sched_setaffinity(0, {min(allowed)})) == 1


@pytest.mark.parametrize(
    ("told", "files", "limits"),
    [
        ("0::/", {"memory.max": "1000\n"}, {1000}),
        ("0::/", {"memory.max": "max\n"}, set()),
        ("0::/a/b", {"a/memory.max": "500", "a/b/memory.max": "800", "memory.max": "max"}, {500, 800}),
        ("0::/of/the/host", {"memory.max": "700"}, {700}),
        ("4:memory:/a", {"memory/a/memory.limit_in_bytes": "600", "memory.max": "1"}, {600}),
        ("5:cpu,memory:/", {"memory/memory.limit_in_bytes": "9223372036854771712"}, {9223372036854771712}),
        ("5:cpu:/\n0::/x", {"cpu/memory.limit_in_bytes": "1", "x/memory.max": "2"}, {2}),
        ("0::/../../out", {"memory.max": "10"}, {10}),
        ("nonsense\n\n0:", {"memory.max": "-"}, set()),
        ("", {}, set()),
    ],
)
def test_limits_of_control_groups_are_those_of_the_process_and_of_all_around_it(
    tmp_path, told, files, limits
):
    process, groups = tmp_path / "cgroup", tmp_path / "groups"
    process.write_text(told)
    for name, text in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(text)
    assert set(group_limits(process, groups)) == limits


def test_without_control_groups_the_machine_counts(tmp_path):
    assert list(group_limits(tmp_path / "none", tmp_path)) == []
    assert 0 < machine_memory() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
