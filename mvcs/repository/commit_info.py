"""Commits as people and scripts see them, with what notes add."""

from collections.abc import Callable, Iterable, Mapping

from mvcs.commits import FIRST_MOMENT, NAMED_CLASSES, WORST_CLASS, WORST_MOMENT_CLASS
from mvcs.history import Revision
from mvcs.objects import BOUNDED, NOT_EVALUATED, RUN_KEY, Commit, ObjectId
from mvcs.quantize import LEFT_OUT
from mvcs.refs import RefStore, notes_of
from mvcs.reports import DROPPED, KEPT, NOT_MEASURED, SAME, CommitInfo, NoteInfo, TensorError, as_utc
from mvcs.retention import has_exact_layer
from mvcs.store import ObjectStore


def note_infos(
    refs: RefStore, commit: ObjectId, tell: Callable[[str], None] = lambda _: None
) -> list[NoteInfo]:
    """Return the notes of a commit as reports."""
    return [
        NoteInfo(note.author, as_utc(note.time), dict(note.metrics)) for note in notes_of(refs, commit, tell)
    ]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def commit_info(
    revision: Revision,
    store: ObjectStore,
    later: Mapping[str, float],
    notes: Iterable[str] = (),
    timings: dict[str, float] | None = None,
) -> CommitInfo:
    """Return a commit as people and scripts see it, with the metrics that notes add `later`."""
    commit, written = revision.commit, revision.written
    bounded = commit.exactness == BOUNDED
    measured: float | str = NOT_MEASURED if commit.degradation is None else commit.degradation
    kept = KEPT if bounded and has_exact_layer(store.backend, revision) else DROPPED
    return CommitInfo(
        id=revision.id.hex(),
        parents=[parent.hex() for parent in commit.parents],
        step=commit.step,
        metrics={**dict(commit.metrics), **later},
        exactness=commit.exactness,
        degradation=measured if bounded else None,
        raw_bytes=written.raw_bytes,
        stored_bytes=written.stored_bytes,
        exact_bytes=written.exact_bytes,
        message=commit.message,
        author=commit.author,
        time=as_utc(commit.time),
        lineage_exact=commit.lineage_exact,
        restored_from=commit.restored_from.hex() if commit.restored_from else None,
        exact_layer=kept if bounded else SAME,
        errors={name: dict(sums) for name, sums in commit.errors if name not in NAMED_CLASSES},
        worst=_worst(commit, WORST_CLASS),
        worst_moment=_worst(commit, WORST_MOMENT_CLASS),
        left_out=_left_out(commit),
        notes=list(notes),
        timings=timings or {},
        weights_only=commit.weights_only,
        run=_text(dict(commit.provenance).get(RUN_KEY)),
        not_evaluated=_text(dict(commit.provenance).get(NOT_EVALUATED)),
    )


def _worst(commit: Commit, kind: str) -> TensorError | None:
    found = dict(commit.errors).get(kind)
    return TensorError(*found[0]) if found else None


def _left_out(commit: Commit) -> list[str]:
    """Return the classes whose values are left out on purpose."""
    shared = dict(commit.quantizer or ()).get("first") in tuple(LEFT_OUT)
    left_out = shared or "light" in commit.moment_tiers.values()
    return [FIRST_MOMENT] if left_out and FIRST_MOMENT in dict(commit.errors) else []
