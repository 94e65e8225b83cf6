"""A part of the packs at a time, in the order of their paths, so that after a round all were looked at.

Commits walk through the value packs as well, a little each, and compare checksums (`store_watch`). A sample
is larger, decodes what it takes, and goes through exact layers too. So it has a place of its own.
"""

import pathlib
import time
from collections.abc import Mapping
from dataclasses import dataclass

from mvcs.local.records import LocalRecords
from mvcs.store import pack_name

SUBJECT = "sampled"
_LATEST = 1 << 40  # seconds


@dataclass(frozen=True)
class Sample:
    """Packs that are looked at together.

    Attributes:
        paths: where they lie.
        after: the last path of this round so far; "" where the round ends with them.
        begun: when this round began, in seconds.
        before: when the round before began; None where there was none.
        done: the part of all bytes that this round has seen after them, from 0 to 1.
    """

    paths: tuple[str, ...]
    after: str
    begun: int
    before: int | None
    done: float

    @classmethod
    def due(cls, local: pathlib.Path | None, sizes: Mapping[str, int], share: float) -> "Sample":
        """Return the packs that are next: at least one, and so many that they have a share of all bytes."""
        record = LocalRecords(local).read(SUBJECT)
        packs = sorted(path for path in sizes if pack_name(path))
        after = record.get("after")
        after = after if isinstance(after, str) else ""
        begun, before = (_time(record.get(name)) for name in ("begun", "before"))
        total = sum(sizes[path] for path in packs)
        ahead = [path for path in packs if path > after]
        if not ahead or not after:
            begun, before, ahead = int(time.time()), begun, packs
        taken, size = list[str](), 0
        for path in ahead:
            if taken and size >= share * total:
                break
            taken.append(path)
            size += sizes[path]
        is_last = len(taken) == len(ahead)
        seen = sum(sizes[path] for path in packs if taken and path <= taken[-1])
        return cls(
            tuple(taken),
            "" if is_last or not taken else taken[-1],
            begun or int(time.time()),
            before,
            1.0 if is_last or not total else seen / total,
        )

    def looked(self, local: pathlib.Path | None) -> None:
        """Remember that these were looked at.

        Raises:
            StorageError: the record cannot be written.
        """
        with LocalRecords(local).change(SUBJECT) as record:
            record.clear()
            record |= {"after": self.after, "begun": self.begun}
            if self.before is not None:
                record["before"] = self.before

    @property
    def since(self) -> int | None:
        """Since when every pack was looked at, in seconds; None before the first round has ended."""
        return self.begun if not self.after else self.before


def _time(value: object) -> int | None:
    return value if type(value) is int and 0 < value < _LATEST else None
