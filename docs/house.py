"""The rooms and their folders as a picture, from the contracts of import-linter.

python docs/house.py > docs/images/house.svg
"""

import re
import tomllib
from functools import cache
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
WIDTH, MARGIN, GAP = 960, 12, 8
LINE, HEAD = 17, 26  # pixels: a line of folders, and the name of a room
STYLE = (
    "text{font-family:sans-serif;text-anchor:middle}.room{font-size:14px;font-weight:bold}"
    ".folder{font-size:11px}.box{fill:#eef2f7;stroke:#7890a8}"
)
LETTERS = 6.3  # pixels that a letter of a folder's name takes


@cache
def contracts() -> dict[str, list[str]]:
    """Return the lines of every contract that has layers, by its id."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return {each["id"]: each["layers"] for each in settings["contracts"] if "layers" in each}


def layers(contract: str) -> list[list[str]]:
    """Return the names on each line of a contract, from the top."""
    return [re.split(r" [|:] ", line) for line in contracts().get(contract, [])]


def folders(room: str) -> list[str]:
    """Return the folders of a room, from the top."""
    names = [name for line in layers(f"inside-{room}") for name in line]
    return [name for name in names if (ROOT / "mvcs" / room / name).is_dir()]


def wrapped(names: list[str], width: float) -> list[str]:
    """Return names in lines that fit into `width` pixels."""
    lines: list[str] = []
    for name in names:
        longer = f"{lines[-1]} · {name}" if lines else name
        if lines and len(longer) * LETTERS <= width - 2 * GAP:
            lines[-1] = longer
        else:
            lines.append(name)
    return lines


def box(room: str, left: float, top: float, width: float, height: float) -> list[str]:
    """Return a room as a rectangle with its name, and its folders below."""
    middle = left + width / 2
    lines = wrapped(folders(room), width)
    drawn = [
        f'<rect class="box" x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="5"/>',
        f'<text x="{middle:g}" y="{top + 18:g}" class="room">{escape(room)}</text>',
    ]
    return drawn + [
        f'<text x="{middle:g}" y="{top + HEAD + 9 + LINE * index:g}" class="folder">{escape(line)}</text>'
        for index, line in enumerate(lines)
    ]


def house() -> str:
    """Return the picture: a line for each layer, which imports only what is drawn below it."""
    drawn: list[str] = []
    top = float(MARGIN)
    for rooms in layers("rooms"):
        width = (WIDTH - 2 * MARGIN - GAP * (len(rooms) - 1)) / len(rooms)
        most = max(len(wrapped(folders(room), width)) for room in rooms)
        height = HEAD + LINE * most
        for index, room in enumerate(sorted(rooms)):
            drawn += box(room, MARGIN + index * (width + GAP), top, width, height)
        top += height + GAP
    view = f'viewBox="0 0 {WIDTH} {top - GAP + MARGIN:g}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {view} role="img"><title>The rooms of mvcs</title>',
            f"<style>{STYLE}</style>",
            '<rect width="100%" height="100%" fill="white"/>',
            *drawn,
            "</svg>",
        ]
    )


if __name__ == "__main__":
    print(house())
