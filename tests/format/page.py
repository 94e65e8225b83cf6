"""The worked bytes of a format page: fenced blocks called `hex NAME`, each line hex, two spaces, meaning."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs/format"
_BLOCK = re.compile(r"^```hex (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text(page: str) -> str:
    """Return a page's text."""
    return (FOLDER / page).read_text(encoding="utf-8")


def blocks(page: str) -> dict[str, bytes]:
    """Return the bytes of every block of a page by name."""
    found = _BLOCK.findall(text(page))
    return {
        name: bytes.fromhex("".join(line.partition("  ")[0] for line in body.splitlines()))
        for name, body in found
    }
