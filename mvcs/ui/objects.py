"""A decoded object as an indented outline."""

from collections.abc import Iterator

from mvcs.ui.terminal.text import printable

_INDENT = "  "


def outline(value: object) -> Iterator[str]:
    """Yield the lines of a decoded object: pairs of name and value as `name: value`, others by dashes."""
    if isinstance(value, list):
        for item in value:
            yield from _entry(item)
    elif value is not None:
        yield _leaf(value)


def _entry(item: object) -> Iterator[str]:
    if isinstance(item, list) and len(item) == 2 and isinstance(item[0], str):
        name, value = item
        yield from _labelled(f"{printable(name)}:", value)
    else:
        yield from _labelled("-", item)


def _labelled(label: str, value: object) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{label} {_leaf(value)}"
    elif not any(isinstance(item, list) for item in value):
        yield f"{label} {', '.join(_leaf(item) for item in value) or '-'}"
    else:
        yield label
        yield from (_INDENT + line for line in outline(value))


def _leaf(value: object) -> str:
    return "-" if value is None else printable(str(value))
