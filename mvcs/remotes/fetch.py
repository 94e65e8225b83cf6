"""Fetch: commits first, verified; then notes; then where branches and tags stand over there."""

import pathlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mvcs.errors import CorruptionError, MvcsError, NotFoundError, UsageError, some_of
from mvcs.history import Revision
from mvcs.objects import ObjectId
from mvcs.refs import (
    HEADS,
    REMOTES,
    TAGS,
    DamagedRecord,
    RefChange,
    RefRecord,
    RefStore,
    RefSurvey,
    check_name,
    check_tag,
)
from mvcs.remotes.acceptance import Acceptance
from mvcs.remotes.pack_transfer import Sent, TransferSide, damaged_there, follows
from mvcs.remotes.push import MovedRef, TransferTerms, merge_notes
from mvcs.remotes.quarantine import Quarantine
from mvcs.store import UNREADABLE_ERRORS, pack_path


@dataclass(frozen=True)
class FetchResult:
    """What a fetch did.

    Attributes:
        moved: the refs that changed here.
        sent: what was copied.
        problem: why some branches and tags were not taken, or some packs here could not be mended.
        refused: the branches that were not taken.
    """

    moved: list[MovedRef]
    sent: Sent
    problem: MvcsError | None
    refused: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Line:
    """A branch or tag over there, and the commits behind it that no line before it has, parents first."""

    kind: str
    name: str
    record: RefRecord
    new: tuple[Revision, ...]

    @property
    def text(self) -> str:
        return _text(self.kind, self.name)

    @property
    def target(self) -> ObjectId:
        return self.record.target or ObjectId(b"")


def _refuse_without_room(terms: TransferTerms, acceptance: Acceptance, lines: list[_Line]) -> None:
    """See that everything has room before any of it comes; footers are read only where that is in doubt."""
    if terms.room is None or not terms.room.is_near(acceptance.most_owed):
        return
    owed = acceptance.owed(revision for line in lines for revision in line.new)
    if owed and terms.room.is_near(owed):
        raise terms.room.no_room(owed)


def _text(kind: str, name: str) -> str:
    return f"{'tag' if kind == TAGS else 'branch'} '{name}'"


def fetch_refs(
    here: TransferSide, there: TransferSide, remote: str, terms: TransferTerms, folder: pathlib.Path
) -> FetchResult:
    """Take what every branch and tag over there needs, then note where they stand as `REMOTE/BRANCH`.

    Branches and tags that lead to something missing or damaged are left out, and the answer says why.

    Args:
        here: the receiving side.
        there: the other one.
        remote: its name.
        terms: `read_back` hashes every pack here.
        folder: a place on a local disk for packs that nobody believes yet.

    Raises:
        CorruptionError: a name or note over there is none; no ref here was changed.
        StorageError: a store or the disk refused, and the next fetch goes on from there; or there is no room.
    """
    heads, tags = there.refs.survey(HEADS), there.refs.survey(TAGS)
    _check_names(name for survey in (heads, tags) for name in (*survey.whole, *survey.damaged))
    for name, record in tags.whole.items():
        check_tag(name, record)
    known, named = here.history(), here.tips(REMOTES)
    with Quarantine(folder) as quarantine:
        acceptance = Acceptance(here, there, known, quarantine, terms)
        lost = acceptance.mend(verify=terms.read_back)
        lines, problems = _lines(there, {HEADS: heads.whole, TAGS: tags.whole}, known)
        _refuse_without_room(terms, acceptance, lines)
        acceptance.take(revision for line in lines for revision in line.new)
        # A name here stood there already, and what it needs was lost.
        again = [one.id for line in lines if line.record.target in named for one in line.new]
        placed = (here.store.manifests.placement(one) for one in again if one in acceptance.taken)
        acceptance.mended |= {name for one in placed for name in one.packs}.intersection(acceptance.copied)
    good = [line for line in lines if line.record.target in acceptance.taken or line.record.target in known]
    tips = [acceptance.taken[line.record.target] for line in good if line.record.target in acceptance.taken]
    new = {revision.id: revision for revision in reversed(list(here.graph.walk(tips, without=known)))}
    terms.arrived(list(new.values()))
    for kind, survey in ((HEADS, heads), (TAGS, tags)):
        problems |= {_text(kind, name): damaged_there(error) for name, error in survey.damaged.items()}
    notes = merge_notes(there, here, {*known, *new})
    problems |= {name: damaged_there(error) for name, error in notes.items()}
    problems |= {line.text: acceptance.refused[line.target] for line in lines if line not in good}
    moved = [_track(here, remote, line, (known | new)[line.target], terms.author) for line in good]
    moved += [_forget(here.refs, name, terms.author) for name in _gone(heads, here.refs, remote)]
    size = sum(acceptance.copied.values())
    sent = Sent(len(acceptance.copied), size, mended=len(acceptance.mended), revisions=tuple(new.values()))
    refused = {*heads.whole, *heads.damaged} - {line.name for line in good if line.kind == HEADS}
    problem = _problem(here, remote, problems, lost, good)
    return FetchResult([item for item in moved if item], sent, problem, frozenset(refused))


def _lines(
    there: TransferSide, refs: Mapping[str, Mapping[str, RefRecord]], known: Mapping[ObjectId, Revision]
) -> tuple[list[_Line], dict[str, MvcsError]]:
    """Walk from every branch and tag to what is known; return also why some lead nowhere."""
    lines: list[_Line] = []
    problems: dict[str, MvcsError] = {}
    met = set(known)
    for kind, records in refs.items():
        for name, record in records.items():
            line = _Line(kind, name, record, ())
            try:
                new = _walked(there, record, met)
            except UNREADABLE_ERRORS as error:
                problems[line.text] = error
                continue
            met.update(revision.id for revision in new)
            lines.append(_Line(kind, name, record, tuple(reversed(new))))
    return lines, problems


def _walked(there: TransferSide, record: RefRecord, met: set[ObjectId]) -> list[Revision]:
    target = record.target
    if target is None or target in met:
        return []
    return list(there.graph.walk([there.graph.load(target)], without=met))


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        try:
            check_name(name)
        except UsageError as error:
            raise CorruptionError(f"a ref over there is named {name!r}, which no mvcs writes") from error


def _track(here: TransferSide, remote: str, line: _Line, revision: Revision, author: str) -> MovedRef | None:
    """Note where a branch or tag stands over there, also where what was known of the branch is damaged."""
    kind, name = (TAGS, line.name) if line.kind == TAGS else (REMOTES, f"{remote}/{line.name}")
    before = here.refs.top(kind, name)
    damaged = isinstance(before, DamagedRecord)
    old = before.target if isinstance(before, RefRecord) else None
    if (old == line.target and not damaged) or (kind == TAGS and (old is not None or damaged)):
        return None
    change = RefChange(line.target, author, "fetch", line.record.content)
    here.refs.update(kind, name, before, change)
    set_back = old is not None and not follows(here.graph, old, revision.id)
    return MovedRef(kind, name, old, line.target, forced=set_back)


def _gone(heads: RefSurvey, here: RefStore, remote: str) -> list[str]:
    """Return what is known here of branches that were deleted over there; one that is damaged is there."""
    start, known = f"{remote}/", here.survey(REMOTES)
    names = (name for name in (*known.whole, *known.damaged) if name.startswith(start))
    present = {*heads.whole, *heads.damaged}
    return [name for name in names if name[len(start) :] not in present]


def _forget(refs: RefStore, name: str, author: str) -> MovedRef | None:
    before = refs.top(REMOTES, name)
    old = before.target if isinstance(before, RefRecord) else None
    if old is None and not isinstance(before, DamagedRecord):
        return None
    refs.update(REMOTES, name, before, RefChange(None, author, "fetch: deleted over there"))
    return MovedRef(REMOTES, name, old, None)


def _problem(
    here: TransferSide, remote: str, problems: Mapping[str, MvcsError], lost: set[str], good: list[_Line]
) -> MvcsError | None:
    """Say in one error what was not taken and what could not be mended."""
    if problems:
        name, first = next(iter(problems.items()))
        others = f"; nor {', '.join(list(problems)[1:])}" if len(problems) > 1 else ""
        rest = "the others were" if good else "nothing was"
        kind = CorruptionError if isinstance(first, NotFoundError) else type(first)
        return kind(
            f"{name} of '{remote}' was not taken{others}; {rest}: {first.message}",
            hint=first.hint or "run 'mvcs fsck' over there",
        )
    if lost:
        paths = some_of([f"'{pack_path(name)}'" for name in sorted(lost)], 3)
        return CorruptionError(
            f"missing or damaged in '{here.store.backend.url}', and '{remote}' has no whole copy: {paths}",
            hint="'mvcs repair' looks in all remotes, and in packs of other names; "
            "'mvcs fsck' shows what they touch",
        )
    return None
