"""Brings a store that was written before format 1 was closed over to its bytes of now.

Packs had a list of commits behind their entries then, and a ref record named the pack that ends its commit.
Entries stay byte for byte; all else is read by the few lines here, and written by the code of now.
"""

import json
import pathlib
import secrets
import shutil
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from mvcs.local.store_description import Description
from mvcs.objects import Commit, ObjectId, cbor
from mvcs.objects.ids import Kind, object_id
from mvcs.refs.record import RefRecord
from mvcs.retention.drops import Drop, DropRecord
from mvcs.store.backend.local import LocalBackend
from mvcs.store.manifests import MAX_ANCESTORS, DataDrop, Manifest, Manifests, Placement, WrittenCommit
from mvcs.store.packs.entry import read_entry
from mvcs.store.packs.pack import name_of
from mvcs.store.packs.written_commit import LastEntry, chunk_entry
from mvcs.store.reading.pack_files import pack_path
from mvcs.store.writing.pack_filler import SALT_BYTES
from tests.reference import reader_payloads as payloads
from tests.store.packing import PackBuilder

_TRAILER = 48


@dataclass
class OldPack:
    """A pack as it was: its bytes, where its entries lie with the ids in them, and what it says of commits.

    Each row of `commits` is the content of a commit, the pack that ends it, sizes, and its exact packs. The
    first row is the commit that this pack ends.
    """

    name: bytes
    data: bytes
    entries: list[tuple[int, list[bytes]]] = field(init=False)
    commits: list[tuple[bytes, bytes, list[int], list[bytes]]] = field(init=False)
    reach: list[bytes] = field(init=False)
    own: list[bytes] = field(init=False)

    def __post_init__(self) -> None:
        offset, _, size = struct.unpack_from("<QII", self.data[-_TRAILER:])
        assert self.data[8:12] == struct.pack("<HH", 1, 1)
        stored = self.data[offset:-_TRAILER]
        entries, commits, self.reach, self.own = cbor.loads(payloads.decode(stored[0], 0, [size], stored[1:]))
        self.entries = [(start, ids) for start, _, _, ids in entries]
        self.commits = [(content, pack or self.name, sizes, exact) for content, pack, sizes, exact in commits]

    def again(self, last: LastEntry | None) -> tuple[str, bytes]:
        """Return name and bytes of a pack with the same entries; what it said of its commit is left out."""
        builder = PackBuilder()
        for start, ids in self.entries[: len(self.entries) - bool(self.commits)]:
            entry, payload, _ = read_entry(self.data, start)
            builder.add(entry, payload, tuple(map(ObjectId, ids)))
        random = secrets.token_bytes(SALT_BYTES)
        builder.add(chunk_entry(SALT_BYTES), random, (object_id(Kind.CHUNK, random),))
        data = builder.finish(last)
        return name_of(data) or "", data


class Preview:
    """A store of before, in a folder, of which all packs are there but exact ones that were dropped."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.packs, self.exact = (
            {
                path.stem: OldPack(bytes.fromhex(path.stem), path.read_bytes())
                for path in sorted(folder.glob(each))
            }
            for each in ("packs/*/*.pack", "exact/*/*.pack")
        )
        self.renamed: dict[str, str] = {}

    def convert(self, target: pathlib.Path) -> None:
        """Write it to a folder that is not there yet."""
        others = ("packs", "exact", "refs", "format", "gc", "tmp", "drops", "mvcs.json")
        shutil.copytree(self.folder, target, ignore=shutil.ignore_patterns(*others))
        backend = LocalBackend(target)
        said = json.loads((self.folder / "mvcs.json").read_text())
        made = Description(said["store"], said["project"], said["default_branch"], said["exclusive_create"])
        backend.create("mvcs.json", made.encode())
        for name, pack in self.exact.items():
            self._write(backend, name, pack, None, exact=True)
        for name, pack in self.packs.items():
            self._write(backend, name, pack, self._last(pack))
        self._write_manifests(Manifests(backend))
        for folder in sorted(self.folder.glob("refs/*/*")):
            self._write_ref(backend, folder)
        for path in sorted(self.folder.glob("retention/drops/*"), reverse=True):
            self._write_drops(backend, path)

    def _write(
        self, backend: LocalBackend, old: str, pack: OldPack, last: LastEntry | None, *, exact: bool = False
    ) -> None:
        name, data = pack.again(last)
        backend.put(pack_path(name, exact=exact), data)
        self.renamed[old] = name

    def _last(self, pack: OldPack) -> LastEntry | None:
        if not pack.commits:
            return None
        _, _, sizes, exact = pack.commits[0]
        return LastEntry(tuple(sizes), self._names(exact))

    def _names(self, packs: list[bytes]) -> tuple[str, ...]:
        return tuple(self.renamed.get(pack.hex(), pack.hex()) for pack in packs)

    # Commits.

    def _endings(self) -> dict[bytes, OldPack]:
        """Return of each commit that refs lead to the pack that counts: that of a ref, or of a near child."""
        found: dict[bytes, OldPack] = {}
        queue = deque((fields[1], fields[2]) for _, fields in self._records() if fields[2])
        while queue:
            commit, name = queue.popleft()
            if commit not in found:
                found[commit] = self.packs[name.hex()]
                told = {object_id(Kind.COMMIT, row[0]): row[1] for row in found[commit].commits}
                queue.extend((parent, told[parent]) for parent in _parents(found[commit]) if parent in told)
        return found

    def _write_manifests(self, manifests: Manifests) -> None:
        endings, drops = self._endings(), self._data_drops()
        written = {commit: self._written(pack) for commit, pack in endings.items()}
        for commit, pack in endings.items():
            own = self._names([*pack.own, pack.name])
            placement = Placement(own, self._names(pack.reach), drops.get(commit))
            manifests.write(Manifest(written[commit], placement, tuple(_ancestors(written, pack))).counted())

    def _written(self, pack: OldPack) -> WrittenCommit:
        content, _, (raw, stored, *others), exact = pack.commits[0]
        identifier = object_id(Kind.COMMIT, content)
        return WrittenCommit(identifier, content, raw, stored + len(pack.data), *others, self._names(exact))

    # Records.

    def _records(self) -> Iterator[tuple[pathlib.Path, list[cbor.Value]]]:
        for path in sorted(self.folder.glob("refs/*/*/*"), reverse=True):
            yield path, _sealed(path)

    def _write_ref(self, backend: LocalBackend, folder: pathlib.Path) -> None:
        before = None
        for path in sorted(folder.iterdir(), reverse=True):
            number, target, _, _, time, author, action, content, write_id = _sealed(path)
            previous = None if before is None else before.digest
            before = RefRecord(number, target, previous, time, author, action, content, write_id)
            backend.create(path.relative_to(self.folder).as_posix(), before.encode())

    def _write_drops(self, backend: LocalBackend, path: pathlib.Path) -> None:
        number, rows = _sealed(path)
        drops = tuple(Drop(row[0], self._names(row[1]), row[2]) for row in rows if not _of_data(row))
        backend.create(path.relative_to(self.folder).as_posix(), DropRecord(number, drops).encode())

    def _data_drops(self) -> dict[bytes, DataDrop]:
        found: dict[bytes, DataDrop] = {}
        for path in sorted(self.folder.glob("retention/drops/*"), reverse=True):
            for row in filter(_of_data, _sealed(path)[1]):
                said = dict(row[3])
                found.pop(row[0], None)
                if said["data"]:
                    found[row[0]] = DataDrop(row[2], said.get("rules"), said.get("why", ""))
        return found


def _sealed(path: pathlib.Path) -> list[cbor.Value]:
    return cbor.loads(path.read_bytes()[8:-16])


def _of_data(row: list[cbor.Value]) -> bool:
    return len(row) == 4 and "data" in dict(row[3])


def _parents(pack: OldPack) -> tuple[ObjectId, ...]:
    return Commit.decode(pack.commits[0][0]).parents


def _ancestors(written: dict[bytes, WrittenCommit], pack: OldPack) -> list[WrittenCommit]:
    found: dict[bytes, WrittenCommit] = {}
    queue = deque(_parents(pack))
    while queue and len(found) < MAX_ANCESTORS:
        commit = queue.popleft()
        if commit in written and commit not in found:
            found[commit] = written[commit]
            queue.extend(Commit.decode(written[commit].content).parents)
    return list(found.values())


def convert_preview(source: pathlib.Path, target: pathlib.Path) -> None:
    """Write the store in a folder, of before format 1 was closed, to another folder, as it is now."""
    Preview(source).convert(target)
