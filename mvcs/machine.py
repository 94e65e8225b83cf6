"""What this process may use of its machine: memory and processors, where limits are set, within these."""

import os
import pathlib
import resource
from collections.abc import Iterator

_PROCESS = pathlib.Path("/proc/self/cgroup")
_GROUPS = pathlib.Path("/sys/fs/cgroup")
_V1, _V1_LIMIT, _V2_LIMIT = "memory", "memory.limit_in_bytes", "memory.max"


def machine_memory() -> int:
    """Return how many bytes of memory this process may use at most.

    That is the machine's memory, or less where a control group of Linux (as a container has one) or
    `ulimit -v` sets a limit.
    """
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(physical, *group_limits(_PROCESS, _GROUPS), *_own_limits())


def processors() -> int:
    """Return on how many processors this process may run; a container or `taskset` may leave it few."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load() -> float:
    """Return how many processes wanted each processor, over the last minute; 0 where nothing tells."""
    try:
        return os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:
        return 0.0


def group_limits(process: pathlib.Path, groups: pathlib.Path) -> Iterator[int]:
    """Yield the limits of memory of a process's control groups, in bytes: its own, and those around it.

    Args:
        process: the file that tells its groups, such as `/proc/self/cgroup`.
        groups: where the groups' files lie.
    """
    for line in _lines(process):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and _V1 not in controllers.split(","):
            continue
        top, name = (groups / _V1, _V1_LIMIT) if controllers else (groups, _V2_LIMIT)
        inner = top / path.lstrip("/")
        # A container may see the path that its group has outside: then its own files lie at the top.
        for folder in (inner, *inner.parents):
            found = _limit(folder / name) if folder.is_relative_to(top) else None
            if found is not None:
                yield found


def _own_limits() -> Iterator[int]:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        yield soft


def _lines(path: pathlib.Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _limit(path: pathlib.Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
