"""What a command is told, so that it goes to the store that is meant."""

import shlex


def of_remote(name: str | None) -> str:
    """Return the option that names a remote, with a space before it; nothing for this store.

    >>> of_remote("backup"), of_remote(None)
    (' --remote backup', '')
    """
    return "" if name is None else f" --remote {shlex.quote(name)}"
