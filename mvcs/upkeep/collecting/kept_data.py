"""Data that are on record as dropped, are still there, and are of a commit that something keeps by now."""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import ObjectId
from mvcs.refs import HEADS, REMOTES, TAGS, RefStore
from mvcs.retention import DataDrops, Layer, Ruling
from mvcs.store import (
    DROPPED_DATA,
    MOVED_BASES,
    PARALLEL_READERS,
    UNREADABLE_ERRORS,
    Backend,
    has_upgrade,
    read_footer,
    value_packs,
)
from mvcs.upkeep.collecting.known_history import KnownHistory


def packs_of_kept_data(
    backend: Backend, head: ObjectId | None, bare: Collection[ObjectId], known: KnownHistory
) -> set[str]:
    """Return the packs that end a commit which counts as dropped and is kept, and what these name.

    Some of them may be needed for other commits already, and what they name may not.

    Args:
        backend: the store.
        head: where HEAD stands.
        bare: commits of which nothing tells the pack that counts: all that end them are among the packs.
        known: what need not be read again.
    """
    if not has_upgrade(backend, MOVED_BASES):
        return set()
    wanted = {*bare, *_kept(backend, head)}
    there = value_packs(backend) if wanted else set()
    with ThreadPoolExecutor(PARALLEL_READERS) as pool:
        told = pool.map(partial(_told, backend, known), there)
        whole = (names for commit, names in told if commit in wanted and names <= there)
        return set[str]().union(*whole)


def _told(backend: Backend, known: KnownHistory, pack: str) -> tuple[ObjectId | None, set[str]]:
    """Return which commit a pack ends, and all packs that reading it needs; None where it ends none."""
    line = known.lines.get(pack)
    if line is not None:
        return line.commit, {pack, *line.needed}
    with suppress(*UNREADABLE_ERRORS):
        footer = read_footer(backend, pack)
        if footer.commits:
            return footer.commits[0].id, {pack, *footer.needed}
    return None, set()


def _kept(backend: Backend, head: ObjectId | None) -> Collection[ObjectId]:
    """Return the dropped commits that a branch, HEAD or a pin keeps, or a tag where rules keep these."""
    if not has_upgrade(backend, DROPPED_DATA):
        return set()
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
