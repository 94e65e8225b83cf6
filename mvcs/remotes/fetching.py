"""Fetch: commits first, verified; then notes; then where branches and tags stand over there."""

import pathlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mvcs.errors import CorruptionError, MvcsError, NotFoundError, UsageError, some_of
from mvcs.history.graph import Revision
from mvcs.objects.ids import ObjectId
from mvcs.refs import HEADS, REMOTES, TAGS, RefRecord, RefStore, check_name
from mvcs.refs.annotating import check_tag
from mvcs.refs.refstore import Change
from mvcs.remotes.exchange import Moved, Terms, merge_notes
from mvcs.remotes.incoming import Incoming
from mvcs.remotes.reception import UNFIT, Reception
from mvcs.remotes.sides import Side
from mvcs.remotes.transfer import Sent
from mvcs.store.catalog import pack_path


@dataclass(frozen=True)
class Received:
    """What a fetch did.

    Attributes:
        moved: the refs that changed here.
        sent: what was copied.
        problem: why some branches and tags were not taken, or some packs here could not be mended.
        refused: the branches that were not taken.
    """

    moved: list[Moved]
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
        return f"{'tag' if self.kind == TAGS else 'branch'} '{self.name}'"


def receive(here: Side, there: Side, remote: str, terms: Terms, folder: pathlib.Path) -> Received:
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
        StorageError: a store or the disk refused; the next fetch goes on from there.
    """
    heads, tags = there.refs.all(HEADS), there.refs.all(TAGS)
    _check_names([*heads, *tags])
    for name, record in tags.items():
        check_tag(name, record)
    known, named = here.history(), here.tips(REMOTES)
    with Incoming(folder) as incoming:
        desk = Reception(here, there, known, incoming, terms.remembered, terms.progress, terms.allow)
        lost = desk.mend(verify=terms.read_back)
        lines, problems = _lines(there, {HEADS: heads, TAGS: tags}, known)
        desk.take(revision for line in lines for revision in line.new)
        # A name here stood there already, and what it needs was lost.
        again = (revision for line in lines if line.record.target in named for revision in line.new)
        desk.mended |= {revision.written.pack for revision in again}.intersection(desk.copied)
    good = [line for line in lines if line.record.target in desk.taken or line.record.target in known]
    tips = [desk.taken[line.record.target] for line in good if line.record.target in desk.taken]
    new = {revision.id: revision for revision in reversed(list(here.graph.walk(tips, without=known)))}
    terms.arrived(list(new.values()))
    merge_notes(there, here, {*known, *new})
    problems |= {
        line.text: desk.refused[line.record.target or ObjectId(b"")] for line in lines if line not in good
    }
    packs = {line: (known | new)[line.record.target or ObjectId(b"")].written.pack for line in good}
    moved = [_track(here.refs, remote, line, packs[line], terms.author) for line in good]
    moved += [_forget(here.refs, name, terms.author) for name in _gone(here.refs, remote, heads)]
    size = sum(desk.copied.values())
    sent = Sent(len(desk.copied), size, mended=len(desk.mended), revisions=tuple(new.values()))
    refused = heads.keys() - {line.name for line in good if line.kind == HEADS}
    problem = _problem(here, remote, problems, lost, good)
    return Received([item for item in moved if item], sent, problem, frozenset(refused))


def _lines(
    there: Side, refs: Mapping[str, Mapping[str, RefRecord]], known: Mapping[ObjectId, Revision]
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
            except UNFIT as error:
                problems[line.text] = error
                continue
            met.update(revision.id for revision in new)
            lines.append(_Line(kind, name, record, tuple(reversed(new))))
    return lines, problems


def _walked(there: Side, record: RefRecord, met: set[ObjectId]) -> list[Revision]:
    target = record.target
    if target is None or target in met:
        return []
    return list(there.graph.walk([there.graph.load(target, record.pack)], without=met))


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        try:
            check_name(name)
        except UsageError as error:
            raise CorruptionError(f"a ref over there is named {name!r}, which no mvcs writes") from error


def _track(refs: RefStore, remote: str, line: _Line, pack: str, author: str) -> Moved | None:
    kind, name = (TAGS, line.name) if line.kind == TAGS else (REMOTES, f"{remote}/{line.name}")
    before = refs.newest(kind, name)
    old = before.target if before else None
    record = line.record
    if old == record.target or (kind == TAGS and old is not None):
        return None
    refs.update(kind, name, before, Change(record.target, pack, author, "fetch", record.content))
    return Moved(kind, name, old, record.target)


def _gone(refs: RefStore, remote: str, heads: Mapping[str, RefRecord]) -> list[str]:
    start = f"{remote}/"
    return [
        name for name in refs.names(REMOTES) if name.startswith(start) and name[len(start) :] not in heads
    ]


def _forget(refs: RefStore, name: str, author: str) -> Moved | None:
    before = refs.newest(REMOTES, name)
    if before is None or before.target is None:
        return None
    refs.update(REMOTES, name, before, Change(None, None, author, "fetch: deleted over there"))
    return Moved(REMOTES, name, before.target, None)


def _problem(
    here: Side, remote: str, problems: Mapping[str, MvcsError], lost: set[str], good: list[_Line]
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
            hint="fetch from another remote that has them; 'mvcs fsck' shows what they touch",
        )
    return None
