"""A twin that is asked the same at every instruction level works its answer out once."""

from collections.abc import Callable
from functools import wraps
from hashlib import blake2b
from typing import Any

import numpy as np


def once(twin: Callable[..., Any]) -> Callable[..., Any]:
    """The twin with a memory: what it answered, or the ValueError it raised, by content of its arguments."""
    known: dict[bytes, tuple[Any, ValueError | None]] = {}

    @wraps(twin)
    def asked(*arguments: Any) -> Any:
        key = _key(arguments)
        if key not in known:
            known[key] = _outcome(twin, arguments)
        answer, error = known[key]
        if error:
            raise error
        return answer

    return asked


def _key(arguments: tuple[Any, ...]) -> bytes:
    digest = blake2b()
    for each in arguments:
        array = isinstance(each, np.ndarray)
        told = f"{each.dtype.str}{each.shape}" if array else f"{type(each).__name__}{each!r}"
        digest.update(f"{len(told)} {told}".encode() + (each.tobytes() if array else b""))
    return digest.digest()


def _outcome(twin: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, ValueError | None]:
    try:
        answer = twin(*arguments)
    except ValueError as error:
        return None, error.with_traceback(None)
    for each in answer if isinstance(answer, tuple) else (answer,):
        if isinstance(each, np.ndarray):
            each.flags.writeable = False
    return answer, None
