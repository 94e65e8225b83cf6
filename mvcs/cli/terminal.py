"""What the terminal at hand can show, decided once a stream. Honours NO_COLOR and COLUMNS."""

import os
from typing import Any, TextIO

import click

from mvcs.ui import Screen, plain

_USUAL, _WIDEST = 80, 100_000
_STYLES: dict[str, dict[str, Any]] = {
    "id": {"fg": "yellow"},
    "head": {"fg": "cyan", "bold": True},
    "ref": {"fg": "green", "bold": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "warn": {"fg": "yellow"},
    "dim": {"dim": True},
    "bar": {"fg": "blue"},
    "lane0": {"fg": "red"},
    "lane1": {"fg": "green"},
    "lane2": {"fg": "yellow"},
    "lane3": {"fg": "blue"},
    "lane4": {"fg": "magenta"},
    "lane5": {"fg": "cyan"},
}


def screen_for(stream: TextIO) -> Screen:
    """Return what `stream` can show."""
    return Screen(_paint if _coloured(stream) else plain, _unicode(stream), _width(stream))


def _width(stream: TextIO) -> int | None:
    """Return how wide the terminal is, or is said to be; what is piped into another program is not cut."""
    said = os.environ.get("COLUMNS", "")
    if said.isascii() and said.isdigit() and 0 < int(said) <= _WIDEST:
        return int(said)
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL
    except OSError:
        return _USUAL


def _coloured(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _unicode(stream: TextIO) -> bool:
    try:
        "├─╮█".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _paint(text: str, style: str) -> str:
    return click.style(text, **_STYLES[style])
