"""Verbs that give commits names or say more of them: tags, notes, the reflog."""

from collections.abc import Collection, Mapping

from mvcs.errors import UsageError
from mvcs.local import HEAD
from mvcs.objects import Note, Tag
from mvcs.refs import HEADS, NOTES, REMOTES, TAGS, RefChange, now_microseconds
from mvcs.reports import CommitInfo, NoteInfo, ReflogEntry, TagInfo, as_utc
from mvcs.repository.ref_names import check_new, matches, note_dropped, record_to_delete
from mvcs.repository.session import note_infos
from mvcs.repository.verbs.base import Verbs, target_text


class Naming(Verbs):
    """Verbs that name commits."""

    def tags(self, patterns: Collection[str] = ()) -> list[TagInfo]:
        """Return all tags, or those whose names match one of the patterns, such as `v1.*`."""
        session = self._session
        records = session.refs.survey(TAGS).told(session.progress.note)
        tags = [
            (name, Tag.decode(record.content)) for name, record in records.items() if matches(name, patterns)
        ]
        return [
            TagInfo(name, tag.target.hex(), tag.message, tag.author, as_utc(tag.time)) for name, tag in tags
        ]

    def create_tag(self, name: str, rev: str = "HEAD", message: str = "") -> None:
        """Name a commit for good."""
        session = self._session
        revision = session.resolver.resolve(rev)
        check_new(session, TAGS, name)
        tag = Tag(revision.id, session.author, now_microseconds(), message)
        change = RefChange(revision.id, revision.written.pack, session.author, "tag: created", tag.encode())
        session.refs.update(TAGS, name, session.refs.newest(TAGS, name), change)
        note_dropped(session, name, revision)

    def delete_tag(self, name: str) -> None:
        """Delete a tag."""
        record = record_to_delete(self._session, TAGS, name)
        change = RefChange(None, None, self._session.author, "tag: deleted")
        self._session.refs.update(TAGS, name, record, change)

    def note(self, rev: str, metrics: Mapping[str, float]) -> CommitInfo:
        """Add metrics to a commit after it was made."""
        session = self._session
        revision = session.resolver.resolve(rev)
        if not metrics:
            raise UsageError("a note needs at least one metric", hint="mvcs note REV --metric NAME=VALUE")
        pairs = tuple((name, float(value)) for name, value in metrics.items())
        note = Note(revision.id, pairs, session.author, now_microseconds())
        change = RefChange(note.id, None, session.author, "note: " + ", ".join(metrics), note.encode())
        session.refs.append(NOTES, revision.id.hex(), change)
        session.indexing.record(revision)
        return session.info(revision)

    def notes(self, rev: str = "HEAD") -> list[NoteInfo]:
        """Return what was added to a commit later."""
        session = self._session
        return note_infos(session.refs, session.resolver.resolve(rev).id, session.progress.note)

    def reflog(self, name: str | None = None) -> list[ReflogEntry]:
        """Return the changes of a branch, newest first."""
        from mvcs.repository.head_moves import moves_of

        return moves_of(self._session, name or self._session.branch or HEAD)

    def decorations(self) -> dict[str, list[str]]:
        """Return for each commit that has them the names to show beside it."""
        session = self._session
        names: dict[str, list[str]] = {}
        current, tell = session.branch, session.progress.note
        if current is None:
            names.setdefault(session.head_text, []).append("HEAD")
        for name, record in session.refs.survey(HEADS).told(tell).items():
            shown = f"HEAD -> {name}" if name == current else name
            row = names.setdefault(target_text(record), [])
            row.insert(0 if name == current else len(row), shown)
        for name, record in session.refs.survey(TAGS).told(tell).items():
            names.setdefault(target_text(record), []).append(f"tag: {name}")
        for name, record in session.refs.survey(REMOTES).told(tell).items():
            names.setdefault(target_text(record), []).append(name)
        return names
