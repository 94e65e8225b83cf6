"""One numbered record of a ref: what the name pointed at from one change to the next."""

import secrets
from dataclasses import dataclass, field

import blake3

from mvcs.errors import CorruptionError, UsageError
from mvcs.objects import (
    MAX_NUMBER,
    Note,
    ObjectId,
    Tag,
    as_bytes,
    as_id,
    as_integer,
    as_list,
    as_text,
    cbor,
    record_name,
    seal,
    unseal,
)
from mvcs.store import preview_error

MAX_RECORD = 1 << 20
_MAGIC = b"MVCSREF1"
WRITE_ID = 16
_PREVIEW_ITEMS = 9  # with the name of a pack


def digest_of(data: bytes) -> bytes:
    """Return the BLAKE3 of the bytes of a record file."""
    return blake3.blake3(data).digest()


@dataclass(frozen=True)
class RefChange:
    """What a new record should say.

    Attributes:
        target: the new target; None deletes the name.
        author: who changes it.
        action: what is done, for the reflog.
        content: canonical bytes of a tag or note object.
        exact: packs of exact layers that the writer stored or sent for the target, and counts on.
    """

    target: ObjectId | None
    author: str
    action: str
    content: bytes = b""
    exact: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RefRecord:
    """A record as stored under `refs/KIND/NAME/KEY`.

    Attributes:
        number: 0 for the first record of a name; never reused.
        target: the commit (or note) the name points at; None when the name was deleted.
        previous: BLAKE3 of the bytes of the record before; None for number 0.
        time: microseconds since 1970-01-01 UTC, for people.
        author: who changed the ref.
        action: what was done, such as "commit: warm-up done".
        content: canonical bytes of a tag or note object that travels in the record; empty for branches.
        write_id: 16 random bytes by which a writer knows its own record after a lost reply.
    """

    number: int
    target: ObjectId | None
    previous: bytes | None
    time: int
    author: str
    action: str
    content: bytes = b""
    write_id: bytes = field(default_factory=lambda: secrets.token_bytes(WRITE_ID))

    @property
    def key(self) -> str:
        """The file name."""
        return record_name(self.number)

    def encode(self) -> bytes:
        """Return the bytes of the file.

        Raises:
            UsageError: it would be larger than a reader accepts.
        """
        values: list[cbor.Value] = [
            self.number,
            self.target,
            self.previous,
            self.time,
            self.author,
            self.action,
        ]
        data = seal(_MAGIC, [*values, self.content, self.write_id])
        if len(data) > MAX_RECORD or self.number > MAX_NUMBER:
            raise UsageError(
                f"record {self.number} of a ref would have {len(data)} bytes; {MAX_RECORD} are allowed",
                hint="shorten the message",
            )
        return data

    @property
    def digest(self) -> bytes:
        """BLAKE3 of the file, which the next record holds as `previous`."""
        return digest_of(self.encode())

    @classmethod
    def decode(cls, data: bytes) -> "RefRecord":
        """Read the bytes of a record file.

        Raises:
            CorruptionError: they are damaged.
            UnsupportedFormatError: another version wrote them.
        """
        values = as_list(unseal(_MAGIC, data, "a ref record", MAX_RECORD), "a ref record")
        if len(values) == _PREVIEW_ITEMS:
            raise preview_error("a ref record")
        number, target, previous, time, author, action, content, write_id = as_list(values, "a ref record", 8)
        if (number == 0) != (previous is None) or len(as_bytes(write_id, "a record's write id")) != WRITE_ID:
            raise CorruptionError("its number, what it follows, or its write id is impossible")
        return cls(
            as_integer(number, "a record's number", 0, MAX_NUMBER + 1),
            None if target is None else as_id(target),
            None if previous is None else as_id(previous),
            as_integer(time, "a record's time", -(1 << 62), 1 << 62),
            as_text(author, "a record's author"),
            as_text(action, "a record's action"),
            as_bytes(content, "a record's object"),
            as_bytes(write_id, "a record's write id"),
        )


def check_tag(name: str, record: RefRecord) -> None:
    """Check the tag a record carries.

    Raises:
        CorruptionError: it is no tag, or tags another commit.
    """
    if Tag.decode(record.content).target != record.target:
        raise CorruptionError(f"the tag '{name}' is not what its record names")


def check_note(name: str, record: RefRecord) -> None:
    """Check the note a record carries; `name` is the commit it speaks of, in hexadecimal.

    Raises:
        CorruptionError: it is no note, another one, or speaks of another commit.
    """
    note = Note.decode(record.content)
    if note.id != record.target or note.target.hex() != name:
        raise CorruptionError(f"a note on commit {name[:12]} is not what its record names")
