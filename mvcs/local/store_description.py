"""What a store says of itself in `mvcs.json`, and a clone's copy of that, from which it is written anew."""

import json
import pathlib
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from mvcs.checkpoint import DESCRIPTION_FILE
from mvcs.errors import CorruptionError, NotFoundError, StorageError, UnsupportedFormatError
from mvcs.local.records import LocalRecords
from mvcs.refs import check_name
from mvcs.store import Backend, preview_error, probe_exclusive_create

SUBJECT = "store"
FORMAT, FEATURES = 1, ["manifests"]
_PREVIEWS: tuple[list[str], ...] = ([], ["closed"])
DEFAULT_BRANCH = "main"
_MAX_DESCRIPTION = 1 << 16
T = TypeVar("T")


@dataclass(frozen=True)
class Description:
    """What `mvcs.json` says; written once.

    Attributes:
        store_id: names this store; a copy elsewhere gets its own.
        project_id: shared by all clones of a project.
        default_branch: where HEAD starts.
        exclusive: whether racing writers were seen to be kept apart when the store was made.
    """

    store_id: str
    project_id: str
    default_branch: str = DEFAULT_BRANCH
    exclusive: bool = True

    def encode(self) -> bytes:
        """Return the bytes of `mvcs.json`."""
        values = {"format": FORMAT, "features": FEATURES, "store": self.store_id, "project": self.project_id}
        values |= {"default_branch": self.default_branch, "exclusive_create": self.exclusive}
        return (json.dumps(values, indent=2) + "\n").encode()

    @classmethod
    def read(cls, backend: Backend, where: str) -> "Description":
        """Read the description of the store in `backend`, which messages call `where`.

        Raises:
            NotFoundError: there is none.
            CorruptionError: it is damaged.
            UnsupportedFormatError: a newer mvcs made the store.
        """
        return cls.decode(backend.read_small(DESCRIPTION_FILE, _MAX_DESCRIPTION), where)

    @classmethod
    def decode(cls, data: bytes, where: str) -> "Description":
        """Read the bytes of `mvcs.json`.

        Raises:
            CorruptionError: they are damaged.
            UnsupportedFormatError: a newer mvcs made the store.
        """
        try:
            values = _typed(json.loads(data), dict)
            number, features = _typed(values["format"], int), values.get("features")
            if number == FORMAT and features in _PREVIEWS:
                raise preview_error(f"'{where}'")
            if number != FORMAT or _typed(features, list) != FEATURES:
                raise UnsupportedFormatError(
                    f"'{where}' has format {number} with features {features}; "
                    f"this version reads format {FORMAT}",
                    hint="upgrade mvcs; nothing was changed",
                )
            branch = check_name(_typed(values["default_branch"], str))
            exclusive = _typed(values["exclusive_create"], bool)
            return cls(_identifier(values["store"]), _identifier(values["project"]), branch, exclusive)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptionError(
                f"'{where}/{DESCRIPTION_FILE}' is damaged",
                hint="copy it from a clone of the project, or restore it from a backup",
            ) from error


def _typed(value: object, wanted: type[T]) -> T:
    """Return a value of exactly this type: to Python, true is an integer, and to JSON it is not."""
    if type(value) is not wanted:
        raise TypeError(value)
    return value


def _identifier(value: object) -> str:
    text = _typed(value, str)
    if not re.fullmatch("[0-9a-f]{32}", text):
        raise ValueError(text)
    return text


def note_description(local: pathlib.Path | None, description: Description) -> None:
    """Keep a copy of a description in this clone, as far as the disk lets us."""
    records, values = LocalRecords(local), json.loads(description.encode())
    if records.read(SUBJECT) == values:
        return
    with suppress(StorageError), records.change(SUBJECT) as record:
        record.clear()
        record.update(values)


def describe_again(backend: Backend, local: pathlib.Path, *, elsewhere: bool) -> Description:
    """Write the description of a store anew, from this clone's copy, or a new one where there is none.

    Args:
        backend: the store; its description is missing or damaged.
        local: `.mvcs`.
        elsewhere: whether the store lies outside of it.

    Raises:
        NotFoundError: nothing is where the store lay: its disk may not be mounted.
        StorageError: it cannot be written.
    """
    if elsewhere and not any(backend.children(folder) for folder in ("refs", "packs")):
        raise NotFoundError(
            f"there is no store at '{backend.url}'", hint="check its address, and that its disk is mounted"
        )
    description = remembered(local) or Description(
        secrets.token_hex(16), secrets.token_hex(16), exclusive=probe_exclusive_create(backend)
    )
    backend.replace(DESCRIPTION_FILE, description.encode())
    note_description(local, description)
    return description


def remembered(local: pathlib.Path) -> Description | None:
    """Return this clone's copy of its store's description; None where there is none."""
    record = LocalRecords(local).read(SUBJECT)
    try:
        return Description.decode(json.dumps(record).encode(), str(local))
    except (CorruptionError, UnsupportedFormatError):
        return None
