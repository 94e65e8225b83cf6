"""Tags and notes that travel inside ref records: is what a record carries what it names?"""

from mvcs.errors import CorruptionError
from mvcs.objects import Note, Tag
from mvcs.refs.record import RefRecord


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
