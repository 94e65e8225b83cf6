"""Settings of a repository: `config.toml`, its keys, their types and defaults."""

import pathlib
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from mvcs.addresses import (
    HARMLESS_OPTIONS,
    holds_secret,
    is_plain,
    may_be_written,
    names_secret,
    tells_secret,
)
from mvcs.errors import CorruptionError, NotFoundError, UsageError, meant
from mvcs.memory import AUTO, parse_size
from mvcs.toml_file import assign, edit_settings, read_settings, remove

Setting = str | int | float | bool

_STORES = ("store", "remote")
CREDENTIALS = "give credentials through the environment or the cloud's own configuration files"


def _text(value: str) -> Setting:
    return value


def _count(low: int, high: int) -> Callable[[str], Setting]:
    def parse(value: str) -> Setting:
        if not re.fullmatch(r"[0-9]{1,9}", value) or not low <= int(value) <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return int(value)

    return parse


def _ratio(value: str) -> Setting:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 1.0 <= number <= 1e6:
        raise ValueError("a number of at least 1")
    return number


def _limit(value: str) -> Setting:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 1e-3 <= number <= 1e3:
        raise ValueError("a number from 0.001 to 1000")
    return number


def _share(value: str) -> Setting:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 1.0:
        raise ValueError("a share from 0 to 1, such as 0.01")
    return number


def _one_of(one: str, other: str) -> Callable[[str], Setting]:
    def parse(value: str) -> Setting:
        if value not in (one, other):
            raise ValueError(f"'{one}' or '{other}'")
        return value

    return parse


def _budget(value: str) -> Setting:
    if value != AUTO and parse_size(value) is None:
        raise ValueError(f"a size such as 500MB or 1.5GiB, or '{AUTO}'")
    return value


def _size(value: str) -> Setting:
    if not parse_size(value):  # nothing at all would be no room for a single commit
        raise ValueError(
            "a size above zero such as 500GB or 1.5TiB ('mvcs config --unset' takes the limit away)"
        )
    return value


def _plain(value: str) -> Setting:
    if value in ("true", "false"):
        return value == "true"
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value


MAX_BYTES = "store.max_bytes"
_SLIP = 0.9
_SHOWN = 80
EMAIL = "an address goes into the name: mvcs config --global user.name 'Ada Lovelace <ada@example.org>'"
MAX_TENSOR_ERROR = 0.7
"""Half of a tensor's squares; twice what the worst weights of runs at the usual step lose."""
DAY_SECONDS = 24 * 3600
# What nobody may come back for is kept so long: a writer may be suspended, and a mistake seen late.
GRACE_DAYS = 14.0
# A collector says what goes so long before it does: no writer sleeps between two requests for a day.
WAIT_DAYS = 1.0

_KEYS: tuple[tuple[str, Callable[[str], Setting], Setting | None], ...] = (
    (r"user\.name", _text, None),
    (r"compaction\.max_depth", _count(0, 1000), 64),
    (r"compaction\.max_restore_seconds", _limit, None),  # for each GB of values; none: any
    (r"compaction\.max_waste", _share, 0.5),  # of a pack of a commit that is gone; 1: any
    (r"compaction\.background", _share, 0.0),  # of a processor, while a run trains; 0: none
    (
        r"commit\.threads",
        _count(0, 64),
        0,
    ),  # of restores, too; 0: one for each core, up to eight; two for states below 150 MB, then one for 50 MB
    (
        r"restore\.max_cost",
        _ratio,
        2.5,
    ),  # of what a snapshot costs; more where deltas save more than they take
    (r"commit\.max_tensor_error", _limit, MAX_TENSOR_ERROR),  # over a tensor's root mean square; 1 is zeros
    (r"delta\.coder", _one_of("auto", "huffman"), "auto"),  # huffman: as published, for codes of one byte
    (r"memory\.budget", _budget, AUTO),  # what a process keeps beside states; auto: three eighths of memory
    (r"retention\.exact_layers", _count(0, 1000), 2),  # 0: none is written
    (r"retention\.exact_coding", _one_of("auto", "always"), "auto"),  # always: also where the disk is faster
    (r"metric\.[^.\s][^\s]*\.goal", _one_of("min", "max"), None),
    (r"store\.url", _text, None),
    (r"store\.max_bytes", _size, None),  # what packs may take in all; a commit that would pass it is refused
    (r"store\.[a-z_]+", _plain, None),
    (r"remote\.[a-z0-9_-]+\.url", _text, None),
    (r"remote\.[a-z0-9_-]+\.[a-z_]+", _plain, None),
)
DEFAULTS: Mapping[str, Setting] = {
    pattern.replace("\\", ""): default for pattern, _, default in _KEYS if default is not None
}


class Config:
    """The settings in one `config.toml`; a missing file means all defaults."""

    def __init__(self, path: pathlib.Path | None, *, mending: bool = False) -> None:
        """Read `path` now; None is a repository without a local side.

        Args:
            path: the file.
            mending: keep what is wrong, to be looked at and changed; `wrong` says of each key what.

        Raises:
            CorruptionError: the file is not TOML, or a value is wrong and is not to be mended.
        """
        self._path = path
        self._load()
        if self.wrong and not mending:
            raise next(iter(self.wrong.values()))

    def _load(self) -> None:
        self._values: dict[str, Setting] = {}
        self.wrong: dict[str, CorruptionError] = {}
        for key, value in ({} if self._path is None else read_settings(self._path)).items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            try:
                self._values[key] = _parser_of(key)(text)
            except ValueError as error:
                self._values[key] = text
                self.wrong[key] = _wrong(f"'{self._path}'", key, text, error)

    def get(self, key: str) -> Setting | None:
        """Return a setting, its default, or None.

        Raises:
            UsageError: there is no such setting.
        """
        _parser_of(key)
        return self._values.get(key, DEFAULTS.get(key))

    def integer(self, key: str) -> int:
        """Return a whole-number setting."""
        return int(self.get(key) or 0)

    def number(self, key: str) -> float:
        """Return a numeric setting."""
        return float(self.get(key) or 0.0)

    def items(self) -> dict[str, Setting]:
        """Return every setting that was made, sorted by key."""
        return dict(sorted(self._values.items()))

    def section(self, prefix: str) -> dict[str, Setting]:
        """Return the settings below `prefix.`, without the prefix."""
        start = f"{prefix}."
        return {key[len(start) :]: value for key, value in self._values.items() if key.startswith(start)}

    def names(self, section: str) -> list[str]:
        """Return the names that occur as `section.NAME.…`, sorted."""
        return sorted({_split(key)[1] for key in self._values if key.startswith(f"{section}.")})

    def set(self, key: str, value: str, *, plain: bool = False) -> None:
        """Change a setting and write the file, keeping its comments.

        Args:
            key: the setting.
            value: as a person types it.
            plain: write an option of a store also when it is not known to be harmless.

        Raises:
            UsageError: no such setting, a value of the wrong type, or a secret.
            StorageError: the file cannot be written.
        """
        parsed = _parsed(key, value, plain=plain)
        self._edit(lambda document: assign(document, _split(key), parsed))

    def connect(self, section: str, url: str, options: Mapping[str, object], *, plain: bool = False) -> None:
        """Write where a store lies and what opening it takes, all of it or nothing.

        Args:
            section: "store", or "remote." and a name.
            url: the address.
            options: arguments of the file system.
            plain: write options also when they are not known to be harmless.

        Raises:
            UsageError: something of it is secret, or nothing that a settings file can hold.
            StorageError: the file cannot be written.
        """
        found = check_connection(section, url, options, plain=plain)

        def change(document: Any) -> None:  # noqa: ANN401 - tomlkit's own type
            for key, value in found.items():
                assign(document, _split(key), value)

        self._edit(change)

    def unset(self, key: str) -> None:
        """Remove a setting.

        Raises:
            NotFoundError: it was not made.
        """
        if key not in self._values:
            raise NotFoundError(f"'{key}' is not set", hint="'mvcs config --list' shows what is")
        self._edit(lambda document: remove(document, key))

    def _edit(self, change: Callable[[Any], None]) -> None:
        if self._path is None:
            raise UsageError(
                "a bare store has no settings of its own", hint="clone it and change them in the clone"
            )
        edit_settings(self._path, change)
        self._load()


def check_connection(
    section: str, url: str, options: Mapping[str, object], *, plain: bool
) -> dict[str, Setting]:
    """Return the settings that say where a store lies.

    Raises:
        UsageError: something of it is secret, or nothing that a settings file can hold.
    """
    found = {f"{section}.url": _parsed(f"{section}.url", url, plain=plain)}
    for name, value in options.items():
        key = f"{section}.{name}"
        if not is_plain(value):
            raise UsageError(
                f"'{key}' is no text, number or truth, which is all that a settings file holds",
                hint="open the store from Python with this option, or set it where the cloud's library looks",
            )
        text = str(value).lower() if isinstance(value, bool) else str(value)
        found[key] = _parsed(key, text, plain=plain)
    return found


def writable_options(options: Mapping[str, object], *, plain: bool) -> dict[str, object]:
    """Return the options of a store that may be written into settings."""
    return {
        name: value
        for name, value in options.items()
        if may_be_written(name, value)
        or (plain and is_plain(value) and not names_secret(name) and not tells_secret(value))
    }


def _parsed(key: str, value: str, *, plain: bool) -> Setting:
    parse = _parser_of(key)
    # Options of a store may have any name; one that is nearly a setting is a slip.
    near = meant(key, [MAX_BYTES], _SLIP) if key != MAX_BYTES else ""
    if near:
        raise UsageError(f"there is no setting '{key}'", hint=near)
    _refuse_secret(key, value, plain=plain)
    try:
        return parse(value)
    except ValueError as error:
        raise UsageError(f"'{key}' needs {error}, not '{value}'") from None


def _refuse_secret(key: str, value: str, *, plain: bool) -> None:
    of_store = key.partition(".")[0] in _STORES
    name = key.rpartition(".")[2]
    is_option = of_store and name != "url" and key != MAX_BYTES
    if holds_secret(value) or (is_option and (names_secret(name) or tells_secret(value))):
        raise UsageError(f"'{key}' would store a secret in a plain file", hint=CREDENTIALS)
    if is_option and name not in HARMLESS_OPTIONS and not plain:
        raise UsageError(
            f"'{key}' is not known to be harmless, and would stand in a plain file",
            hint=f"write it all the same with --plain; for a secret {CREDENTIALS}",
        )


def _split(key: str) -> tuple[str, ...]:
    """Split `section.name.with.dots.field` into section, name, field; or `section.field`."""
    first, _, rest = key.partition(".")
    if first in ("metric", "remote"):
        name, _, last = rest.rpartition(".")
        return first, name, last
    return first, rest


def _parser_of(key: str) -> Callable[[str], Setting]:
    for pattern, parse, _ in _KEYS:
        if re.fullmatch(pattern, key):
            return parse
    if key in ("safe.directory", "safe.protocol"):
        raise UsageError(
            f"'{key}' is a setting of yours alone, not of a repository",
            hint=f"mvcs config --global --add {key} VALUE",
        )
    known = ["user.name", "compaction.max_restore_seconds", *DEFAULTS]
    said = f"settings are {', '.join(known)}, metric.NAME.goal, remote.NAME.url"
    hint = " ".join(filter(None, (meant(key, known), said)))
    raise UsageError(f"no setting is called '{key}'", hint=EMAIL if key == "user.email" else hint)


def _wrong(file: str, key: str, value: str, error: ValueError) -> CorruptionError:
    """Return what is wrong with a setting in a file, with the commands that mend it."""
    unset = f"mvcs config --unset {shlex.quote(key)}"
    if isinstance(error, UsageError):  # there is no such setting
        return CorruptionError(f"{file}: {error.message}", hint=f"'{unset}' removes it; {error.hint}")
    message = f"{file}: '{key}' is '{value[:_SHOWN]}', and needs {error}"
    return CorruptionError(message, hint=f"'mvcs config {key} VALUE' changes it, and '{unset}' removes it")
