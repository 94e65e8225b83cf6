"""How much memory the machine has."""

import os
import pathlib

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_memory() -> int:
    """Return the bytes of the machine's memory, or of the container's where that has a limit."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *(found for path in _LIMITS if (found := _limit(pathlib.Path(path))))])


def _limit(path: pathlib.Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
