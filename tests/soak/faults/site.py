"""A clone with its store and a remote, both in memory: copied at once, left by the dead, collected."""

import hashlib
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from mvcs import Repository
from mvcs.local import Trust
from mvcs.processes import Process
from mvcs.store import Backend, pack_name
from tests.soak.faults.struck import Strike, Struck
from tests.store.in_memory import MemoryBackend

OWN, FAR = "memory://own", "memory://far"
DAY = 24 * 3600
AGE = 30  # days, more than any grace


@dataclass(frozen=True)
class Known(Trust):
    """Opens stores that lie in memory, by their addresses."""

    stores: Mapping[str, Backend] = field(default_factory=dict)

    def open(self, url: str, options: Mapping[str, object] | None = None) -> Backend:
        del options
        return self.stores[url]

    def check(self, url: str) -> None:
        assert url in self.stores


@dataclass
class Site:
    """A folder of a clone, and the stores it knows.

    Attributes:
        folder: where `.mvcs` is, which holds what this clone alone knows.
        stores: by their addresses.
    """

    folder: Path
    stores: dict[str, MemoryBackend]

    @classmethod
    def at(cls, folder: Path) -> Self:
        return cls(folder, {OWN: MemoryBackend(), FAR: MemoryBackend()})

    def copy(self, folder: Path) -> "Site":
        shutil.copytree(self.folder, folder)
        return Site(folder, {url: store.copy() for url, store in self.stores.items()})

    def trust(self, strike: Strike | None = None) -> Trust:
        given = strike or Strike()
        found = {url: Struck(store, url, given) for url, store in self.stores.items()}
        return Known(None, frozenset({os.geteuid()}), found if strike else self.stores)

    def opened(self, strike: Strike | None = None) -> Repository:
        return Repository.open(self.folder, trust=self.trust(strike))

    def bare(self, url: str) -> Repository:
        """Open a store as somebody else does, who has no clone of it here."""
        return Repository.open(url, trust=self.trust())

    def files(self) -> dict[Path, bytes]:
        """What lies in the clone's folder."""
        return {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}

    def left_by_the_dead(self, files: dict[Path, bytes]) -> None:
        """Let the folder be as it was when the process died, whose files name a process that is gone."""
        for path in [path for path in self.folder.rglob("*") if path.is_file()]:
            path.unlink()
        here = Process.current()
        dead = str(Process(here.machine, here.number, here.started + 1))
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_name(path.name.replace(str(here), dead)).write_bytes(data)

    def grow_old(self, days: float) -> None:
        """Let all that was written have been written so long before."""
        for store in self.stores.values():
            store.grow_old(days)
        then = time.time() - days * DAY
        for path in self.folder.rglob("*"):
            os.utime(path, (then, then))

    def digest(self, url: str) -> bytes:
        found = hashlib.sha256()
        for name, (data, _) in sorted(self.stores[url].files.items()):
            found.update(f"{name}\0{len(data)}\0".encode() + data)
        return found.digest()

    def settle(self) -> None:
        """Collect both stores long after: condemn what nothing needs, and delete it when it has waited."""
        for _ in range(2):
            self.grow_old(AGE)
            with self.opened() as repo:
                repo.gc(grace_days=0, wait_days=1, execute=True)
                if "mvcs.json" in self.stores[FAR].files:
                    repo.gc(grace_days=0, wait_days=1, execute=True, remote="origin")

    def stored(self, url: str) -> int:
        """Return the bytes of all packs, and of whatever writers leave behind."""
        files = self.stores[url].files.items()
        return sum(len(data) for name, (data, _) in files if pack_name(name) or name.startswith("tmp/"))
