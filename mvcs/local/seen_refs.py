"""The newest record of each ref that any process of this clone saw, in `.mvcs/local/seen.json`."""

import pathlib
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any

from mvcs.local.records import RECORDS_FOLDER, LocalRecords
from mvcs.refs import RefRecord, RolledBackError, record_mark

SEEN_REFS = "seen"


class SeenRefs:
    """The memory of one clone for one store."""

    def __init__(self, local: pathlib.Path, store_id: str, tell: Callable[[str], None]) -> None:
        """Remember below `local` what is seen of a store; `tell` hears what is missed."""
        self._path = local / RECORDS_FOLDER / f"{SEEN_REFS}.json"
        self._records = LocalRecords(local)
        self._store = store_id
        self._tell = tell
        self._told: set[str] = set()
        self._fresh: dict[str, tuple[int, str]] = {}

    @cached_property
    def _known(self) -> dict[str, tuple[int, str]]:
        return _refs(self._records.read(SEEN_REFS), self._store)

    def seen(self, kind: str, name: str) -> tuple[int, str] | None:
        """See `RefMemory.seen`."""
        return self._known.get(f"{kind}/{name}")

    def all(self) -> dict[str, tuple[int, str]]:
        """Return number and mark of what was seen last of each ref, by `KIND/NAME`."""
        return dict(self._known)

    def saw(self, kind: str, name: str, record: RefRecord, *, wrote: bool = False) -> None:
        """See `RefMemory.saw`."""
        self._known[f"{kind}/{name}"] = self._fresh[f"{kind}/{name}"] = (record.number, record_mark(record))
        if wrote:
            self.flush()

    def missed(self, error: RolledBackError) -> None:
        """See `RefMemory.missed`."""
        if error.message not in self._told:
            self._told.add(error.message)
            self._tell(f"{error.message}; 'mvcs fsck' says more")

    def how_to_forget(self) -> str:
        """See `RefMemory.how_to_forget`."""
        return f"remove '{self._path}'"

    def flush(self) -> None:
        """Write what is new. Where that fails, the next process knows a little less, and no more is lost."""
        fresh, self._fresh = self._fresh, {}
        if fresh:
            # Writers come by here at every commit, and a power cut costs no more than the check.
            with suppress(OSError), self._records.change(SEEN_REFS, durable=False) as record:
                _raise(record, self._store, fresh)


def _refs(record: dict[str, Any], store_id: str) -> dict[str, tuple[int, str]]:
    """Read what was written for this store; anything odd counts as never seen."""
    refs = record.get("refs") if record.get("store") == store_id else None
    found = {}
    for name, value in refs.items() if isinstance(refs, dict) else ():
        match value:
            case [int(number), str(told)]:
                found[name] = (number, told)
    return found


def _raise(record: dict[str, Any], store_id: str, fresh: dict[str, tuple[int, str]]) -> None:
    """Bring a record up to what was seen; another process may have seen more."""
    known = _refs(record, store_id)
    for name, (number, told) in fresh.items():
        if name not in known or known[name][0] < number:
            known[name] = (number, told)
    record.clear()
    record |= {"store": store_id, "refs": {name: list(value) for name, value in sorted(known.items())}}
