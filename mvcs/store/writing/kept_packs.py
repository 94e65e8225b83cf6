"""Entries and packs that may stay as they are, once other packs take the place of what they lean on."""

from mvcs.objects import half
from mvcs.store.packs.entry import Entry
from mvcs.store.packs.footer import Footer
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.writing.chain_limits import RestoreLimits, UsableBases
from mvcs.store.writing.own_objects import OwnObjects


def fits(basing: UsableBases, entry: Entry, length: int) -> bool:
    """Tell whether the bases of an entry are there, and reading it stays within the limits."""
    pairs = zip(entry.bases, entry.lengths, strict=bool(entry.bases))
    near = all(base.chunk is None and basing.usable(base, entry.encoding, size) for base, size in pairs)
    return near and (not entry.bases or basing.affordable(entry, length))


def pack_fits(target: ObjectStore, name: str, footer: Footer, limits: RestoreLimits) -> bool:
    """Tell whether a pack may stay: all of its entries have their bases in it or in a view of the store.

    It is in the view then.
    """
    own = {half(identifier) for placed in footer.entries for identifier in placed.ids}
    bases = {base for placed in footer.entries for base in placed.entry.base_ids}
    if any(base not in own and target.catalog.find(base) is None for base in bases):
        return False
    target.catalog.add(name, footer)
    basing = UsableBases(OwnObjects(target.catalog, exact=False), limits)
    if all(fits(basing, placed.entry, placed.length) for placed in footer.entries):
        return True
    target.catalog.forget([name])
    return False
