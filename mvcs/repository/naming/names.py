"""Branches, tags, notes and the reflog: everything that gives commits names or says more of them."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from mvcs.errors import ConflictError, CorruptionError, NotFoundError, UsageError
from mvcs.history.graph import Revision
from mvcs.local.head import HEAD
from mvcs.objects.annotations import Note, Tag
from mvcs.objects.commit import BOUNDED
from mvcs.objects.ids import ObjectId, short
from mvcs.refs import HEADS, NOTES, REMOTES, TAGS, DamagedRecord, RefRecord, check_name
from mvcs.refs.refstore import Change, missing, now
from mvcs.reports.refs import BranchInfo, ReflogEntry, TagInfo
from mvcs.reports.values import utc
from mvcs.repository import upstreams
from mvcs.repository.head_moves import trail
from mvcs.repository.session import UNREADABLE, Session
from mvcs.retention.exact_layers import is_kept


def branches(
    session: Session,
    patterns: Collection[str] = (),
    *,
    local: bool = True,
    remote: bool = False,
    details: bool = False,
) -> list[BranchInfo]:
    """Return branches, sorted by name; where HEAD is damaged none of them is the current one.

    Args:
        session: the repository.
        patterns: only those whose names match one, such as `run-*`.
        local: those of this repository.
        remote: those of remotes, as last seen, behind them.
        details: with what their commits say, what they follow, and how far both are apart.
    """
    try:
        current = session.branch
    except CorruptionError:
        current = None
    kinds = [kind for kind, wanted in ((HEADS, local), (REMOTES, remote)) if wanted]
    found = [
        (BranchInfo(name, _hex(record), kind == HEADS and name == current, remote=kind == REMOTES), record)
        for kind in kinds
        for name, record in session.refs.survey(kind).told(session.progress.note).items()
        if matches(name, patterns)
    ]
    return [_described(session, branch, record) if details else branch for branch, record in found]


def _described(session: Session, branch: BranchInfo, record: RefRecord) -> BranchInfo:
    """Add to a branch what its commit says, what it follows, and how far both are apart."""
    try:
        tip = session.graph.load(record.target or ObjectId(b""), record.pack)
    except UNREADABLE as error:
        session.progress.note(f"the commit of '{branch.name}' cannot be read: {error.message}")
        return branch
    if branch.remote:
        return replace(branch, message=tip.commit.message)
    upstream = upstreams.upstream_of(session, branch.name)
    ahead, behind = upstreams.standing(session, branch.name, tip) or (None, None)
    name = None if upstream is None else upstream.name
    return replace(branch, message=tip.commit.message, upstream=name, ahead=ahead, behind=behind)


def create_branch(session: Session, name: str, revision: Revision, action: str = "branch: created") -> None:
    """Make a branch.

    Raises:
        ConflictError: it exists.
        UsageError: the name will not do.
    """
    _check_new_name(session, HEADS, name)
    change = Change(revision.id, revision.written.pack, session.author, action)
    session.refs.update(HEADS, name, session.branch_record(name), change)


def start_branch(session: Session, name: str, rev: str) -> None:
    """Make a branch at a revision; where that is a branch of a remote, it follows it.

    Raises:
        ConflictError: it exists.
        UsageError: the name will not do.
    """
    create_branch(session, name, session.resolve(rev))
    is_here = any(session.refs.read(kind, rev) is not None for kind in (HEADS, TAGS)) if "/" in rev else True
    if not is_here and session.refs.read(REMOTES, rev) is not None:
        upstreams.follow(session, name, rev)


def note_dropped(session: Session, name: str, revision: Revision) -> None:
    """Say that what was given a name restores as quantized values alone, where its exact layer is gone."""
    if revision.commit.exactness == BOUNDED and not is_kept(session.store.backend, revision):
        session.progress.note(
            f"the exact layer of {short(revision.id)} is not stored here: '{name}' names its quantized values"
        )


def set_upstream(session: Session, branch: str, upstream: str | None) -> None:
    """Have a branch follow one of a remote; None for nothing that was said.

    Raises:
        NotFoundError: there is no such branch, or no such remote.
    """
    if session.refs.read(HEADS, branch) is None:
        raise missing(HEADS, branch)
    if upstream is None:
        upstreams.unfollow(session, branch)
    else:
        upstreams.require_seen(session, upstream)
        upstreams.follow(session, branch, upstream)


def delete_branch(session: Session, name: str, *, force: bool) -> None:
    """Delete a branch; its reflog stays.

    Raises:
        NotFoundError: there is none.
        ConflictError: it is the current one, or no other branch or tag holds its commits, as far as is known.
    """
    record = _required(session, HEADS, name)
    if name == session.branch:
        raise ConflictError(f"'{name}' is the current branch", hint="switch to another one first")
    if not force:
        _refuse_to_lose(session, name, record)
    change = Change(None, None, session.author, "branch: deleted")
    session.refs.update(HEADS, name, record, change)
    upstreams.unfollow(session, name)


def _required(session: Session, kind: str, name: str) -> RefRecord | DamagedRecord:
    """Return the newest record of a name that is there, damaged or not, for whoever deletes it."""
    record = session.refs.top(kind, name)
    if record is None or (isinstance(record, RefRecord) and record.target is None):
        raise missing(kind, name)
    return record


def _refuse_to_lose(session: Session, name: str, record: RefRecord | DamagedRecord) -> None:
    hint = f"delete it all the same with 'mvcs branch -D {name}'"
    if isinstance(record, DamagedRecord):
        raise ConflictError(f"where '{name}' stood cannot be read: {record.error.message}", hint=hint)
    if record.target is not None and not _held_elsewhere(session, name, record.target):
        raise ConflictError(f"no other branch or tag holds the commits of '{name}'", hint=hint)


def _held_elsewhere(session: Session, name: str, target: ObjectId) -> bool:
    for kind in (HEADS, TAGS, REMOTES):
        for other, record in session.refs.survey(kind).whole.items():
            if (kind, other) == (HEADS, name) or record.target is None:
                continue
            if session.graph.is_ancestor(target, session.graph.load(record.target, record.pack)):
                return True
    return False


def rename_branch(session: Session, old: str, new: str) -> None:
    """Give a branch another name; HEAD and what it follows go along.

    What was interrupted on the way is finished when it is asked for again.

    Raises:
        NotFoundError: there is no such branch.
        ConflictError: there is another branch of the new name.
    """
    record = session.refs.read(HEADS, old)
    if record is None or record.target is None:
        raise missing(HEADS, old)
    if old == new:
        return
    current = session.branch
    action = f"branch: renamed from {old}"
    made = session.refs.read(HEADS, new)
    if made is None or (made.action, made.target) != (action, record.target):
        create_branch(session, new, session.graph.load(record.target, record.pack), action)
    if current == old:
        session.set_head(f"ref: {new}", f"branch: renamed {old} to {new}")
    upstreams.rename(session, old, new)
    session.refs.update(HEADS, old, record, Change(None, None, session.author, f"branch: renamed to {new}"))


def matches(name: str, patterns: Collection[str]) -> bool:
    """Tell whether a name matches one of some patterns; where there are none, every name does."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def tags(session: Session, patterns: Collection[str] = ()) -> list[TagInfo]:
    """Return tags, sorted by name: all of them, or those that match a pattern."""
    found = []
    for name, record in session.refs.survey(TAGS).told(session.progress.note).items():
        if not matches(name, patterns):
            continue
        tag = Tag.decode(record.content)
        found.append(TagInfo(name, tag.target.hex(), tag.message, tag.author, utc(tag.time)))
    return found


def create_tag(session: Session, name: str, revision: Revision, message: str) -> None:
    """Name a commit for good.

    Raises:
        ConflictError: the tag exists; tags do not move.
        UsageError: the name will not do.
    """
    _check_new_name(session, TAGS, name)
    tag = Tag(revision.id, session.author, now(), message)
    change = Change(revision.id, revision.written.pack, session.author, "tag: created", tag.encode())
    session.refs.update(TAGS, name, session.refs.newest(TAGS, name), change)


def delete_tag(session: Session, name: str) -> None:
    """Delete a tag.

    Raises:
        NotFoundError: there is none.
    """
    record = _required(session, TAGS, name)
    session.refs.update(TAGS, name, record, Change(None, None, session.author, "tag: deleted"))


def add_note(session: Session, revision: Revision, metrics: Mapping[str, float]) -> None:
    """Add metrics to a commit; what was said before stays, the newest value of a name wins.

    Raises:
        UsageError: there is no metric.
    """
    if not metrics:
        raise UsageError("a note needs at least one metric", hint="mvcs note REV --metric NAME=VALUE")
    pairs = tuple((name, float(value)) for name, value in metrics.items())
    note = Note(revision.id, pairs, session.author, now())
    change = Change(note.id, None, session.author, "note: " + ", ".join(metrics), note.encode())
    session.refs.append(NOTES, revision.id.hex(), change)


def reflog(session: Session, name: str | None) -> list[ReflogEntry]:
    """Return the changes of a branch, or where HEAD has been, newest first; damaged ones stand among them.

    Args:
        session: the repository.
        name: the branch, or `HEAD`; by default the branch HEAD is on, if there is one.

    Raises:
        NotFoundError: the branch never existed, or nothing is known of HEAD.
    """
    ref = name or session.branch or HEAD
    records = trail(session) if ref == HEAD else session.refs.row(HEADS, ref)
    entries = [_entry(back, record) for back, record in enumerate(records)]
    if not entries and ref == HEAD:
        raise NotFoundError("where HEAD was is not known", hint="name a branch: mvcs reflog BRANCH")
    if not entries:
        raise missing(HEADS, ref)
    return entries


def _entry(back: int, record: RefRecord | DamagedRecord) -> ReflogEntry:
    if isinstance(record, DamagedRecord):
        return ReflogEntry(back, None, None, "", "", damage=record.error.message)
    target = record.target.hex() if record.target else None
    return ReflogEntry(back, target, utc(record.time), record.author, record.action)


def decorations(session: Session) -> dict[str, list[str]]:
    """Return for each commit that has them the names to show beside it, HEAD first."""
    names: dict[str, list[str]] = {}
    current, tell = session.branch, session.progress.note
    if current is None:
        names.setdefault(session.head_text, []).append("HEAD")
    for name, record in session.refs.survey(HEADS).told(tell).items():
        shown = f"HEAD -> {name}" if name == current else name
        row = names.setdefault(_hex(record), [])
        row.insert(0 if name == current else len(row), shown)
    for name, record in session.refs.survey(TAGS).told(tell).items():
        names.setdefault(_hex(record), []).append(f"tag: {name}")
    for name, record in session.refs.survey(REMOTES).told(tell).items():
        names.setdefault(_hex(record), []).append(name)
    return names


def _hex(record: RefRecord) -> str:
    return record.target.hex() if record.target else ""


def _check_new_name(session: Session, kind: str, name: str) -> None:
    check_name(name)
    found = session.refs.top(kind, name)
    if isinstance(found, DamagedRecord) or (found is not None and found.target is not None):
        noun = "branch" if kind == HEADS else "tag"
        raise ConflictError(
            f"{noun} '{name}' exists", hint=f"choose another name, or delete it with 'mvcs {noun} -d {name}'"
        )
