"""Prints as JSON what the second reader finds in stores: `python read_stores.py STORE...`, on any machine.

It needs numpy, zstandard and blake3, or what stands in for that; nothing of mvcs.
"""

import json
import pathlib
import sys

from tests.golden.history import digest
from tests.reference.reader import Store
from tests.reference.reader_payloads import MissingError


def restored(store: Store, commit: bytes, *, exact: bool) -> str | None:
    """Return the digest of what a commit restores to, or None where that layer was dropped."""
    try:
        return digest(store.state(commit, exact=exact))
    except MissingError:
        return None


def found(place: pathlib.Path) -> dict[str, object]:
    """Decode every entry of a store, restore every commit from both layers."""
    store = Store(place)
    leaves = [leaf for commit in store.history() for leaf in store.tree(commit)[1]]
    return {
        "damaged": len(store.damaged),
        "encodings": sorted(store.scan()),
        "forms": sorted({leaf.quantized.form for leaf in leaves if leaf.quantized}),
        "commits": {
            commit.hex(): [restored(store, commit, exact=exact) for exact in (False, True)]
            for commit in store.history()
        },
    }


if __name__ == "__main__":
    machine = {"byteorder": sys.byteorder, "python": sys.version.split()[0]}
    print(json.dumps(machine | {"stores": {place: found(pathlib.Path(place)) for place in sys.argv[1:]}}))  # noqa: T201
