"""A user's own settings, for all his repositories; none of them can a repository make for him."""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from mvcs.addresses import HIDDEN, holds_secret, names_secret, tells_secret, without_secrets
from mvcs.config import CREDENTIALS, EMAIL
from mvcs.errors import CorruptionError, NotFoundError, StorageError, UsageError
from mvcs.local_files import real_path
from mvcs.toml_file import assign, edit_settings, flat, read_settings, remove


class UserConfig:
    """What stands in the settings of one user."""

    TEXTS = ("user.name",)
    LISTS = ("safe.directory", "safe.protocol")

    def __init__(self, path: pathlib.Path | None) -> None:
        """Read `path` now; None is a user without a place for settings.

        Raises:
            CorruptionError: the file is not TOML, or a value has the wrong type.
        """
        self._path = path
        self._values = {} if path is None else self._checked(path, read_settings(path))

    def get(self, key: str) -> str | None:
        """Return a setting of one text, or None."""
        values = self._values.get(self._known(key), ())
        return values[0] if values and key in self.TEXTS else None

    def listed(self, key: str) -> tuple[str, ...]:
        """Return all values of a setting."""
        return self._values.get(self._known(key), ())

    def items(self) -> dict[str, str | list[str]]:
        """Return every setting that was made, sorted by key."""
        return {
            key: values[0] if key in self.TEXTS else list(values)
            for key, values in sorted(self._values.items())
        }

    def set(self, key: str, value: str, *, add: bool = False) -> None:
        """Change a setting; with `add` one more value of those it has.

        Raises:
            UsageError: no such setting, one that has no list of values, or a secret.
            StorageError: the file cannot be written.
        """
        self._known(key)
        if add and key not in self.LISTS:
            raise UsageError(f"'{key}' has one value", hint=f"mvcs config --global {key} VALUE")
        if holds_secret(value):
            raise UsageError(f"'{key}' would store a secret in a plain file", hint=CREDENTIALS)
        if key == "safe.directory" and value != "*":
            value = str(real_path(pathlib.Path(value).expanduser()))
        self._write(key, lambda old: list(dict.fromkeys([*old, value])) if add else [value])

    def unset(self, key: str) -> None:
        """Remove a setting with all its values.

        Raises:
            NotFoundError: it was not made.
        """
        if not self.listed(key):
            raise NotFoundError(f"'{key}' is not set", hint="'mvcs config --global --list' shows what is")
        self._write(key, lambda _: [])

    def _known(self, key: str) -> str:
        if key not in (*self.TEXTS, *self.LISTS):
            hint = f"settings for all your repositories are {', '.join((*self.TEXTS, *self.LISTS))}"
            raise UsageError(
                f"no setting of yours alone is called '{key}'", hint=EMAIL if key == "user.email" else hint
            )
        return key

    def _write(self, key: str, changed: Callable[[tuple[str, ...]], list[str]]) -> None:
        path = self._path
        if path is None:
            raise UsageError("there is no place for settings of yours", hint="set HOME or XDG_CONFIG_HOME")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot make '{path.parent}': {error.strerror}") from error

        def change(document: Any) -> None:  # noqa: ANN401 - tomlkit's own type
            old = self._checked(path, flat(document.unwrap()))
            if values := changed(old.get(key, ())):
                assign(document, key.split("."), values[0] if key in self.TEXTS else values)
            else:
                remove(document, key)

        edit_settings(path, change)
        self._values = self._checked(path, read_settings(path))

    def _checked(self, path: pathlib.Path, document: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for key, value in document.items():
            values = tuple(value) if isinstance(value, list) else (value,)
            known = key in self.TEXTS or key in self.LISTS
            single = key in self.LISTS or not isinstance(value, list)
            if not known or not single or not all(isinstance(item, str) for item in values):
                raise CorruptionError(
                    f"'{path}': '{key}' is no setting of a user", hint="mend the file by hand"
                )
            found[key] = values
        return found


def shown_setting(key: str, value: Any) -> Any:  # noqa: ANN401 - text, number or boolean
    """Return a value without the secrets that a person wrote into the file by hand."""
    name = key.rpartition(".")[2]
    is_option = key.startswith(("store.", "remote.")) and name != "url"
    if is_option and (names_secret(name) or tells_secret(value)):
        return HIDDEN
    return without_secrets(value) if isinstance(value, str) else value
