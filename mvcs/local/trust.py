"""Whose repositories are obeyed, and which kinds of stores are opened: what only the user himself decides."""

import os
import pathlib
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from mvcs.errors import UsageError
from mvcs.local.user_config import UserConfig
from mvcs.local_files import real_path
from mvcs.store import Backend, check_address, open_backend

TRUSTED_FILE = "config.toml"
PROGRAM = "mvcs"


@dataclass(frozen=True)
class Trust:
    """What the user at hand trusts.

    Attributes:
        settings: the user's own settings; None where there is no place for them.
        owners: user ids whose repositories are his own.
    """

    settings: pathlib.Path | None
    owners: frozenset[int]

    @classmethod
    def of_user(cls, folder: pathlib.Path | None = None, others: Iterable[int] = ()) -> "Trust":
        """Return what the user of this process trusts.

        Args:
            folder: where settings of programs lie; `~/.config` by default.
            others: further user ids that are his, as of who became root for one command.
        """
        if folder is None:
            with suppress(RuntimeError):  # a user without a home
                folder = pathlib.Path.home() / ".config"
        settings = None if folder is None else folder / PROGRAM / TRUSTED_FILE
        return cls(settings, frozenset({os.geteuid(), *others}))

    @cached_property
    def config(self) -> UserConfig:
        """The user's own settings.

        Raises:
            CorruptionError: they cannot be read.
        """
        return UserConfig(self.settings)

    def require_own(self, local: pathlib.Path, *files: str) -> None:
        """Check that `.mvcs` is the user's own, before anything in it is obeyed.

        Args:
            local: `.mvcs`.
            files: names in it that are to be obeyed.

        Raises:
            UsageError: it, or such a file, belongs to somebody else, and nobody said that it may.
        """
        strange = self._strange(local, files)
        if strange is None:
            return
        raise UsageError(
            f"'{strange}' belongs to another user: what it says is not obeyed",
            hint="if you trust it: mvcs config --global --add safe.directory "
            + shlex.quote(str(real_path(local.parent))),
        )

    def owns(self, local: pathlib.Path, *files: str) -> bool:
        """Tell whether `require_own` would pass."""
        return self._strange(local, files) is None

    def _strange(self, local: pathlib.Path, files: Iterable[str]) -> pathlib.Path | None:
        found = next(filter(self._is_strange, (local, *(local / name for name in files))), None)
        return None if found is None or self._is_listed(local.parent) else found

    def _is_strange(self, path: pathlib.Path) -> bool:
        """Tell whether somebody else made a file, a link to it, or what the link leads to."""
        for follow in (False, True):
            with suppress(
                OSError
            ):  # what is not there says nothing, and what cannot be reached cannot be read
                if path.stat(follow_symlinks=follow).st_uid not in self.owners:
                    return True
        return False

    def _is_listed(self, folder: pathlib.Path) -> bool:
        listed = self.config.listed("safe.directory")
        return "*" in listed or real_path(folder) in {real_path(item) for item in listed}

    def opens(self, protocol: str) -> bool:
        """Tell whether the user allowed a kind of store that is not opened by default."""
        return protocol in self.config.listed("safe.protocol")

    def check(self, url: str) -> None:
        """Check what can be known of the address of a store without asking anybody.

        Raises:
            UsageError: `open` would refuse it.
        """
        check_address(url, self.opens)

    def open(self, url: str, options: Mapping[str, object] | None = None) -> Backend:
        """Open the backend for a path or URL, of the kinds that are opened.

        Raises:
            UsageError: it is of another kind, or fsspec does not know it.
            StorageError: the file system cannot be opened.
        """
        return open_backend(url, options, self.opens)
