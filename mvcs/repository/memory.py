"""How much memory the machine has, of which commits take a share."""

import os


def machine_memory() -> int:
    """Return the bytes of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
