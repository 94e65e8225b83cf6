"""Functions of the user that a command is given as `module:function`."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from mvcs.errors import UsageError


@contextlib.contextmanager
def user_function(name: str) -> Iterator[Callable[..., Any]]:
    """Import a function; while it may be called, what it prints goes to stderr.

    Modules are looked for as Python does, and in the current folder first.

    Args:
        name: the module, a colon, and the function, such as `train:resume`.

    Raises:
        UsageError: there is no such module or function, or the module cannot be imported.
    """
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute.isidentifier()):
        raise UsageError(f"'{name}' is not of the form module:function", hint="such as train:resume")
    before = list(sys.path)
    sys.path.insert(0, "")
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield _found(module, attribute)
    finally:
        sys.path[:] = before


def _found(module: str, attribute: str) -> Callable[..., Any]:
    try:
        loaded = import_module(module)
    except Exception as error:
        raise UsageError(
            f"'{module}' cannot be imported: {type(error).__name__}: {error}",
            hint="name a module of the current folder, or an installed one",
        ) from error
    found = getattr(loaded, attribute, None)
    if not callable(found):
        raise UsageError(f"'{module}' has no function '{attribute}'")
    return found  # type: ignore[no-any-return]  # callable
