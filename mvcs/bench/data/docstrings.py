"""What functions of the standard library are called, and the first line of what they say of themselves."""

import ast
import random
import re
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mvcs.errors import NotFoundError

_FOREIGN = frozenset({"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test"})
_VALID_SHARE = 0.25
_SHORTEST = 3
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_+")

Pair = tuple[str, str]
"""A function's name as words, and the first line of its docstring."""


@dataclass(frozen=True)
class Pairs:
    """Pairs to train on and pairs to validate on, from different files; no docstring is in both."""

    train: tuple[Pair, ...]
    valid: tuple[Pair, ...]


def docstrings(folder: Path | None = None) -> Pairs:
    """Read the functions of every module of the standard library, split by file, always in the same way.

    Functions without a docstring of three words are left out, and so is a docstring that stood before.

    Args:
        folder: where the modules lie instead.

    Raises:
        NotFoundError: there are none on one of the two sides.
    """
    root = folder or Path(sysconfig.get_path("stdlib"))
    files = sorted(path for path in root.rglob("*.py") if not _FOREIGN & set(path.relative_to(root).parts))
    random.Random(0).shuffle(files)  # noqa: S311  # a seeded split is not a secret
    valid = max(1, round(len(files) * _VALID_SHARE))
    seen: set[str] = set()
    pairs = Pairs(*(tuple(_new(part, seen)) for part in (files[valid:], files[:valid])))
    if not pairs.train or not pairs.valid:
        raise NotFoundError(
            f"there are too few functions with docstrings in '{root}'", hint="install the standard library"
        )
    return pairs


def _new(files: list[Path], seen: set[str]) -> list[Pair]:
    """Return the pairs of files whose docstring is none of `seen`, and add them to it."""
    found = []
    for name, line in (pair for path in files for pair in _pairs(path)):
        if line.lower() not in seen:
            seen.add(line.lower())
            found.append((name, line))
    return found


def _functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield functions, methods, and what is defined inside either."""
    body = getattr(node, "body", None)
    for child in body if isinstance(body, list) else []:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        yield from _functions(child)


def _pairs(path: Path) -> list[Pair]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            module = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # a file of the standard library's own tests of the parser
        return []
    told = [
        (each.name, (ast.get_docstring(each) or "").partition("\n")[0].strip()) for each in _functions(module)
    ]
    named = [(" ".join(_HUMPS.sub(" ", name).split()).lower(), line) for name, line in told]
    return [(name, line) for name, line in named if name and len(line.split()) >= _SHORTEST]
