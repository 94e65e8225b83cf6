"""What a shell is told between two keys: the words that can stand where the cursor is.

The scripts in `shells` ask by setting `_MVCS_COMPLETE`, with the line up to the cursor in `COMP_WORDS`.
They get a line or three for each word. Whatever goes wrong, the answer is shorter, and no error is printed.
"""

import os
import re
from pathlib import Path
from typing import ClassVar

import click
from click.shell_completion import CompletionItem, ShellComplete, split_arg_string

SHELLS = ("bash", "zsh", "fish")
_END = "\x02"  # no shell hands it over, so it marks the word that is being typed
_LONGEST = 60


def script(shell: str) -> str:
    """Return what makes a shell complete `mvcs`."""
    return Path(__file__).with_name("shells").joinpath(f"mvcs.{shell}").read_text("utf-8")


def answer(root: click.Command, asked: str) -> str:
    """Return what a shell is told; nothing where it cannot be found out.

    Args:
        root: the command `mvcs`.
        asked: the shell and what it wants: `bash_complete`, or `bash_source` for its script.
    """
    shell, _, instruction = asked.partition("_")
    found = next((kind for kind in (Bash, Zsh, Fish) if kind.name == shell), None)
    if found is None:
        return ""
    if instruction == "source":
        return script(shell)
    try:
        return found(root, {}, "mvcs", "").complete()
    except Exception:  # noqa: BLE001  # a person is typing: an error would stand in the middle of the line
        return ""


def typed(line: str) -> tuple[list[str], str]:
    """Split a line into the words behind the command, and the one that is being typed."""
    words = split_arg_string(line + _END)
    last = words.pop() if words else _END
    return words[1:], last.removesuffix(_END)


class _Shell(ShellComplete):
    """What the shells have in common: how the line is read, and which words are left out."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one that is being typed, and that one."""
        return typed(os.environ.get("COMP_WORDS", ""))

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return what can stand there; `--option=` stays in front of a value.

        Control characters of a stranger's names would reach the terminal, so such names are left out.
        """
        before = ""
        if incomplete.startswith("--") and "=" in incomplete:
            before = incomplete.partition("=")[0] + "="
        found = super().get_completions(args, incomplete)
        for item in found:
            if item.type in ("plain", "part"):
                item.value = before + item.value
        return [item for item in found if item.value.isprintable()]


class Bash(_Shell):
    """Bash replaces a word only from the last of its own breaks on, and takes what it gets as it is."""

    name: ClassVar[str] = "bash"

    def complete(self) -> str:
        """Return a line for each word: its kind and, as it is to be typed, itself."""
        line = os.environ.get("COMP_WORDS", "")
        args, incomplete = typed(line)
        quoted = _open_quote(line)
        cut = 0 if quoted else _behind_break(incomplete, os.environ.get("COMP_WORDBREAKS", ""))
        lines = []
        for item in self.get_completions(args, incomplete):
            if item.type in ("file", "dir"):
                lines.append(f"{item.type},")
            elif quoted:
                lines.append(f"part,{item.value}")
            else:
                lines.append(f"{item.type},{_escaped(item.value[cut:])}")
        return "\n".join(lines)


class Zsh(_Shell):
    """Zsh quotes words itself, and shows what they are."""

    name: ClassVar[str] = "zsh"

    def format_completion(self, item: CompletionItem) -> str:
        """Return three lines: its kind, itself, and what it is."""
        return f"{item.type}\n{item.value}\n{_about(item)}"


class Fish(_Shell):
    """Fish quotes words itself, and shows what they are."""

    name: ClassVar[str] = "fish"

    def format_completion(self, item: CompletionItem) -> str:
        """Return its kind, itself, and what it is."""
        return f"{item.type},{item.value}\t{_about(item)}".rstrip("\t")


def _about(item: CompletionItem) -> str:
    """Return what a word is, on one line."""
    text = " ".join("".join(sign if sign.isprintable() else " " for sign in item.help or "").split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _escaped(text: str) -> str:
    """Return a word as it is typed in a shell; a name of somebody else's must not run anything."""
    return re.sub(r"([^\w@%+=:,./^~-]|^~)", r"\\\1", text)


def _behind_break(word: str, breaks: str) -> int:
    """Return where the part of a word begins that bash replaces."""
    # What begins with an @ could be a host, so that sign is replaced as well.
    return max((word.rfind(sign) + (sign != "@") for sign in breaks if sign in word), default=0)


def _open_quote(line: str) -> bool:
    """Tell whether the line ends within quotes."""
    quote = ""
    signs = iter(line)
    for sign in signs:
        if sign == "\\" and quote != "'":
            next(signs, "")
        elif quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
    return bool(quote)
