"""Processes of this machine, told apart from all others, so that one can be shown to be gone."""

import hashlib
import os
import pathlib
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import Self

_UNKNOWN = "0" * 16
_TEXT = re.compile(r"([0-9a-f]{16})-([1-9][0-9]{0,8})-(0|[1-9][0-9]{0,18})")
_HOST = "/etc/machine-id"
_BOOT = "/proc/sys/kernel/random/boot_id"
_HOST_DIGITS, _BOOT_DIGITS = 6, 5
_STATE, _STARTED = 0, 19  # fields of `/proc/PID/stat` behind the name
_ENDED = frozenset("ZXx")
_own: dict[int, tuple[str, int]] = {}  # this process's number: its machine, and when it started


@dataclass(frozen=True)
class Process:
    """One process.

    Attributes:
        machine: 16 hexadecimal digits: 6 name the machine, 5 its boot, 5 the namespaces of numbers.
        number: what the system calls it; numbers are used again.
        started: when, in ticks of the machine's clock.
    """

    machine: str
    number: int
    started: int

    @classmethod
    def current(cls) -> Self:
        """Return the process that asks; a forked one is another.

        What it is called is looked up once: every temporary file has it in its name.
        """
        number = os.getpid()
        if number not in _own:
            machine, started = _machine(), _started(number)
            if machine == _UNKNOWN or started is None:
                return cls(_UNKNOWN, number, 0)  # out of descriptors, perhaps: the next call asks again
            _own[number] = machine, started
        machine, started = _own[number]
        return cls(machine, number, started)

    @classmethod
    def numbered(cls, number: int) -> Self:
        """Return the process that this machine calls so now; one that is gone where there is none."""
        started = _started(number)
        return cls(_machine(), number, -1 if started is None else started)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read what `str` gives; None for anything else."""
        found = _TEXT.fullmatch(text)
        return cls(found[1], int(found[2]), int(found[3])) if found else None

    def __str__(self) -> str:
        """Return it as part of a file's name."""
        return f"{self.machine}-{self.number}-{self.started}"

    def is_gone(self) -> bool | None:
        """Tell whether it runs no more; None where this machine cannot tell."""
        if self.machine == _UNKNOWN or self.machine != _machine():
            return None
        try:
            os.kill(self.number, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # it is another user's
        return self._is_another_or_ended()

    def is_of_earlier_boot(self) -> bool:
        """Tell whether it ran on a machine called as this one is, before that was started again.

        Machines may share a name. So that is proof only of what no other machine can have made.
        """
        here = _machine()
        same_host = self.machine[:_HOST_DIGITS] == here[:_HOST_DIGITS]
        return same_host and _UNKNOWN not in (here, self.machine) and _boot_of(self.machine) != _boot_of(here)

    def _is_another_or_ended(self) -> bool:
        fields = _fields(self.number)
        if fields is None:
            return False
        if int(fields[_STARTED]) != self.started:
            return True
        return fields[_STATE] in _ENDED and not _has_threads(self.number)


def _machine() -> str:
    """Name the machine, its boot, and the namespaces that process numbers and times belong to."""
    try:
        boot = pathlib.Path(_BOOT).read_text(encoding="ascii")
        spaces = [str(pathlib.Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("pid", "time")]
    except (OSError, UnicodeDecodeError):
        return _UNKNOWN
    spaces_digits = len(_UNKNOWN) - _HOST_DIGITS - _BOOT_DIGITS
    parts = (_host(), _HOST_DIGITS), (boot, _BOOT_DIGITS), ("\n".join(spaces), spaces_digits)
    return "".join(hashlib.sha256(text.encode()).hexdigest()[:digits] for text, digits in parts)


def _boot_of(machine: str) -> str:
    return machine[_HOST_DIGITS : _HOST_DIGITS + _BOOT_DIGITS]


def _host() -> str:
    """Name the machine; what was copied from one image often has but another name."""
    try:
        installed = pathlib.Path(_HOST).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        installed = ""
    return f"{installed}\n{os.uname().nodename}"


def _started(number: int) -> int | None:
    fields = _fields(number)
    return None if fields is None else int(fields[_STARTED])


def _fields(number: int) -> list[str] | None:
    try:
        # The name, in parentheses, may hold anything.
        text = pathlib.Path(f"/proc/{number}/stat").read_bytes().rpartition(b")")[2]
    except OSError:
        return None
    return text.decode("ascii").split()


def _has_threads(number: int) -> bool:
    """Tell whether a process whose first thread ended still has others."""
    try:
        return len(os.listdir(f"/proc/{number}/task")) > 1  # noqa: PTH208 - names alone are counted
    except OSError:
        return False


def _begin_in_child() -> None:
    """Forget the other process, and free what threads of it held that this one has not."""
    _own.clear()
    if sys.version_info < (3, 12):  # each cached property has a lock, for all objects of its class
        modules = [module for name, module in list(sys.modules.items()) if name.startswith("mvcs.")]
        kinds = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
        for found in (value for kind in kinds for value in vars(kind).values()):
            if isinstance(found, cached_property) and found.func.__module__.startswith("mvcs."):
                vars(found)["lock"] = RLock()


os.register_at_fork(after_in_child=_begin_in_child)
