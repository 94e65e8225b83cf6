"""Blocks of code on a page: what a reader would type, and what they are told to see."""

import re
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```(console|python|text)(?: (no-run))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LISTED = re.compile(r"^[│├─╯*| ]*([0-9a-f]{12}) (?:\(.*?\) )?(step \d+ .*)\]$", re.MULTILINE)
_FILE = re.compile(r"# (\S+\.py)\n")


@dataclass(frozen=True)
class Step:
    """A command and its output as the page has them, and where in the page the output stands."""

    command: str
    output: str
    begin: int
    end: int


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, whether it runs, and where its text begins in the page."""

    language: str
    text: str
    runs: bool
    begin: int

    @property
    def file(self) -> str | None:
        """The file that a Python block is, by its first line; None for a snippet."""
        found = _FILE.match(self.text)
        return found[1] if found else None

    def steps(self) -> list[Step]:
        """The commands of a console block, each with its output; a line that ends in a backslash goes on."""
        found: list[Step] = []
        at = self.begin
        for part in re.split(r"^(?=\$ )", self.text, flags=re.MULTILINE):
            command = re.match(r"\$ ((?:.*\\\n)*.*\n)", part)
            if command:
                shown = at + command.end()
                found.append(Step(command[1], part[command.end() :], shown, at + len(part)))
            at += len(part)
        return found


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in which somebody types something, or reads what Python printed."""
    return [
        Block(found[1], found[3], found[2] is None, found.start(3))
        for found in _BLOCK.finditer(page.read_text())
    ]


def listed(page: Path) -> dict[str, set[str]]:
    """The ids that a page gives to each commit that it lists; step, metrics and size tell which."""
    found: dict[str, set[str]] = {}
    for identifier, commit in _LISTED.findall(page.read_text()):
        found.setdefault(commit, set()).add(identifier)
    return found
