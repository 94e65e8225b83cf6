"""Data that are on record as dropped, are still there, and are of a commit that something keeps by now."""

from contextlib import suppress

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import ObjectId
from mvcs.refs import HEADS, REMOTES, TAGS, RefStore
from mvcs.retention import DataDrops, Layer, Ruling
from mvcs.store import (
    DROPPED_DATA,
    UNREADABLE_ERRORS,
    VALUE_FOLDER,
    Backend,
    has_upgrade,
    pack_name,
    read_footer,
)


def packs_of_kept_data(backend: Backend, head: ObjectId | None, needed: set[str]) -> set[str]:
    """Return the packs, beside those needed, that end a commit which counts as dropped and is kept.

    Args:
        backend: the store.
        head: where HEAD stands.
        needed: names of the packs that commits need; the footers of all others may be read.
    """
    if not has_upgrade(backend, DROPPED_DATA):
        return set()
    wanted, found = _kept(backend, head), set[str]()
    there = set(filter(None, map(pack_name, backend.list(VALUE_FOLDER)))) if wanted else set()
    for name in there - needed:
        with suppress(*UNREADABLE_ERRORS):
            footer = read_footer(backend, name)
            whole = {name, *footer.needed}
            if footer.commits and footer.commits[0].id in wanted and whole <= there:
                found |= whole
    return found


def _kept(backend: Backend, head: ObjectId | None) -> set[ObjectId]:
    """Return the dropped commits that a branch, HEAD or a pin keeps, or a tag where rules keep these."""
    refs, drops = RefStore(backend), DataDrops.of(backend)
    named = {head} if head is not None else set[ObjectId]()
    named |= _targets(refs, HEADS) | _targets(refs, REMOTES)
    try:
        ruling = Ruling.of(backend)
    except (CorruptionError, UnsupportedFormatError):
        return named | _targets(refs, TAGS) | drops.found.keys()  # nobody can tell what is kept
    rules = ruling.of_layer(Layer.DATA)
    if not rules:
        return named | drops.found.keys()  # where no rule is set all is kept
    named |= ruling.pins.keys()
    if any(rule.keeps_tags for rule in rules):
        named |= _targets(refs, TAGS)
    return named if drops.damaged else named & drops.found.keys()


def _targets(refs: RefStore, kind: str) -> set[ObjectId]:
    records = refs.survey(kind).required().values()
    return {record.target for record in records if record.target is not None}
