"""Links of a limited rate between processes of this machine: network namespaces, joined by a bridge."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mvcs.errors import MvcsError, UsageError

INTERFACE = "eth0"
"""Of each namespace."""
_RATE = re.compile(r"(\d+(?:\.\d+)?)([kmg])bit")
_PREFIXES = {"k": 1e3, "m": 1e6, "g": 1e9}
_QUEUE = 16 << 20  # bytes that wait for a link: more than are ever on their way, so that none is dropped


class NoNetworkError(MvcsError):
    """Network namespaces cannot be made here."""


def bits_a_second(rate: str) -> float:
    """Return a rate as `tc` writes it, such as 100mbit, in bits a second.

    Raises:
        UsageError: it is no rate.
    """
    found = _RATE.fullmatch(rate)
    if found is None or not float(found[1]):
        raise UsageError(f"'{rate}' is no rate of a link", hint="give one such as 100mbit or 1gbit")
    return float(found[1]) * _PREFIXES[found[2]]


@contextmanager
def slow_network(count: int, rate: str) -> Iterator[list[list[str]]]:
    """Make namespaces with a link of a rate each, and remove them at the end; and those of killed processes.

    Args:
        count: how many; they reach each other at once, as computers at one switch do.
        rate: of what each of them sends.

    Yields:
        For each the words that a command in it begins with.

    Raises:
        NoNetworkError: they cannot be made, for want of iproute2 or of rights.
    """
    hub, *names = (f"mvcs-{os.getpid()}-{end}" for end in ("hub", *range(count)))
    for left in Path("/run/netns").glob("mvcs-*-*"):  # by a process that was killed
        if not Path("/proc", left.name.split("-")[1]).exists():
            with suppress(NoNetworkError):
                _call("ip", "netns", "delete", left.name)
    burst = max(int(bits_a_second(rate) / 8 / 1000), 16_000)  # a millisecond, or ten packets
    if missing := [tool for tool in ("ip", "tc") if shutil.which(tool) is None]:
        raise NoNetworkError(f"there is no '{missing[0]}' of iproute2")
    try:
        for name in (hub, *names):
            _call("ip", "netns", "add", name)
        _call("ip", "-n", hub, "link", "add", "bridge", "type", "bridge")
        _call("ip", "-n", hub, "link", "set", "bridge", "up")
        for place, name in enumerate(names):
            peer = ("peer", "name", f"v{place}", "netns", hub)
            _call("ip", "link", "add", INTERFACE, "netns", name, "type", "veth", *peer)
            _call("ip", "-n", hub, "link", "set", f"v{place}", "master", "bridge", "up")
            address = f"10.0.{(place + 1) >> 8}.{(place + 1) & 255}/16"
            _call("ip", "-n", name, "addr", "add", address, "dev", INTERFACE)
            _call("ip", "-n", name, "link", "set", INTERFACE, "up")
            shape = ("tbf", "rate", rate, "burst", str(burst), "limit", str(_QUEUE))
            _call("tc", "-n", name, "qdisc", "add", "dev", INTERFACE, "root", *shape)
        yield [["ip", "netns", "exec", name] for name in names]
    finally:
        for name in (hub, *names):
            with suppress(NoNetworkError):
                _call("ip", "netns", "delete", name)


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    if done.returncode:
        raise NoNetworkError(f"'{' '.join(command)}' says: {done.stderr.strip()}")
