"""Temporary files: their names say who made them, and only those of processes that are gone are removed."""

import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mvcs.local_files import GRACE_SECONDS, is_ours_alone, maker_of, sweep, temporary_name
from mvcs.processes import Process

FOREIGN_MACHINE = "ab" * 8


def _make(folder, pipe):
    name = temporary_name()
    (folder / name).write_bytes(b"half a file")
    pipe.send(name)
    pipe.recv()


def child(folder):
    """Start a process that made a file in `folder`, and return it with the file's name and its own pipe."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_make, args=(folder, theirs))
    process.start()
    return process, ours.recv(), ours


def killed(folder):
    process, name, _ = child(folder)
    process.kill()
    process.join()
    return name


def aged(path):
    old = time.time() - GRACE_SECONDS - 60
    os.utime(path, (old, old), follow_symlinks=False)
    return path


def test_files_of_a_killed_process_go_at_once(tmp_path):
    names = [killed(tmp_path), killed(tmp_path)]
    assert sorted(sweep(tmp_path)) == sorted(names)
    assert list(tmp_path.iterdir()) == []


def test_files_of_a_running_process_stay_at_any_age(tmp_path):
    process, name, pipe = child(tmp_path)
    mine = tmp_path / temporary_name()
    mine.write_bytes(b"")
    aged(tmp_path / name), aged(mine)
    assert sweep(tmp_path) == []
    pipe.send("end")
    process.join()
    assert sweep(tmp_path) == [name]
    assert mine.exists()


def test_a_forked_process_is_another_than_the_one_it_was_forked_from(tmp_path):
    here = Process.current()
    process, name, pipe = child(tmp_path)
    assert maker_of(name).number == process.pid
    assert maker_of(name).machine == here.machine
    assert maker_of(name).is_gone() is False
    pipe.send("end")
    process.join()


WITHOUT_DESCRIPTORS = """
import os, resource
from mvcs.processes import Process
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, 64))
before = Process.current()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
print(before.machine, Process.current().is_gone())
"""


def test_a_process_that_cannot_look_itself_up_is_of_no_known_machine_until_it_can():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DESCRIPTORS], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["0" * 16, "False"]


def test_a_process_whose_number_is_used_again_is_gone():
    here = Process.current()
    earlier = Process(here.machine, here.number, here.started - 1)
    assert earlier.is_gone()
    assert here.is_gone() is False


def test_a_process_that_nobody_waited_for_is_gone(tmp_path):
    process, name, _ = child(tmp_path)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert sweep(tmp_path) == [name]
    process.join()


def test_files_of_another_machine_go_after_a_day(tmp_path):
    name = f".mvcs-{Process(FOREIGN_MACHINE, 1, 5)}-{'0' * 16}.tmp"
    (tmp_path / name).write_bytes(b"")
    assert sweep(tmp_path) == []
    aged(tmp_path / name)
    assert sweep(tmp_path) == [name]


def of_earlier_boot():
    """A process of this machine before it was started again; the 5 digits from the 7th on are the boot's."""
    machine = Process.current().machine
    boot = "".join("0" if digit == "f" else "f" for digit in machine[6:11])
    return Process(machine[:6] + boot + machine[11:], 1, 5)


def test_files_of_an_earlier_boot_go_at_once_from_a_disk_that_this_machine_has_alone(tmp_path):
    name = f".mvcs-{of_earlier_boot()}-{'0' * 16}.tmp"
    (tmp_path / name).write_bytes(b"")
    assert sweep(tmp_path) == [name]


def test_an_earlier_boot_is_told_from_other_machines_and_from_this_boot():
    here = Process.current()
    assert of_earlier_boot().is_of_earlier_boot()
    assert of_earlier_boot().is_gone() is None  # on a disk of several machines another may be called the same
    for machine in (here.machine, here.machine[:11] + FOREIGN_MACHINE[:5], FOREIGN_MACHINE, "0" * 16):
        assert not Process(machine, here.number, here.started).is_of_earlier_boot()


def test_no_other_disk_counts_as_ours_alone(tmp_path):
    for folder, expected in ((tmp_path, True), (Path("/proc"), False)):
        descriptor = os.open(folder, os.O_RDONLY)
        assert is_ours_alone(descriptor) is expected
        os.close(descriptor)


def test_no_other_file_link_or_folder_is_ever_removed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ours = killed(elsewhere)
    folder = tmp_path / "tmp"
    folder.mkdir()
    names = ["notes.txt", "0123456789abcdef", ".x.0123.tmp", f"{ours}~", f"x{ours}", ours.upper()]
    for name in names:
        aged_file = folder / name
        aged_file.write_bytes(b"mine")
        aged(aged_file)
    (folder / ours).symlink_to(elsewhere / ours)
    aged(folder / ours)
    (folder / ours.replace(ours[-20:-4], "f" * 16)).mkdir()
    (folder / "deeper").mkdir()
    (elsewhere / ours).rename(folder / "deeper" / ours)
    before = sorted(folder.rglob("*"))
    assert sweep(folder) == []
    (tmp_path / "link").symlink_to(folder / "deeper", target_is_directory=True)
    assert sweep(tmp_path / "link") == []
    assert sorted(folder.rglob("*")) == before


def test_a_folder_that_is_not_there_has_no_leftovers(tmp_path):
    assert sweep(tmp_path / "nothing") == []


@given(st.text() | st.from_regex(r"\.mvcs-[0-9a-f]{16}-[0-9]{1,12}-[0-9]{1,22}-[0-9a-f]{16}\.tmp\n?"))
def test_a_name_is_ours_only_as_a_whole(name):
    maker = maker_of(name)
    if maker is not None:
        assert name == f".mvcs-{maker}-{name[-20:-4]}.tmp"
        assert maker.is_gone() in (True, False, None)


@given(
    st.builds(
        Process,
        st.text("0123456789abcdef", min_size=16, max_size=16),
        st.integers(1, 999_999_999),
        st.integers(0, 10**19 - 1),
    )
)
def test_a_process_is_read_back_from_its_text(process):
    assert Process.parse(str(process)) == process
    assert maker_of(f".mvcs-{process}-{'a' * 16}.tmp") == process
    for changed in (f"{process} ", f"{process}-1", str(process)[1:], f"{process}\n"):
        assert Process.parse(changed) is None or changed == str(process)[1:]


def test_every_name_is_another_and_names_us():
    names = {temporary_name() for _ in range(100)}
    assert len(names) == 100
    assert {maker_of(name) for name in names} == {Process.current()}
