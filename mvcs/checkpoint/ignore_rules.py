"""What a commit of a folder leaves out because its user says so: `.mvcsignore`, whose lines are gitignore's.

The file may come from anybody's commit, so no pattern takes more time than its length times that of a path.
"""

import itertools
import pathlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mvcs.errors import StorageError
from mvcs.local_files import read_file

IGNORE_FILE = ".mvcsignore"
MAX_BYTES = 1 << 16
MAX_PATTERNS = 1000  # each is compared with each file
_ANY = "**"  # stands for any number of folders
_STARS = re.compile(r"\A\*{2,}\Z")
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


@dataclass(frozen=True)
class Pattern:
    """One line.

    Attributes:
        parts: for each segment of a path what its name has to match; None for any number of segments.
        folders: whether it speaks of folders alone.
        leaves_out: whether what matches is left out; else it is taken, whatever earlier lines say.
    """

    parts: tuple[re.Pattern[str] | None, ...]
    folders: bool
    leaves_out: bool

    @classmethod
    def of(cls, line: str) -> "Pattern | None":
        """Read a line; None for one that says nothing."""
        text = _without_trailing_spaces(line)
        leaves_out = not text.startswith("!")
        text = text if leaves_out else text[1:]
        folders, text = text.endswith("/"), text.removesuffix("/")
        if not text or line.startswith("#"):
            return None
        try:
            parts = tuple(None if name == _ANY else re.compile(_expression(name)) for name in _segments(text))
        except (ValueError, re.error):
            return None  # as in git, what is no pattern matches nothing
        return cls(parts, folders, leaves_out)

    def matches(self, names: Sequence[str], *, folder: bool) -> bool:
        """Tell whether a path is meant, given as its segments."""
        return (folder or not self.folders) and _fits(self.parts, names)


@dataclass(frozen=True)
class IgnoreRules:
    """What is left out of folders, and not listed as something that could be committed.

    Attributes:
        patterns: the lines of the file, in order; the last that matches decides.
    """

    patterns: tuple[Pattern, ...] = ()

    @classmethod
    def of(cls, top: pathlib.Path) -> "IgnoreRules":
        """Read the file at the top of a folder; nothing is left out where there is none.

        Raises:
            StorageError: it cannot be read, is too large, or has more than `MAX_PATTERNS` patterns.
        """
        text = (read_file(top / IGNORE_FILE, MAX_BYTES) or b"").removeprefix(b"\xef\xbb\xbf")
        lines = text.decode(errors="surrogateescape").split("\n")
        found = (Pattern.of(line.removesuffix("\r")) for line in lines)
        patterns = tuple(itertools.islice(filter(None, found), MAX_PATTERNS + 1))
        if len(patterns) > MAX_PATTERNS:
            raise StorageError(
                f"'{top / IGNORE_FILE}' has more than {MAX_PATTERNS} patterns",
                hint="ignore a folder with 'NAME/', or many files with '*', instead of one by one",
            )
        return cls(patterns)

    def ignores(self, path: str, *, folder: bool) -> bool:
        """Tell whether a path of the folder is left out; of what a folder holds that is, all is."""
        names = path.split("/")
        found = (pattern for pattern in reversed(self.patterns) if pattern.matches(names, folder=folder))
        last = next(found, None)
        return last is not None and last.leaves_out


def _without_trailing_spaces(line: str) -> str:
    """Return a line without the spaces at its end, but for one that a backslash stands before."""
    text = line.rstrip(" ")
    escaped = (len(text) - len(text.rstrip("\\"))) % 2
    return text + " " if escaped and text != line else text


def _segments(text: str) -> list[str]:
    """Return a pattern as its segments; one without a slash is meant in any folder."""
    if "/" not in text:
        return [_ANY, text.replace(_ANY, "*")]
    names = [_STARS.sub(_ANY, name) for name in text.removeprefix("/").split("/")]
    return [*names[:-1], "*", _ANY] if names[-1] == _ANY else names


def _fits(parts: Sequence[re.Pattern[str] | None], names: Sequence[str]) -> bool:
    """Tell whether names match one after the other; where some did not, the last gap takes one more."""
    part = name = 0
    gap: int | None = None
    taken = 0
    while name < len(names):
        if part < len(parts) and parts[part] is None:
            gap, taken, part = part, name, part + 1
        elif part < len(parts) and _is(parts[part], names[name]):
            part, name = part + 1, name + 1
        elif gap is not None:
            taken += 1
            part, name = gap + 1, taken
        else:
            return False
    return all(rest is None for rest in parts[part:])


def _is(part: re.Pattern[str] | None, name: str) -> bool:
    return part is None or part.fullmatch(name) is not None


def _expression(name: str) -> str:
    """Return the regular expression of a segment.

    Raises:
        ValueError: it is no pattern.
    """
    first, *rest = _pieces(name)
    if not rest:
        return f"(?s:{first})"
    *middle, last = rest
    # What stands between two stars is looked for once, as early as it can be: nothing is tried again.
    return f"(?s:{first}{''.join(f'(?>.*?{piece})' for piece in middle if piece)}.*{last})"


def _pieces(name: str) -> list[str]:
    """Return what stands between the stars of a segment, as regular expressions of a fixed length each."""
    pieces, at = [""], 0
    while at < len(name):
        letter, piece, at = name[at], "", at + 1
        if letter == "*":
            pieces.append("")
            continue
        if letter == "[":
            piece, at = _character_class(name, at)
        elif letter == "\\":
            piece, at = re.escape(name[at : at + 1]), at + 1
            if not piece:
                raise ValueError("a backslash at the end stands for nothing")
        else:
            piece = "." if letter == "?" else re.escape(letter)
        pieces[-1] += piece
    return pieces


def _character_class(name: str, at: int) -> tuple[str, int]:
    """Return the regular expression of what stands in brackets, of which the first is read, and its end."""
    negated = name[at : at + 1] in ("!", "^")
    at += negated
    members, first = "", True
    while first or name[at] != "]":
        if at >= len(name):
            raise ValueError("a bracket is not closed")
        if name.startswith("[:", at) and ":]" in name[at:]:
            word = name[at + 2 : name.index(":]", at)]
            members, at = members + _named_class(word), at + len(word) + 4
        else:
            member, at = _range(name, at)
            members += member
        first = False
        if at >= len(name):
            raise ValueError("a bracket is not closed")
    return (f"[{'^' if negated else ''}{members}]" if members else "." if negated else "(?!)."), at + 1


def _named_class(word: str) -> str:
    if word not in _CLASSES:
        raise ValueError("there is no such class")
    return _CLASSES[word]


def _range(name: str, at: int) -> tuple[str, int]:
    """Return a character of a class, or a range of them, as a regular expression."""
    low, at = _member(name, at)
    if name[at : at + 1] != "-" or name[at + 1 : at + 2] in ("", "]"):
        return re.escape(low), at
    high, at = _member(name, at + 1)
    return re.escape(low) + (f"-{re.escape(high)}" if low <= high else ""), at


def _member(name: str, at: int) -> tuple[str, int]:
    at += name[at] == "\\"
    if at >= len(name):
        raise ValueError("a bracket is not closed")
    return name[at], at + 1
