"""What is said of a name that is none of a file, a folder or a part of a state, but maybe a tensor's."""

import glob
import shlex
from collections.abc import Collection, Iterable, Sequence
from pathlib import PurePosixPath

from mvcs.errors import NotFoundError, meant, some_of
from mvcs.objects import Tree, path_text

NAMES_LISTED = 8


def missing_file_error(tree: Tree, who: str, rev: str, name: str) -> NotFoundError:
    """Return the error that a commit has no file of a name.

    Args:
        tree: what it holds.
        who: the commit, as a message says it.
        rev: the commit, as it is typed.
        name: of the file, or the part of a state.
    """
    parts = tree.parts
    command = _to_write_tensors(tree, rev, name)
    if command is not None:
        return NotFoundError(f"{who} has no file '{name}', which names {command[0]}", hint=command[1])
    if parts is None:
        return NotFoundError(f"{who} has no file '{name}'", hint=f"'mvcs show {rev}' lists those it has")
    if name in parts:
        said = f"'{name}' is a part of the state that {who} holds, and no file"
        return NotFoundError(said, hint=ways_to_write(parts, rev, name))
    told = f"its parts are {some_of(parts, NAMES_LISTED)}; " if parts else ""
    said = f"{who} holds a state, committed from Python, and no file '{name}'"
    return NotFoundError(said, hint=told + ways_to_write(parts, rev))


def ways_to_write(parts: Sequence[str], rev: str, part: str | None = None, *, exact: bool = False) -> str:
    """Return how a part of a state, else its model, if it has one, or else all of it becomes a file."""
    layer = " --exact" if exact else ""
    if part is None and "model" not in parts:
        return f"'mvcs checkout {rev} -o state.safetensors{layer}' writes it to a file"
    what = "its model" if part is None else "that part"
    part = part or "model"
    return f"'mvcs checkout {rev}:{part} -o {part}.safetensors{layer}' writes {what} to a file"


def _to_write_tensors(tree: Tree, rev: str, name: str) -> tuple[str, str] | None:
    """Return what a name stands for, and how that becomes a file, where it is a tensor's or begins some's."""
    holder = _holder(tree, name)
    if holder is None or name in (tree.parts or ()):
        return None
    where, pattern = rev, glob.escape(name)
    if tree.files is not None:
        where, pattern = f"{rev}:{holder}", glob.escape(name.removeprefix(f"{holder}."))
    single = _is_tensor(tree, name)
    words = ["mvcs", "checkout", where, "--tensor", pattern if single else f"{pattern}.*"]
    what = ("a tensor", "it") if single else ("several tensors", "them")
    return what[0], f"this writes {what[1]} to a file: {shlex.join(words)} -o FILE.safetensors"


def _spellings(tree: Tree) -> Iterable[tuple[str, str]]:
    """Yield what each tensor can be called, with the file or the part it stands in."""
    for path, _ in tree.tensor_paths():
        whole, holder = path_text(path), str(path[0]) if path else ""
        yield whole, holder
        if tree.files is not None:
            yield path_text(path[1:]), holder


def _holder(tree: Tree, name: str) -> str | None:
    """Return the file or part that has a tensor of a name, or tensors whose names begin so."""
    found = (holder for text, holder in _spellings(tree) if f"{text}.".startswith(f"{name}."))
    return next(found, None)


def _is_tensor(tree: Tree, name: str) -> bool:
    return any(text == name for text, _ in _spellings(tree))


def on_neither_side_error(names: Collection[str], trees: Sequence[Tree]) -> NotFoundError:
    """Return the error that none of some names stands for something that is compared.

    Args:
        names: what is called so nowhere.
        trees: what is compared.
    """
    for name in names:
        holder = next((found for tree in trees if (found := _holder(tree, name))), None)
        if holder is not None:
            command = shlex.join(["--all", "--", holder])
            return NotFoundError(
                f"'{name}' names tensors, and only files, folders and parts of a state are compared",
                hint=f"this lists each tensor in '{holder}': mvcs diff ... {command}",
            )
    known = list(dict.fromkeys(name for tree in trees for name in _names_in(tree)))
    near = meant(next(iter(names)), known)
    such = f", such as '{known[0]}'" if known and not near else ""
    return NotFoundError(
        f"neither side has a file, a folder or a part named {_either(names)}",
        hint=f"{near and f'{near} '}a name is that of a file, a folder, or a part of a state{such}; "
        "'mvcs diff ... --all' lists each tensor",
    )


def _either(names: Collection[str]) -> str:
    return some_of([f"'{name}'" for name in names], NAMES_LISTED, " or ")


def _names_in(tree: Tree) -> Iterable[str]:
    if tree.files is None:
        return tree.parts or ()
    paths = [entry.path for entry in tree.files]
    folders = [str(folder) for path in paths for folder in PurePosixPath(path).parents]
    return [*paths, *(folder for folder in folders if folder != ".")]
