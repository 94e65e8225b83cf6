"""Tensors of a commit by one name each, as a model's `load_state_dict` takes them."""

from fnmatch import fnmatchcase

from mvcs.errors import NotFoundError, UsageError
from mvcs.objects import Path, Tree, path_text


def flat_names(tree: Tree, pattern: str | None, prefix: str = "") -> dict[str, int]:
    """Return the leaves of tensors by their paths, without a prefix; tied ones have all their names.

    Args:
        tree: what a commit holds.
        pattern: a glob of paths, or of paths behind the file's name; None for all that begin with the prefix.
        prefix: what is taken off from paths that begin with it.

    Raises:
        NotFoundError: nothing matches.
        UsageError: without the prefix two tensors would have one name.
    """
    found: dict[str, int] = {}
    for path, index in tree.tensor_paths():
        names = _names(path, in_file=tree.files is not None)
        begun = next((name for name in names if name.startswith(prefix)), None)
        is_chosen = begun if pattern is None else any(fnmatchcase(name, pattern) for name in names)
        if not is_chosen:
            continue
        name = names[0] if begun is None else begun.removeprefix(prefix)
        if name in found:
            raise UsageError(f"without '{prefix}' two tensors would be called '{name}'")
        found[name] = index
    if not found:
        asked = f"begins with '{prefix}'" if pattern is None else f"matches '{pattern}'"
        raise NotFoundError(f"no tensor {asked}", hint="'mvcs show REV --all' lists the tensors")
    return found


def _names(path: Path, *, in_file: bool) -> list[str]:
    return [path_text(path), path_text(path[1:])] if in_file else [path_text(path)]
