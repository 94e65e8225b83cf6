"""What is said where files are asked for of a commit that holds a state, which has parts instead."""

from collections.abc import Sequence

from mvcs.errors import NotFoundError, some_of
from mvcs.objects.tree import Tree

NAMED = 8


def lacking(tree: Tree, who: str, rev: str, name: str) -> NotFoundError:
    """Return the error that a commit has no file of a name.

    Args:
        tree: what it holds.
        who: the commit, as a message says it.
        rev: the commit, as it is typed.
        name: of the file, or the part of a state.
    """
    parts = tree.parts
    if parts is None:
        return NotFoundError(f"{who} has no file '{name}'", hint=f"'mvcs show {rev}' lists those it has")
    if name in parts:
        said = f"'{name}' is a part of the state that {who} holds, and no file"
        return NotFoundError(said, hint=to_write(parts, rev, name))
    told = f"its parts are {some_of(parts, NAMED)}; " if parts else ""
    said = f"{who} holds a state, committed from Python, and no file '{name}'"
    return NotFoundError(said, hint=told + to_write(parts, rev))


def to_write(parts: Sequence[str], rev: str, part: str | None = None) -> str:
    """Return how a part of a state, else its model, if it has one, or else all of it becomes a file."""
    if part is None and "model" not in parts:
        return f"'mvcs checkout {rev} -o state.safetensors' writes it to a file"
    what = "its model" if part is None else "that part"
    part = part or "model"
    return f"'mvcs checkout {rev}:{part} -o {part}.safetensors' writes {what} to a file"
