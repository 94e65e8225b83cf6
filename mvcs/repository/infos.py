"""Commits as people and scripts see them, with what notes add."""

from collections.abc import Iterable

from mvcs.history.graph import Revision
from mvcs.objects.annotations import Note
from mvcs.objects.commit import BOUNDED
from mvcs.objects.ids import ObjectId
from mvcs.policy.exact_layers import is_kept
from mvcs.refs import NOTES, RefStore
from mvcs.repository import reports
from mvcs.repository.reports import CommitInfo, NoteInfo, utc
from mvcs.store.objects import ObjectStore


def notes_of(refs: RefStore, commit: ObjectId) -> list[Note]:
    """Return the notes of a commit, oldest first."""
    name = commit.hex()
    if refs.newest(NOTES, name) is None:
        return []
    return [Note.decode(record.content) for record in refs.history(NOTES, name)][::-1]


def later_metrics(refs: RefStore, commit: ObjectId) -> dict[str, float]:
    """Return the metrics that notes add to a commit; a later note wins."""
    return {name: value for note in notes_of(refs, commit) for name, value in note.metrics}


def note_infos(refs: RefStore, commit: ObjectId) -> list[NoteInfo]:
    """Return the notes of a commit as reports."""
    return [NoteInfo(note.author, utc(note.time), dict(note.metrics)) for note in notes_of(refs, commit)]


def commit_info(
    revision: Revision,
    store: ObjectStore,
    refs: RefStore,
    notes: Iterable[str] = (),
    timings: dict[str, float] | None = None,
) -> CommitInfo:
    """Return a commit as people and scripts see it."""
    commit, written = revision.commit, revision.written
    bounded = commit.exactness == BOUNDED
    measured: float | str = reports.NOT_MEASURED if commit.degradation is None else commit.degradation
    kept = reports.KEPT if bounded and is_kept(store.backend, revision) else reports.DROPPED
    return CommitInfo(
        id=revision.id.hex(),
        parents=[parent.hex() for parent in commit.parents],
        step=commit.step,
        metrics={**dict(commit.metrics), **later_metrics(refs, revision.id)},
        exactness=commit.exactness,
        degradation=measured if bounded else None,
        raw_bytes=written.raw_bytes,
        stored_bytes=written.stored_bytes,
        exact_bytes=written.exact_bytes,
        depth=written.depth,
        message=commit.message,
        author=commit.author,
        time=utc(commit.time),
        lineage_exact=commit.lineage_exact,
        restored_from=commit.restored_from.hex() if commit.restored_from else None,
        exact_layer=kept if bounded else reports.SAME,
        errors={name: dict(sums) for name, sums in commit.errors},
        notes=list(notes),
        timings=timings or {},
        weights_only=commit.weights_only,
    )
