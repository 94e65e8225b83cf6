"""The notes of commits, and the metrics that they add."""

from collections.abc import Callable

from mvcs.objects import Note, ObjectId, short_id
from mvcs.refs.record import RefRecord
from mvcs.refs.refstore import NOTES, RefStore


def notes_of(refs: RefStore, commit: ObjectId, tell: Callable[[str], None] = lambda _: None) -> list[Note]:
    """Return the notes of a commit, oldest first; `tell` hears of those that are damaged."""
    notes = []
    for found in refs.row(NOTES, commit.hex()):
        if isinstance(found, RefRecord):
            notes.append(Note.decode(found.content))
        elif not found.passed_over:
            tell(f"a note on {short_id(commit)} is left out: {found.error.message}")
    return notes[::-1]


def later_metrics(
    refs: RefStore, commit: ObjectId, tell: Callable[[str], None] = lambda _: None
) -> dict[str, float]:
    """Return the metrics that notes add to a commit; a later note wins, `tell` hears of damaged ones."""
    return {name: value for note in notes_of(refs, commit, tell) for name, value in note.metrics}
