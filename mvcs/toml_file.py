"""Settings files in TOML: read as flat keys, and changed so that the comments of a person stay."""

import pathlib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mvcs.errors import CorruptionError
from mvcs.local_files import locked, read_file, replace_file

MAX_BYTES = 1 << 16
_MOST_PARTS, _LONGEST_KEY = 64, 512
_BARE, _QUOTED = r"(?<![\w-])[\w-]++", r'"(?:[^"\\\n]|\\.){0,512}+"|' + r"'[^'\n]{0,512}+'"
# What is read takes time as the square of the parts of a key.
_MANY_PARTS = re.compile(rf"(?:(?:{_BARE}|{_QUOTED})[ \t]*+\.[ \t]*+){{{_MOST_PARTS}}}", re.ASCII)


def read_settings(path: pathlib.Path) -> dict[str, Any]:
    """Return the values of a file by dotted key; none where there is no file.

    Raises:
        CorruptionError: it is not TOML, or has a key that no settings have.
        StorageError: it is no file, larger than `MAX_BYTES`, or cannot be read.
    """
    try:
        text = _text(path)
        if found := _MANY_PARTS.search(text):
            raise _unreadable(path, f"'{found[0][:40]}…' has more than {_MOST_PARTS} parts")
        return flat(tomllib.loads(text))
    except RecursionError as error:
        raise _unreadable(path, "its tables or arrays lie too deep in each other") from error
    except ValueError as error:
        raise _unreadable(path, str(error)) from error


def _text(path: pathlib.Path) -> str:
    # As a text file is read: with any ends of lines.
    text = (read_file(path, MAX_BYTES) or b"").decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _unreadable(path: pathlib.Path, why: str) -> CorruptionError:
    return CorruptionError(
        f"'{path}' cannot be read: {why}",
        hint="mend the file by hand, or move it away to go back to the defaults",
    )


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of nested tables by dotted key.

    Raises:
        ValueError: a key is longer than any setting's.
    """
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if len(name) > _LONGEST_KEY:
            raise ValueError(f"a key that begins with '{name[:40]}' has more than {_LONGEST_KEY} characters")
        found |= flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return found


def edit_settings(path: pathlib.Path, change: Callable[[Any], None]) -> None:
    """Let `change` alter the document in a file, while other processes wait.

    Raises:
        CorruptionError: it is not TOML.
        StorageError: it cannot be written; the old file stays.
    """
    import tomlkit

    # Others write this file, too: what is changed is what it holds now.
    with locked(path.with_name("config.lock")):
        read_settings(path)
        document = tomlkit.parse(_text(path))
        change(document)
        replace_file(path, tomlkit.dumps(document).encode())


def assign(document: Any, parts: Sequence[str], value: object) -> None:  # noqa: ANN401 - tomlkit's own type
    """Set a value in nested tables, which are made where they are missing."""
    table = document
    for part in parts[:-1]:
        table = table.setdefault(part, {})
    table[parts[-1]] = value


def remove(document: Any, key: str) -> None:  # noqa: ANN401 - tomlkit's own type
    """Remove a value from nested tables by its dotted key; names of tables may have dots, too."""
    for name, value in list(document.items()):
        if name == key:
            del document[name]
        elif key.startswith(f"{name}.") and isinstance(value, dict):
            remove(value, key[len(name) + 1 :])
