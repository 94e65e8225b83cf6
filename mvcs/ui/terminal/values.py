"""Numbers and texts beside tensors, by their paths."""

from collections.abc import Iterable
from itertools import groupby

from mvcs.reports import as_json
from mvcs.ui.terminal.sizes import number
from mvcs.ui.terminal.text import printable

_ITEMS = 4


def listed(values: Iterable[tuple[str, str]], option: str | None) -> list[str]:
    """Return a line for each value, and a single one for many items of a list.

    Args:
        values: paths, and what to say of each.
        option: what lists all of them; None where all are to be listed.
    """
    result = []
    for _, run in groupby(values, key=_list_of):
        items = list(run)
        lines = [f"{printable(path)}: {said}" for path, said in items]
        if option is not None and len(items) > _ITEMS:
            last = items[-1][0].rpartition(".")[2]
            lines = [f"{lines[0]}, and {len(items) - 1} more up to item {last}; {option} lists them"]
        result += lines
    return result


def value_text(value: object) -> str:
    """Return a number or a text, safe to show."""
    if isinstance(value, float):
        return number(value)
    return printable(str(as_json(value)) if isinstance(value, int) else repr(value))


def _list_of(value: tuple[str, str]) -> tuple[str, bool]:
    """Return which list a value is an item of; itself where it is of none."""
    parent, _, name = value[0].rpartition(".")
    return (parent, True) if parent and name.isdigit() else (value[0], False)
