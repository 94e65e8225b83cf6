"""What is wrong with a store, as lines: what is alike stands together."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mvcs.errors import some_of
from mvcs.ui.terminal.screen import Screen
from mvcs.ui.terminal.text import printable

if TYPE_CHECKING:
    from mvcs.reports import Problem

NAMED = 3


def problem_lines(problems: "Iterable[Problem]", screen: Screen) -> list[str]:
    """Return each problem with what it concerns and its hint; those that say the same once."""
    alike: dict[tuple[str, str, str | None], list[str]] = {}
    for problem in problems:
        alike.setdefault((problem.kind, problem.message, problem.hint), []).append(problem.subject)
    lines: list[str] = []
    for (kind, message, hint), subjects in alike.items():
        line = f"{kind}: {printable(some_of(subjects, NAMED))}: {printable(message)}"
        lines += [screen.paint(line, "bad"), *([f"  hint: {printable(hint)}"] if hint else [])]
    return lines
